"""Networks with one odd thing each: what an analysis of channels can take for something else."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd
from tests.zoo import Forward, conv, entry, head, image, stem


def odd(**parts: Any) -> Callable[[Callable[..., Any]], None]:
    """Register a network: a stem of 6 channels with its activation, then the function, then a classifier.

    The function gets the model and the quantized features; what it returns is averaged to (N, channels)
    unless it is `flat` already.
    `parts` are modules, or functions of the levels that make one.
    """

    def add(run: Callable[..., Any]) -> None:
        def make(levels: int) -> tuple[nn.Module, Any]:
            modules = {
                name: copy.deepcopy(p) if isinstance(p, nn.Module) else p(levels)
                for name, p in parts.items()
                if name not in ("channels", "size", "width", "flat")
            }
            width = parts.get("width", 6)
            first = nn.Sequential(*stem(width, levels))
            fc = nn.Linear(parts.get("channels", width), 5)

            def forward(self: nn.Module, x: Tensor) -> Tensor:
                y = run(self, self.first(x))
                return self.fc(y if parts.get("flat") else y.mean((2, 3)))

            return Forward(forward, first=first, fc=fc, **modules), image(size=parts.get("size", 8))

        make.__name__ = run.__name__
        entry(make)

    return add


def act(levels: int) -> nn.Module:
    return bd.nn.QuantAct(levels)


def unit(a: int, b: int, k: int = 3) -> Callable[[int], nn.Module]:
    return lambda levels: nn.Sequential(conv(a, b, k), nn.BatchNorm2d(b), bd.nn.QuantAct(levels))


@odd(channels=8, flat=True)
def mean_of_channels(m: nn.Module, x: Tensor) -> Tensor:
    return x.mean(1).mean(1)  # (N, 8, 8), then (N, 8)


@odd(width=8, channels=8, flat=True)
def mean_of_as_many_channels_as_rows(m: nn.Module, x: Tensor) -> Tensor:
    return x.mean(1).mean(2)


@odd(flat=True)
def mean_kept(m: nn.Module, x: Tensor) -> Tensor:
    return x.mean(dim=(-1, -2), keepdim=True).squeeze(3).squeeze(2)


@odd(flat=True)
def largest(m: nn.Module, x: Tensor) -> Tensor:
    return x.amax([2, 3]) + x.max(3).values.max(2)[0]


@odd(c=unit(3, 4), d=unit(3, 4), channels=4)
def channel_slice(m: nn.Module, x: Tensor) -> Tensor:
    return m.c(x[:, :3]) + m.d(x[:, 3:])


@odd(c=unit(3, 4), channels=7)
def chunks(m: nn.Module, x: Tensor) -> Tensor:
    a, b = x.chunk(2, 1)
    return torch.cat([m.c(a), b], 1)


@odd(c=unit(6, 6))
def ellipsis(m: nn.Module, x: Tensor) -> Tensor:
    return m.c(x[..., ::2, ::2])


@odd(p=nn.AvgPool2d(2), q=nn.MaxPool2d(2), flat=True)
def average_then_maximum(m: nn.Module, x: Tensor) -> Tensor:
    return m.q(m.p(x)).amax((2, 3))


@odd(p=nn.AvgPool2d(3, 2, padding=1), c=unit(6, 5), channels=5)
def padded_average(m: nn.Module, x: Tensor) -> Tensor:
    return m.c(m.p(x))


@odd(p=nn.AvgPool2d(2, divisor_override=1), b=nn.BatchNorm2d(6), a=act)
def sum_pool(m: nn.Module, x: Tensor) -> Tensor:
    y = m.b(x)
    return m.a(m.p(y)) + m.a(F.avg_pool2d(y, 2, divisor_override=3))


@odd(c=unit(6, 6), d=unit(6, 6), size=9)
def explicit_padding(m: nn.Module, x: Tensor) -> Tensor:
    return m.c(F.pad(x, (1, 1, 1, 1))) + m.d(F.pad(x, [2, 0, 1, 1], mode="reflect"))


@odd(z=nn.ZeroPad2d(1), r=nn.ReflectionPad2d(1), c=unit(6, 6), b=nn.BatchNorm2d(6), a=act)
def padding_modules(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.r(m.b(m.c(m.z(x)))))


@odd(c=unit(6, 6), k=lambda levels: nn.Conv2d(6, 6, 3, padding=1, padding_mode="circular"), a=act)
def padding_mode(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.k(m.c(x)))


@odd(c=lambda levels: nn.Conv2d(6, 7, 3, padding=1), a=act, channels=7)
def no_norm(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.c(x))


@odd(c=lambda levels: conv(6, 7), p=nn.MaxPool2d(2), a=act, channels=7)
def conv_pool_act(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.p(m.c(x)))


@odd(c=lambda levels: bd.nn.BinaryConv2d(6, 4, 3, padding=1), d=lambda levels: conv(6, 4), a=act, channels=10)
def several_consumers(m: nn.Module, x: Tensor) -> Tensor:
    return torch.cat([m.a(m.c(x) + m.d(x)), x], 1)


@odd(c=lambda levels: conv(6, 6), b=nn.BatchNorm2d(6), a=lambda levels: bd.nn.QuantAct(levels + 1))
def mixed_levels(m: nn.Module, x: Tensor) -> Tensor:
    y = m.b(m.c(x))
    return m.a(y) + y


@odd(c=lambda levels: conv(6, 6), a=lambda levels: bd.nn.QuantAct(2), n=lambda levels: bd.nn.QuantAct(None))
def binary_and_float_left_alone(m: nn.Module, x: Tensor) -> Tensor:
    y = m.c(x)
    return m.a(y) + m.n(y)


@odd(b=nn.BatchNorm2d(6, affine=False), c=lambda levels: conv(6, 6), a=act)
def bn_without_affine(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.b(m.c(x)))


@odd(b=nn.BatchNorm2d(6, track_running_stats=False), c=lambda levels: conv(6, 6), a=act)
def bn_without_statistics(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.b(m.c(x)))


@odd(b=nn.BatchNorm2d(6, affine=False, track_running_stats=False), c=lambda levels: conv(6, 6), a=act)
def bn_without_anything(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.b(m.c(x)))


@odd(b=nn.BatchNorm2d(6, momentum=None), c=lambda levels: conv(6, 6), a=act)
def bn_cumulative(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.b(m.c(x)))


@odd(g=nn.GroupNorm(2, 6), c=lambda levels: conv(6, 6), a=act, p=nn.PReLU(6))
def group_norm(m: nn.Module, x: Tensor) -> Tensor:
    return m.p(m.a(m.g(m.c(x))))


@odd(d=nn.Dropout(0.3), e=nn.Dropout2d(0.2), c=lambda levels: conv(6, 6), b=nn.BatchNorm2d(6), a=act)
def dropouts(m: nn.Module, x: Tensor) -> Tensor:
    return F.dropout(m.d(m.a(m.e(m.b(m.c(x))))), 0.4, m.training)


@odd(c=lambda levels: conv(6, 6), a=act)
def act_twice(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.a(m.c(x)) + 0.1)


@odd(c=lambda levels: conv(6, 6), b=nn.BatchNorm2d(6), a=act)
def arithmetic(m: nn.Module, x: Tensor) -> Tensor:
    y = m.b(m.c(x))
    return m.a(y) + 1 + 2 * x + x * x - y / x.shape[1] + torch.add(x, y, alpha=2) + sum([x, y])


@odd(c=lambda levels: conv(6, 6), b=nn.BatchNorm2d(6), a=act)
def width_in_arithmetic(m: nn.Module, x: Tensor) -> Tensor:
    y = m.a(m.b(m.c(x)))
    return y / math.sqrt(y.shape[2]) * y.size(1) + torch.full((1, x.shape[1], 1, 1), 0.5, dtype=x.dtype)


@odd(c=lambda levels: conv(6, 6), b=nn.BatchNorm2d(6), a=act)
def in_place_and_read_later(m: nn.Module, x: Tensor) -> Tensor:
    y = m.b(m.c(x))
    y.add_(x)
    z = m.a(y)
    y.mul_(0.5)
    return z + y


@odd(c=lambda levels: conv(6, 6), b=nn.BatchNorm2d(6), r=nn.ReLU(inplace=True), a=act)
def relu_in_place(m: nn.Module, x: Tensor) -> Tensor:
    y = m.b(m.c(x))
    z = m.r(y)
    return m.a(y) + z


@odd(c=lambda levels: nn.Conv2d(6, 1, 3, padding=1), a=act, channels=8, flat=True)
def one_channel_squeezed(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.c(x)).squeeze(1).mean(1)


@odd(a=act, c=lambda levels: conv(16, 6, 1), b=nn.BatchNorm2d(16), width=16, channels=6, size=4)
def view_by_coincidence(m: nn.Module, x: Tensor) -> Tensor:
    n = x.shape[0]
    tokens = m.b(x).view(n, 16, 16)  # (N, C, H * W), with as many places as channels
    return m.c(m.a(tokens.transpose(1, 2)).reshape(n, 16, 4, 4))


@odd(f=lambda levels: nn.Linear(96, 7), a=act, channels=7, size=4, flat=True)
def flat_literal(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.f(x.view(4, 96)))


@odd(f=lambda levels: nn.Linear(6, 6), b=nn.BatchNorm1d(6), a=act, flat=True)
def square_literals(m: nn.Module, x: Tensor) -> Tensor:
    y = F.adaptive_avg_pool2d(x, (2, 3)).reshape(-1, 6, 6)
    return m.a(m.b(m.f(y))).mean(2)


@odd(f=lambda levels: nn.Linear(2, 2), a=act, width=2)
def two_channels(m: nn.Module, x: Tensor) -> Tensor:
    return m.a(m.f(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


@odd(f=lambda levels: nn.Linear(6, 9), g=lambda levels: nn.Linear(9, 6), a=act, p=nn.MaxPool1d(2), flat=True)
def tokens(m: nn.Module, x: Tensor) -> Tensor:
    y = m.a(m.f(x.flatten(2).transpose(1, 2)))  # (N, T, 9)
    z = m.p(y)[:, :, :1] + y[:, 0].unsqueeze(1)
    return m.g(z).mean(1)


@odd(
    f=lambda levels: nn.Linear(6, 9), b=nn.BatchNorm1d(64), g=lambda levels: nn.Linear(9, 6), a=act, flat=True
)
def norm_of_tokens(m: nn.Module, x: Tensor) -> Tensor:
    return m.g(m.a(m.b(m.f(x.flatten(2).transpose(1, 2))))).mean(dim=1)


@odd(c=lambda levels: conv(6, 6), b=nn.BatchNorm2d(6), a=act)
def gates(m: nn.Module, x: Tensor) -> Tensor:
    g = torch.sigmoid(x.mean((2, 3)))
    return m.a(m.b(m.c(x)) * g[:, :, None, None] + g.unsqueeze(-1).unsqueeze(-1))


@odd(
    a=act, layers=lambda levels: nn.ModuleDict({"c": conv(6, 6), "b": nn.BatchNorm2d(6), "p": nn.Identity()})
)
def module_dict(m: nn.Module, x: Tensor) -> Tensor:
    for name in ("c", "b", "p"):
        x = m.layers[name](x)
    return m.a(x)


@odd(c=lambda levels: nn.Sequential(*unit(6, 6)(levels), *unit(6, 4)(levels)), channels=4)
def sliced_sequence(m: nn.Module, x: Tensor) -> Tensor:
    return m.c[3:](m.c[:3](x))


@odd(c=lambda levels: nn.Sequential(*unit(6, 6)(levels), *unit(6, 4)(levels)), channels=4)
def looks_at_its_modules(m: nn.Module, x: Tensor) -> Tensor:
    for layer in m.c:
        if not isinstance(layer, nn.Sequential):  # what was swapped would be skipped
            x = layer(x)
    return x * (m.c[3].out_channels / 4)


@odd(
    u=nn.Upsample(scale_factor=2),
    c=unit(6, 6),
    b=nn.BatchNorm2d(6),
    a=act,
    s=nn.PixelShuffle(2),
    d=lambda levels: conv(6, 8),
    channels=2,
)
def upsampling(m: nn.Module, x: Tensor) -> Tensor:
    y = F.interpolate(m.u(m.c(x)), scale_factor=0.5, mode="bilinear", align_corners=False)
    return m.s(m.d(m.a(m.b(y))))


@odd(k=unit(6, 6), t=lambda levels: nn.MultiheadAttention(6, 2, batch_first=True), flat=True)
def attention(m: nn.Module, x: Tensor) -> Tensor:
    y = m.k(x).flatten(2).transpose(1, 2)
    return m.t(y, y, y, need_weights=False)[0].mean(1)


@odd(c=lambda levels: conv(6, 6), a=act, e=lambda levels: conv(12, 6))
def added_concatenations(m: nn.Module, x: Tensor) -> Tensor:
    y = m.c(x)
    return m.e(m.a(torch.cat([x, y], 1) + torch.cat([y, x], dim=1)))


class Heads(nn.Module):
    def __init__(self, levels: int) -> None:
        super().__init__()
        self.a, self.b = nn.Sequential(*stem(5, levels)), nn.Sequential(*stem(5, levels))
        self.mix, self.act = conv(10, 6), bd.nn.QuantAct(levels)
        self.fc = nn.Linear(6, 3)

    def forward(self, left: Tensor, right: Tensor, scale: float = 1.0, mask: Tensor | None = None) -> Any:
        features = self.act(self.mix(torch.cat((self.a(left), self.b(right)), dim=-3)) * scale)
        if mask is not None:
            features = features * mask
        return {"logits": self.fc(features.mean((2, 3))), "features": (features, features.shape[1])}


@entry
def two_inputs_and_a_dictionary(levels: int) -> tuple[nn.Module, Any]:
    return Heads(levels), (image(), image())


@entry
def act_on_the_input(levels: int) -> tuple[nn.Module, Any]:
    return nn.Sequential(
        bd.nn.QuantAct(levels), conv(3, 6), nn.BatchNorm2d(6), act(levels), *head(6)
    ), image()


@entry
def act_at_the_end(levels: int) -> tuple[nn.Module, Any]:
    return nn.Sequential(*stem(6, levels), nn.Flatten(), nn.Linear(384, 5), act(levels)), image()


class Aliased(nn.Module):
    def __init__(self, levels: int) -> None:
        super().__init__()
        self.conv1, self.bn1, self.act = conv(3, 6), nn.BatchNorm2d(6), bd.nn.QuantAct(levels)
        self.conv2, self.bn2 = conv(6, 6), nn.BatchNorm2d(6)
        self.body = nn.Sequential(self.conv1, self.bn1, self.act, self.conv2, self.bn2, self.act)
        self.order = [self.conv1, self.bn1]
        self.fc = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.body(x).mean((-1, -2)))


@entry
def modules_with_two_names(levels: int) -> tuple[nn.Module, Any]:
    return Aliased(levels), image()


class Listed(Aliased):
    def forward(self, x: Tensor) -> Tensor:
        for layer in self.order:
            x = layer(x)
        return self.fc(self.bn2(self.conv2(self.act(x))).mean((-1, -2)))


@entry
def modules_in_a_plain_list(levels: int) -> tuple[nn.Module, Any]:
    return Listed(levels), image()


class Same(nn.Conv2d):
    """A subclass that only changes the defaults."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after, 3, padding=1)


class Standardised(nn.Conv2d):
    """A subclass that computes something else."""

    def forward(self, input: Tensor) -> Tensor:
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(input, weight, self.bias, padding=1)


class Act(bd.nn.QuantAct):
    """The user's own name for it."""


@entry
def subclassed_layers(levels: int) -> tuple[nn.Module, Any]:
    body = [Same(3, 6), nn.BatchNorm2d(6), Act(levels), Standardised(6, 6, 3), Act(levels)]
    return nn.Sequential(*body, *head(6)), image()

"""Modules that make, carry and undo the copies of a decoupled network's channels.

Decoupling turns C channels into `copies` × C channels, blocked: all channels of copy 1, then all of copy 2.
Before an activation, copy i is the coupled value plus the shift s_i = 1/2 - (i - 1/2)/copies; behind it, the
copies are bits whose mean is the coupled activation. The shifts add up to zero, so that in both places the
mean of the copies is the coupled network's value. (With learned thresholds they
are 1/2 - t_i: `transform.shifts`.)

Paper: Equation 5; Section 5.1.
"""

import torch
from torch import Tensor, nn

from binaryduo.ste import thresholds


def shifts(copies: int) -> list[float]:
    """What is added to each copy so that a threshold of 1/2 tells the levels apart.

    >>> shifts(2)
    [0.25, -0.25]
    """
    return [0.5 - t for t in thresholds(copies + 1)]


def shift_vector(channels: int, copies: int, times: int, like: Tensor) -> Tensor:
    """The shifts of all copies × channels, times a whole number. Shape (copies * channels,).

    >>> shift_vector(2, 2, 1, torch.empty(0)).tolist()
    [0.25, 0.25, -0.25, -0.25]
    """
    values = torch.tensor(shifts(copies), dtype=torch.float64) * times
    return values.repeat_interleave(channels).to(device=like.device, dtype=like.dtype)


class AverageCopies(nn.Module):
    """The mean over copies: copies × C channels become C, the values of the coupled network.

    `index` (copies * C) selects the channels first where they are not blocked, as behind a concatenation.

    >>> AverageCopies(2)(torch.tensor([[1.0, 0.0, 1.0, 1.0]])).tolist()
    [[1.0, 0.5]]
    """

    index: Tensor | None

    def __init__(self, copies: int, index: Tensor | None = None, dim: int = 1) -> None:
        super().__init__()
        self.copies, self.dim = copies, dim
        self.register_buffer("index", index)

    def forward(self, x: Tensor) -> Tensor:
        if self.index is not None:
            x = x.index_select(self.dim, self.index)
        first, *rest = x.chunk(self.copies, self.dim)
        for part in rest:
            first = first + part
        return first / self.copies

    def extra_repr(self) -> str:
        return f"copies={self.copies}"


class ReplicateCopies(nn.Module):
    """C channels become copies × C, each with a bias of its own that starts as the copy's shift.

    With `copies=1` nothing is replicated and only the bias is added; with `bias=None` no bias is.

    >>> ReplicateCopies(torch.tensor([0.25, -0.25]), copies=2)(torch.tensor([[0.5]])).tolist()
    [[0.75, 0.25]]
    """

    bias: nn.Parameter | None

    def __init__(self, bias: Tensor | None, copies: int, dim: int = 1) -> None:
        super().__init__()
        self.copies, self.dim = copies, dim
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias))

    def forward(self, x: Tensor) -> Tensor:
        if self.copies > 1:
            x = torch.cat([x] * self.copies, self.dim)
        if self.bias is None:
            return x
        return x + self.bias.view([-1 if d == self.dim else 1 for d in range(x.dim())])

    def extra_repr(self) -> str:
        return f"copies={self.copies}"


class SelectChannels(nn.Module):
    """Channels in another order, some of them several times: what a grouped or a binary layer needs.

    >>> SelectChannels(torch.tensor([1, 0, 1]))(torch.tensor([[5.0, 7.0]])).tolist()
    [[7.0, 5.0, 7.0]]
    """

    index: Tensor

    def __init__(self, index: Tensor, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim
        self.register_buffer("index", index)

    def forward(self, x: Tensor) -> Tensor:
        return x.index_select(self.dim, self.index)

    def extra_repr(self) -> str:
        return f"channels={len(self.index)}"


class _CopiedBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation that replicates its input's channels: C in, copies × C out.

    The copies have the same input, so they share one mean and one variance (C values each, computed once);
    each copy has its own weight and bias (copies * C values).
    """

    copies: int

    @classmethod
    def of(
        cls, norm: nn.modules.batchnorm._BatchNorm, copies: int, shift: Tensor | None = None
    ) -> "_CopiedBatchNorm":
        """The copied form of a batch normalisation, with `shift` (copies * C,) added to the biases: the paper's
        where it is None."""
        new = cls(norm.num_features, norm.eps, norm.momentum, affine=False, track_running_stats=False)
        new.copies = copies
        new.track_running_stats = norm.track_running_stats
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            value = getattr(norm, name)
            setattr(new, name, None if value is None else value.clone())
        channels = norm.num_features
        given = (norm.weight, norm.bias, norm.running_mean, shift)
        like = next((t for t in given if t is not None), torch.empty(0))
        weight = like.new_ones(channels) if norm.weight is None else norm.weight.detach()
        bias = like.new_zeros(channels) if norm.bias is None else norm.bias.detach()
        learn = norm.weight is None or norm.weight.requires_grad
        new.affine = True
        new.weight = nn.Parameter(weight.repeat(copies), requires_grad=learn)
        shift = shift_vector(channels, copies, 1, like) if shift is None else shift.to(like)
        learn = learn if norm.bias is None else norm.bias.requires_grad
        new.bias = nn.Parameter(bias.repeat(copies) + shift, requires_grad=learn)
        return new.train(norm.training)

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.affine:
            nn.init.ones_(self.weight)
            with torch.no_grad():
                self.bias.copy_(shift_vector(self.num_features, self.copies, 1, self.bias))

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)  # type: ignore[no-untyped-call]
        update = self.training and self.track_running_stats
        if update and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        momentum = self.momentum
        if momentum is None:
            momentum = 1.0 / float(self.num_batches_tracked) if update else 0.0  # type: ignore[arg-type]
        weights, biases = self.weight.chunk(self.copies), self.bias.chunk(self.copies)
        if self.training or self.running_mean is None:
            stats = (self.running_mean, self.running_var) if update else (None, None)
            plain = nn.functional.batch_norm(input, *stats, None, None, True, momentum, self.eps)
            shape = (1, -1) + (1,) * (input.dim() - 2)
            parts = [
                torch.addcmul(b.view(shape), plain, w.view(shape)).to(plain.dtype)
                for w, b in zip(weights, biases, strict=True)
            ]
        else:
            # The same arithmetic as the coupled network's BN, so that rounding differs as little as possible.
            parts = [
                nn.functional.batch_norm(
                    input, self.running_mean, self.running_var, w, b, False, 0.0, self.eps
                )
                for w, b in zip(weights, biases, strict=True)
            ]
        return torch.cat(parts, 1)

    def extra_repr(self) -> str:
        return f"{self.num_features} -> {self.copies * self.num_features}, copies={self.copies}"


class CopiedBatchNorm1d(_CopiedBatchNorm, nn.BatchNorm1d):
    """Replicating batch normalisation for (N, C) or (N, C, L): C channels in, copies × C out.

    >>> CopiedBatchNorm1d.of(nn.BatchNorm1d(3), copies=2)(torch.randn(4, 3)).shape
    torch.Size([4, 6])
    """


class CopiedBatchNorm2d(_CopiedBatchNorm, nn.BatchNorm2d):
    """Replicating batch normalisation for (N, C, H, W): C channels in, copies × C out.

    >>> CopiedBatchNorm2d.of(nn.BatchNorm2d(3), copies=2)(torch.randn(4, 3, 5, 5)).shape
    torch.Size([4, 6, 5, 5])
    """


def copied_batch_norm(
    norm: nn.modules.batchnorm._BatchNorm, copies: int, shift: Tensor | None = None
) -> _CopiedBatchNorm:
    """The replicating form of a BatchNorm1d or BatchNorm2d; `shift` as in its `of`.

    >>> copied_batch_norm(nn.BatchNorm2d(8), copies=2).bias[[0, 8]].tolist()
    [0.25, -0.25]
    """
    kind = CopiedBatchNorm1d if isinstance(norm, nn.BatchNorm1d) else CopiedBatchNorm2d
    return kind.of(norm, copies, shift)

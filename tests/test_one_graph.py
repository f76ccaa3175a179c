"""One graph for everything: every verb reads the same table, and they agree on what they read."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd
from binaryduo.engine.program import Code
from binaryduo.graph.analysis import analyse
from binaryduo.graph.operations import Kind
from binaryduo.graph.table import TABLE
from binaryduo.packing.lowering import rule_of
from tests import zoo, zoo_odd  # noqa: F401 (registers its networks)
from tests.engine.test_pack import trained_like
from tests.zoo import ZOO

WAYS: dict[str, Any] = {
    "slice": lambda x: x[:, 4:12],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "split": lambda x: x.split([8, 8], 1)[0],
    "half of what there is": lambda x: x[:, x.shape[1] // 2 :],
    "narrow": lambda x: x.narrow(1, 3, 8),
    "roll": lambda x: torch.roll(x, 3, 1)[:, :8],
    "flip": lambda x: x.flip(1)[:, 8:],
    "shuffle": lambda x: x.view(-1, 2, 8, 6, 6).transpose(1, 2).reshape(-1, 16, 6, 6)[:, :8],
    "zero channels": lambda x: F.pad(x[:, :6], (0, 0, 0, 0, 1, 1)),
    "pixels": lambda x: x[:, :8, ::2, ::2],
    "narrow of what there is": lambda x: x.narrow(1, 0, x.size(1) // 2),
    "cut to a computed size": lambda x: x[:, :8, : x.size(2) - 1, 1 : x.shape[-1]],
    "all but the last column": lambda x: x[:, 8:][..., : x.size(3) - 1],
    "shuffle of single channels": lambda x: (
        x.view(-1, 16, 1, 36).transpose(1, 2).reshape(-1, 16, 6, 6)[:, :8]
    ),
    "shuffle that counts": lambda x: (
        x.view(x.size(0), 16, x.size(1) // 16, -1).transpose(1, 2).reshape(x.size())[:, 8:]
    ),
    "flat and back": lambda x: x.flatten(2).view(-1, 16, 6, 6)[:, :8],
    "index": lambda x: x.index_select(1, torch.arange(15, 7, -1)),
    "a list": lambda x: x[:, [3, 1, 4, 15, 9, 2, 6, 5]],
    "a tensor": lambda x: x[:, torch.tensor([3, 1, -12, 15, 9, 2, 6, 5])],
    "a mask": lambda x: x[:, torch.arange(16) % 2 == 0],
    "by its rank": lambda x: x[:, :8] if x.dim() == 4 and x.ndim == len(x.shape) else x,
    "starred sizes": lambda x: (
        x.view(x.size(0), 2, -1, *x.shape[2:]).transpose(1, 2).reshape(x.size(0), -1, *x.shape[2:])[:, :8]
    ),
    "a loop over parts": lambda x: torch.cat([part.flip(1) for part in x.chunk(4, 1)][1:3], 1),
    "a branch on a size": lambda x: x[:, :8, 1:] if x.shape[-1] % 2 == 0 else x[:, :8],
    "all of it": lambda x: x[:, :16][:, :8],
    "all of it, by name": lambda x: x.narrow(1, 0, 16)[:, :8],
}


class Moved(nn.Module):
    """Bits that are moved about in front of a one-bit layer."""

    def __init__(self, way: str, levels: int = 2) -> None:
        super().__init__()
        self.way = way
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.act = bd.nn.QuantAct(levels)
        self.layer, self.norm2 = bd.nn.BinaryConv2d(8, 12, 3, padding=1), nn.BatchNorm2d(12)
        self.act2, self.head = bd.nn.QuantAct(levels), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = WAYS[self.way](self.act(self.norm(self.first(x))))
        return self.head(self.act2(self.norm2(self.layer(x))).mean((2, 3)))


def binary_in_file(path: Path) -> set[str]:
    return {op.name for op in bd.load(path).program.ops if op.code == Code.BINARY_CONV}


def binary_in_cost(model: nn.Module, example: Any) -> set[str]:
    return {layer.name.split(".")[0] for layer in bd.cost(model, example).layers if layer.binary}


@pytest.mark.parametrize("way", WAYS)
def test_cost_and_pack_agree_behind_whatever_moves_bits(way: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = trained_like(Moved(way)), torch.randn(4, 3, 6, 6)
    bd.pack(model, x, tmp_path / "net.duo", verbose=False)
    assert binary_in_cost(model, x) == binary_in_file(tmp_path / "net.duo") == {"layer"}


@pytest.mark.parametrize("way", WAYS)
def test_bits_stay_bits_when_decoupled(way: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = trained_like(Moved(way, levels=3)), torch.randn(4, 3, 6, 6)
    binary = bd.decouple(model, x)
    assert binary_in_cost(binary, x) == {"layer"}
    bd.pack(binary, x, tmp_path / "net.duo", verbose=False)
    assert len(binary_in_file(tmp_path / "net.duo")) == 1
    doubles = model.double().eval()(x.double())
    assert (doubles - bd.decouple(model, x.double()).eval()(x.double())).abs().max() < 1e-10


@pytest.mark.parametrize("way", ["slice", "chunk", "split"])
def test_neighbouring_channels_are_narrowed(way: str) -> None:
    coupled = bd.couple(Moved(way), torch.randn(2, 3, 6, 6))
    assert coupled.first.out_channels < 16
    assert coupled.layer.in_channels < 8
    coupled(torch.randn(2, 3, 6, 6))


@pytest.mark.parametrize("name", sorted(ZOO))
def test_cost_and_pack_agree_on_which_layers_are_binary(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, example = ZOO[name](2)
    for module in model.modules():  # a zoo of one-bit layers
        if type(module) in (nn.Conv2d, nn.Linear):
            module.__class__ = bd.nn.BinaryConv2d if type(module) is nn.Conv2d else bd.nn.BinaryLinear
    try:
        bd.pack(model.eval(), example, tmp_path / "net.duo", verbose=False)
    except bd.BinaryDuoError:
        return  # refused by name: there is no file to compare with
    layers = {str(n.target): n.name for n in analyse(model, example).of_kind(Kind.LAYER)}
    counted = {layer.name for layer in bd.cost(model, example).layers if layer.binary}
    for layer, node in layers.items():  # a grouped layer is written as one operation for each group
        others = (f"{node}_group_", f"{node}_padded_")
        written = [n for n in binary_in_file(tmp_path / "net.duo") if n == layer or n.startswith(others)]
        assert bool(written) == (layer in counted), layer


@pytest.mark.parametrize("row", [row for row in TABLE if row.lower is not None], ids=lambda row: row.name)
def test_every_row_names_a_rule_that_exists(row: Any) -> None:
    assert callable(rule_of(row.lower))


def test_a_meaning_stands_in_one_row() -> None:
    written = [w for row in TABLE for w in (*row.functions, *row.methods)]
    assert len(written) == len(set(map(id, (w for w in written if not isinstance(w, str))))) + len(
        {w for w in written if isinstance(w, str)}
    )


def test_a_padded_average_is_one_kind_however_it_is_written() -> None:
    class Functional(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.avg_pool2d(x, 3, 1, 1, False, False)

    for padded, kind in ((True, Kind.WEIGHTED), (False, Kind.POOL)):
        module = nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=padded))
        found = {i.kind for i in analyse(module, torch.zeros(1, 2, 4, 4)).info.values()}
        assert kind in found
    assert Kind.POOL in {i.kind for i in analyse(Functional(), torch.zeros(1, 2, 4, 4)).info.values()}


PICKLED = """
import pickle, sys, torch, binaryduo as bd
model, x, wanted = torch.load(sys.argv[1], weights_only=False)
assert torch.equal(model(x), wanted)
assert type(model).__name__ == "Moved"
bd.pack(model, x, sys.argv[2], verbose=False)
model.train()(x).sum().backward()
print("fine")
"""


def test_a_rewritten_model_is_saved_and_goes_on_in_another_process(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 3, 6, 6)
    binary = bd.decouple(trained_like(Moved("shuffle", levels=3)), x).eval()
    assert "selection_0" in dict(binary.named_children())  # forward() had to be rewritten
    again = pickle.loads(pickle.dumps(binary))
    assert torch.equal(again(x), binary(x))
    assert type(again) is type(binary)
    torch.save((binary, x, binary(x).detach()), tmp_path / "net.pt")
    done = subprocess.run(
        [sys.executable, "-c", PICKLED, str(tmp_path / "net.pt"), str(tmp_path / "net.duo")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.stdout == "fine\n", done.stderr


class Shuffled(nn.Module):
    """A channel shuffle as ShuffleNet writes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.size()
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def test_a_sequence_does_not_run_what_the_canonical_graph_added() -> None:
    """With as many outputs as shuffled channels the outputs came out shuffled, without a word."""
    torch.manual_seed(0)
    part = [nn.Conv2d(3, 12, 1), nn.BatchNorm2d(12), bd.nn.QuantAct(), Shuffled()]
    more = [nn.Conv2d(12, 16, 1), nn.BatchNorm2d(16), bd.nn.QuantAct()]
    model = nn.Sequential(*part, *more, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 12))
    x = torch.randn(4, 3, 6, 6)
    coupled = bd.couple(model, x).eval()
    assert [name for name, _ in coupled.named_children()] == [name for name, _ in model.named_children()]
    assert "the order of channels by .reshape() in forward()" in coupled.coupling.kept["0"]
    binary, y = bd.decouple(coupled, x), x
    for child in coupled.children():
        y = child(y)
    assert torch.equal(coupled(x), y)
    assert torch.allclose(binary(x), y, atol=1e-5)


def test_shuffled_bits_and_floats_stay_in_the_budget() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.act, self.shuffle = (
                nn.Conv2d(3, 6, 1),
                nn.Conv2d(3, 6, 1),
                bd.nn.QuantAct(),
                Shuffled(),
            )
            self.c, self.norm, self.fc = nn.Conv2d(12, 24, 3), nn.BatchNorm2d(24), nn.Linear(24, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.shuffle(torch.cat([self.act(self.a(x)), self.b(x)], 1))
            return self.fc(self.act(self.norm(self.c(y))).mean((2, 3)))

    model, x = Mixed(), torch.randn(2, 3, 6, 6)
    coupled = bd.couple(model, x)
    binary = bd.decouple(coupled.eval(), x)
    weights = [sum(p.numel() for p in m.parameters() if p.dim() > 1) for m in (model, binary)]
    assert weights[1] <= weights[0]
    assert coupled.coupling.decoupled_weights == weights[1]


class Branching(nn.Module):
    """A width that stands in the code, so that forward() is written anew, and a branch on something."""

    def __init__(self, asked: Any) -> None:
        super().__init__()
        self.first, self.norm, self.act = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), bd.nn.QuantAct()
        self.layer, self.head, self.asked = nn.Conv2d(16, 16, 1), nn.Linear(16, 5), asked

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.first(x)))
        y = x * 2 if self.asked(x) else x
        return self.head(self.act(self.layer(y)).mean((2, 3)).view(-1, 16))


def test_a_branch_is_taken_as_with_the_example_or_not_at_all() -> None:
    model, x = Branching(lambda x: x.shape[-1] % 2 == 0), torch.randn(4, 3, 6, 6)
    coupled = bd.couple(model, x).eval()
    assert coupled.layer.out_channels == 11
    inner = coupled.act(coupled.norm(coupled.first(x)))
    assert torch.equal(coupled(x), coupled.head(coupled.act(coupled.layer(2 * inner)).mean((2, 3))))
    with pytest.raises(AssertionError, match="another branch than with the example"):
        coupled(torch.randn(4, 3, 7, 7))


def test_channels_that_a_branch_counts_keep_their_number() -> None:
    coupled = bd.couple(Branching(lambda x: x.shape[1] == 16), torch.randn(4, 3, 6, 6))
    assert coupled.first.out_channels == 16
    assert "forward() computes with their number" in coupled.coupling.kept["first"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (lambda x: x.shape[0] > 2, "cannot be traced"),  # of any number of images
        (lambda x: bool((x > 0).any()), "Control flow that depends on data"),
        (lambda x: len(x) > 1, "its number of images"),
        (lambda x: sum(x.shape[1] for _ in range(x.shape[2])), "uses a size as a plain number"),
    ],
)
def test_other_branches_are_refused(asked: Any, why: str) -> None:
    with pytest.raises(bd.BinaryDuoError, match=why):
        bd.couple(Branching(asked), torch.randn(4, 3, 6, 6))

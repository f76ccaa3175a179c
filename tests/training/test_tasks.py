"""A task of one's own: regression, several labels, several inputs and outputs, other losses, metrics and optimizers."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from binaryduo import training
from binaryduo.data import LoaderSplit
from binaryduo.errors import ArgumentError, DataError
from binaryduo.nn import QuantAct
from binaryduo.training import Loop, Stage, evaluate, fit
from binaryduo.training.runlog import read_metrics
from tests.training import tiny

STAGE = Stage(epochs=3, lr=0.01)
LOOP = Loop(engine="eager", tensorboard=False, log_steps=1, accelerator="cpu")
X = torch.rand(24, 6, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """One trunk with a quantized activation, and as many outputs as asked for."""

    def __init__(self, outputs: int = 1, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.trunk = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), QuantAct())
        self.head = nn.Linear(8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.trunk(x))


class TwoOutputs(Net):
    """Classes and a box, as a detector has them."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        found = super().forward(x)
        return {"class": found[:, :3], "box": found[:, 3:]}


class TwoInputs(Net):
    """An image and an index into a table."""

    def __init__(self, outputs: int = 1, seed: int = 0) -> None:
        super().__init__(outputs, seed)
        self.table = nn.Embedding(4, 6)

    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        found = super().forward(x + self.table(index))
        return found, found.sum(1)


def loader(*tensors: Any, batch: int = 8, shuffle: bool = True) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*tensors), batch_size=batch, shuffle=shuffle)


def detection_loss(output: dict[str, Tensor], target: dict[str, Tensor]) -> Tensor:
    return F.cross_entropy(output["class"], target["class"]) + F.l1_loss(output["box"], target["box"])


class Pairs(torch.utils.data.Dataset[Any]):
    """(inputs, targets) with targets by name."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> tuple[Tensor, dict[str, Tensor]]:
        return X[i], {"class": torch.tensor(i % 3), "box": X[i, :4]}


class InputsByName(Pairs):
    def __getitem__(self, i: int) -> Any:
        return {"x": X[i], "index": torch.tensor(i % 4)}, X[i, :1]


class InputsInOrder(Pairs):
    def __getitem__(self, i: int) -> Any:
        return (X[i], torch.tensor(i % 4)), X[i, :1]


class MeanAbsolute:
    """A metric of the kind that torchmetrics has: a state, and a value over all that it was updated with."""

    def __init__(self) -> None:
        self.total, self.count, self.resets = 0.0, 0, 0

    def update(self, output: Tensor, target: Tensor) -> None:
        self.total += float((output - target).abs().sum())
        self.count += target.numel()

    def compute(self) -> Tensor:
        return torch.tensor(self.total / self.count)

    def reset(self) -> None:
        self.total, self.count, self.resets = 0.0, 0, self.resets + 1


def independent(model: nn.Module, loss: Callable[[Any, Any], Tensor]) -> float:
    """The loss over all examples at once."""
    with torch.no_grad():
        return float(loss(model.eval()(X), X.sum(1, keepdim=True)))


def test_a_regression(tmp_path: Path) -> None:
    data, model, seen = loader(X, X.sum(1, keepdim=True)), Net(), MeanAbsolute()
    before = independent(model, F.mse_loss)
    loop = dataclasses.replace(LOOP, monitor="mae", direction="min")
    metrics = {"mae": F.l1_loss, "whole": seen}
    result = fit(model, data, data, STAGE, loop, tmp_path, loss=F.mse_loss, metrics=metrics)
    assert result.last is not None
    assert set(result.last) == {"epoch", "step", "loss", "mae", "whole"}
    assert result.last["loss"] == pytest.approx(independent(model, F.mse_loss), rel=1e-5)
    assert result.last["mae"] == pytest.approx(independent(model, F.l1_loss), rel=1e-5)
    assert result.last["whole"] == pytest.approx(result.last["mae"], rel=1e-5)
    assert result.last["loss"] < before
    assert seen.resets == 3
    epochs = [line for line in read_metrics(tmp_path) if line["kind"] == "epoch"]
    assert result.best is not None
    assert result.best["mae"] == min(line["test_mae"] for line in epochs)
    assert "train_mae" in epochs[0]
    assert not any("top1" in key for line in epochs for key in line)


def test_several_labels(tmp_path: Path) -> None:
    target = (X[:, :4] > 0.5).float()

    def all_right(output: Tensor, target: Tensor) -> Tensor:
        return ((output > 0) == (target > 0.5)).all(1).float().mean()

    loss = nn.BCEWithLogitsLoss()
    data, model = loader(X, target), Net(4)
    stage = Stage(epochs=60, lr=0.05)
    result = fit(model, data, data, stage, LOOP, tmp_path, loss=loss, metrics={"exact": all_right})
    assert result.best is not None
    with torch.no_grad():
        assert result.last["exact"] == pytest.approx(float(all_right(model.eval()(X), target)))  # type: ignore[index]
    assert result.last["exact"] > 0.5  # type: ignore[index]


def test_two_outputs_by_name(tmp_path: Path) -> None:
    data, model = DataLoader(Pairs(), batch_size=8), TwoOutputs(7)
    right = {"top1": lambda o, t: training.top1(o["class"], t["class"])}
    stage = Stage(epochs=40, lr=0.05, optimizer="sgd")
    result = fit(model, data, data, stage, LOOP, tmp_path, loss=detection_loss, metrics=right)
    lines = [line for line in read_metrics(tmp_path) if line["kind"] == "epoch"]
    assert lines[-1]["test_loss"] < lines[0]["test_loss"]
    assert result.best is not None
    assert result.best["top1"] == max(line["test_top1"] for line in lines)  # top1 decides where there is one


@pytest.mark.parametrize("kind", [InputsByName, InputsInOrder])
def test_several_inputs_and_a_tuple_of_outputs(kind: type, tmp_path: Path) -> None:
    data, model = DataLoader(kind(), batch_size=8), TwoInputs()

    def loss(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
        return F.mse_loss(output[0], target) + F.mse_loss(output[1], target[:, 0])

    result = fit(model, data, data, STAGE, LOOP, tmp_path, loss=loss)
    assert result.last is not None
    index = torch.arange(24) % 4
    with torch.no_grad():
        assert result.last["loss"] == pytest.approx(float(loss(model.eval()(X, index), X[:, :1])), rel=1e-5)


@pytest.mark.parametrize(
    ("target", "outputs", "message"),
    [
        (X.sum(1, keepdim=True), 1, r"no class labels for a cross-entropy; pass loss="),
        ((X[:, :4] > 0.5).long(), 4, r"targets are int64 \(8, 4\): these are no class labels"),
        (torch.arange(24), 1, r"the cross-entropy of one class is always 0: pass loss="),
        (torch.arange(24), 4, r"a label is \d+, and the network has 4 classes, 0 to 3"),
    ],
)
def test_what_are_no_class_labels_is_refused(
    target: Tensor, outputs: int, message: str, tmp_path: Path
) -> None:
    data = loader(X, target, shuffle=False)
    with pytest.raises(ArgumentError, match=message):
        fit(Net(outputs), data, None, STAGE, LOOP, tmp_path)
    with pytest.raises(ArgumentError, match=message):
        evaluate(Net(outputs), data)


@pytest.mark.parametrize("shape", [lambda t: t.int(), lambda t: t[:, None], lambda t: t.byte()])
def test_labels_of_other_forms_are_the_same_labels(shape: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    labels = torch.arange(24) % 4
    plain, other = Net(4), Net(4)
    fit(plain, loader(X, labels), None, STAGE, LOOP, tmp_path / "a")
    fit(other, loader(X, shape(labels)), None, STAGE, LOOP, tmp_path / "b")
    assert tiny.same(plain, other)
    assert evaluate(plain, loader(X, labels)) == evaluate(plain, loader(X, shape(labels), shuffle=True))


def test_evaluate_takes_a_loader() -> None:
    model, labels = Net(4).eval(), torch.arange(24) % 4
    found = evaluate(model, loader(X, labels, batch=7))
    with torch.no_grad():
        assert found.top1 == int((model(X).argmax(1) == labels).sum())
    assert found.images == 24


def momentum(parameters: Any) -> torch.optim.Optimizer:
    first, *others = parameters
    groups = [{"params": [first], "lr": 0.2}, {"params": others}]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.8)


class CountsItsSteps(torch.optim.Optimizer):
    """Signs of the gradient, and a plain integer in its state, as some optimizers keep."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                count = self.state[p]["count"] = self.state[p].get("count", 0) + 1
                p -= group["lr"] / count * p.grad.sign()


@pytest.mark.parametrize(
    "optimizer",
    [None, momentum, lambda p: torch.optim.SGD(p, lr=0.1), torch.optim.Adagrad, CountsItsSteps],
)
def test_it_resumes_bit_for_bit_in_the_middle_of_an_epoch(
    optimizer: Callable[[Any], Any] | None, tmp_path: Path
) -> None:
    """The sums of a metric, and the state of a user's optimizer, survive too."""

    class Stops(LoaderSplit):
        def batches(self, plan: Any) -> Any:
            for number, batch in enumerate(super().batches(plan), plan.start):
                if (plan.epoch, number) == (1, 1):
                    raise KeyError("the disk is gone")
                yield batch

    data, test = loader(X, X.sum(1, keepdim=True)), loader(X, X.sum(1, keepdim=True), shuffle=False)
    stage = Stage(epochs=3, lr=0.01, optimizer="sgd", schedule="onecycle", warmup=0.5)
    loop = dataclasses.replace(LOOP, checkpoint_steps=1)

    def run(model: nn.Module, data: Any, folder: Path, resume: bool = False) -> Any:
        more = {"loss": F.mse_loss, "metrics": {"mae": F.l1_loss}, "optimizer": optimizer}
        return fit(model, data, test, stage, loop, folder, resume, **more)  # type: ignore[arg-type]

    whole, part = Net(), Net(seed=3)
    expected = run(whole, data, tmp_path / "whole")
    with pytest.raises(KeyError):
        run(Net(), Stops(data), tmp_path / "part")
    result = run(part, data, tmp_path / "part", resume=True)
    assert tiny.same(whole, part)
    assert (result.best, result.last) == (expected.best, expected.last)
    curves = [
        [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(tmp_path / name)]
        for name in ("whole", "part")
    ]
    assert curves[0] == curves[1]


def test_a_users_optimizer_keeps_its_own_rates(tmp_path: Path) -> None:
    """Two steps of SGD by hand, at the rates of its groups times the schedule."""
    target = X.sum(1, keepdim=True)
    data = [(X, target)]
    model, other = Net(), Net()
    fit(
        model,
        data,
        None,
        Stage(epochs=2, schedule="constant"),
        LOOP,
        tmp_path,
        loss=F.mse_loss,
        optimizer=momentum,
    )
    by_hand = momentum(list(other.parameters()))
    other.train()
    for _ in range(2):
        by_hand.zero_grad()
        F.mse_loss(other(X), target).backward()
        by_hand.step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        for row in X:
            yield row, row.sum(0, keepdim=True)


def test_a_stream_is_given_its_length(tmp_path: Path) -> None:
    stream = DataLoader(Stream(), batch_size=8)
    with pytest.raises(DataError, match=r"has no length, .* give bd\.data\.LoaderSplit\(loader, steps="):
        fit(Net(), stream, None, STAGE, LOOP, tmp_path / "a", loss=F.mse_loss)
    result = fit(
        Net(), LoaderSplit(stream, steps=3), stream, STAGE, LOOP, tmp_path / "b", loss=F.mse_loss
    )  # to test, it is taken to its end
    assert result.steps == 9
    budget = dataclasses.replace(STAGE, minutes=0.002)
    assert fit(
        Net(), LoaderSplit(stream, steps=3), stream, budget, LOOP, tmp_path / "d", loss=F.mse_loss
    ).last
    with pytest.raises(DataError, match="the loader ended after 3 of 4 batches"):
        fit(Net(), LoaderSplit(stream, steps=4), None, STAGE, LOOP, tmp_path / "c", loss=F.mse_loss)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"loss": "mse"}, "loss must be a function of"),
        ({"loss": lambda o, t: (o - t) ** 2}, r"gives float32 \(8, 1\), and one number is needed"),
        ({"metrics": [F.l1_loss]}, "metrics must be a dictionary"),
        ({"metrics": {"loss": F.l1_loss}}, "a metric cannot be called 'loss'"),
        ({"metrics": {"mae": 3}}, "the metric 'mae' is of type int"),
        ({"metrics": {"mae": lambda o, t: o - t}}, r"the metric 'mae' gives float32 \(8, 1\)"),
        ({"metrics": {"ratio": lambda o, t: float("nan")}}, "the metric 'ratio' is nan on a batch"),
        ({"metrics": {"whole": MeanAbsolute()}}, "is measured on the test split, and there is none"),
        ({"optimizer": lambda p: 3}, "gives a torch optimizer, and gave one of type int"),
        ({"optimizer": torch.optim.LBFGS}, "LBFGS computes the loss several times"),
    ],
)
def test_what_cannot_be_meant_is_refused(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = loader(X, X.sum(1, keepdim=True))
    with pytest.raises(ArgumentError, match=message):
        fit(Net(), data, None, STAGE, LOOP, tmp_path, **{"loss": F.mse_loss, **more})


@pytest.mark.parametrize(
    ("monitor", "direction", "message"),
    [
        ("mse", None, "is 'mse', which is not measured: choose one of loss, mae"),
        ("mae", None, r"loop\.direction whether more of it is better \(max\)"),
        (None, "min", r"of nothing: name a metric in loop\.monitor"),
    ],
)
def test_what_decides_must_be_said(monitor: str | None, direction: Any, message: str, tmp_path: Path) -> None:
    loop = dataclasses.replace(LOOP, monitor=monitor, direction=direction)
    data = loader(X, X.sum(1, keepdim=True))
    with pytest.raises(ArgumentError, match=message):
        fit(Net(), data, data, STAGE, loop, tmp_path, loss=F.mse_loss, metrics={"mae": F.l1_loss})


def test_batches_of_another_form_are_described(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a list of 3 parts, not \(inputs, targets\)"):
        fit(Net(), loader(X, X, X), None, STAGE, LOOP, tmp_path / "a", loss=F.mse_loss)
    with pytest.raises(ArgumentError, match="Flatten has no parameters"):
        fit(nn.Flatten(), loader(X, X), None, STAGE, LOOP, tmp_path / "b", loss=F.mse_loss)


def test_layers_of_three_dimensions_train(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv3d(1, 2, 2), nn.Flatten(), nn.Linear(16, 2))
    data = [(torch.rand(4, 1, 3, 3, 3), torch.arange(4) % 2)]
    assert fit(model, data, data, Stage(epochs=1), LOOP, tmp_path).steps == 1


def test_a_mended_call_begins_in_the_same_folder(tmp_path: Path) -> None:
    data = loader(X, X.sum(1, keepdim=True))
    with pytest.raises(ArgumentError, match="pass loss="):
        fit(nn.Sequential(Net()), data, None, STAGE, LOOP, tmp_path)
    assert fit(Net(), data, None, STAGE, LOOP, tmp_path, loss=F.mse_loss).steps == 9
    assert json.loads((tmp_path / "model.json").read_text())["class"] == "Net"


def test_the_wrong_loss_is_not_continued(tmp_path: Path) -> None:
    data = loader(X, X.sum(1, keepdim=True))
    fit(Net(), data, None, STAGE, LOOP, tmp_path, loss=F.mse_loss)
    with pytest.raises(ArgumentError, match=r"task\.loss is 'mse_loss' there and 'l1_loss' here"):
        fit(Net(), data, None, STAGE, LOOP, tmp_path, True, loss=F.l1_loss)


def test_an_engine_is_measured_with_the_task(tmp_path: Path) -> None:
    data = loader(X, X.sum(1, keepdim=True))
    stage = Stage(minutes=0.005, lr=0.01)
    result = fit(Net(), data, data, stage, LOOP, tmp_path, loss=F.mse_loss)
    assert result.steps > 0


def test_a_schedule_of_ones_own(tmp_path: Path) -> None:
    """The factor multiplies the rate at each step, in place of the stage's schedule; what is no factor is refused."""
    loader = DataLoader(TensorDataset(X, X[:, :1]), batch_size=8)

    def halved(step: int, total: int) -> float:
        return 0.5 ** (4 * step // total)

    fit(Net(), loader, None, STAGE, LOOP, tmp_path / "a", loss=F.mse_loss, scheduler=halved)
    rates = [line["lr"] for line in read_metrics(tmp_path / "a") if "lr" in line]
    assert rates
    assert set(rates) <= {STAGE.lr * 0.5**n for n in range(4)}
    assert rates[-1] < STAGE.lr
    with pytest.raises(ArgumentError, match="a factor of 0 or more"):
        fit(Net(), loader, None, STAGE, LOOP, tmp_path / "b", loss=F.mse_loss, scheduler=lambda s, t: -1.0)
    with pytest.raises(ArgumentError, match=r"function of \(step, all steps\)"):
        fit(Net(), loader, None, STAGE, LOOP, tmp_path / "c", loss=F.mse_loss, scheduler="cosine")  # type: ignore[arg-type]

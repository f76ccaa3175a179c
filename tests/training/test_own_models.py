"""A model of one's own from Python: both stages, its weights, and a folder that says what is true of it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import yaml
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from typer.testing import CliRunner

import binaryduo as bd
from binaryduo.cli.app import app
from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.report import costs, run_report
from binaryduo.report.runs import read_run
from binaryduo.training import Loop, Stage, duo, evaluate, fit, load_weights
from binaryduo.training.runlog import read_metrics
from tests.training import tiny

FIRST, SECOND = Stage(epochs=3, lr=0.02), Stage(epochs=2, lr=0.001)
LOOP = Loop(engine="eager", tensorboard=False, log_steps=1, accelerator="cpu")
RANDOM = torch.Generator().manual_seed(0)
X = torch.rand(48, 1, 8, 8, generator=RANDOM)
LABELS = (X[:, 0, :4].mean((1, 2)) > X[:, 0, 4:].mean((1, 2))).long()


class MyNet(nn.Module):
    """A small convolutional baseline with two outputs where asked for."""

    def __init__(self, seed: int = 0, box: bool = False) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), bd.nn.QuantAct(),
            nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), bd.nn.QuantAct(), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(8 * 64, 2)
        self.box = nn.Linear(8 * 64, 4) if box else None

    def forward(self, x: Tensor) -> Any:
        found = self.body(x)
        return self.head(found) if self.box is None else (self.head(found), self.box(found))


def data(*targets: Tensor) -> DataLoader[Any]:
    return DataLoader(TensorDataset(X, *targets), batch_size=16, shuffle=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module, Any]:
    """A `duo` run of a model of one's own."""
    folder = tmp_path_factory.mktemp("own") / "run"
    baseline = MyNet()
    before = tiny.weights(baseline)
    binary, result = duo(baseline, data(LABELS), data(LABELS), FIRST, SECOND, LOOP, folder)
    assert all(torch.equal(a, b) for a, b in zip(before, baseline.parameters(), strict=True))
    return folder, binary, result


def test_both_stages_of_a_users_model(trained: tuple[Path, nn.Module, Any]) -> None:
    folder, binary, result = trained
    assert {m.levels for m in binary.modules() if isinstance(m, bd.nn.QuantAct)} == {2}
    assert result.changed_predictions <= 1
    assert result.test_images == len(X)
    assert abs(result.decoupled_before["top1"] - result.coupled.last["top1"]) <= 100 / len(X)
    assert evaluate(binary, data(LABELS)).means()["top1"] == result.finetuned.last["top1"]
    assert json.loads((folder / "summary.json").read_text())["finetuned"]["last"] == result.finetuned.last


def test_it_resumes_in_the_second_stage(trained: tuple[Path, nn.Module, Any], tmp_path: Path) -> None:
    _, binary, result = trained
    part = tmp_path / "part"
    duo(MyNet(), data(LABELS), data(LABELS), FIRST, SECOND, LOOP, part)
    for path in (part / "decoupled" / "checkpoints").glob("*-000000006.*"):  # as if killed before the end
        path.unlink()
    other, again = duo(MyNet(5), data(LABELS), data(LABELS), FIRST, SECOND, LOOP, part, resume=True)
    assert tiny.same(binary, other)
    assert again.finetuned.last == result.finetuned.last
    with pytest.raises(ArgumentError, match=r"another recipe \(model\.levels is 3 there and 4 here\)"):
        duo(MyNet(), data(LABELS), data(LABELS), FIRST, SECOND, LOOP, part, resume=True, levels=4)


def test_other_levels_are_another_run_though_the_shapes_agree(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), bd.nn.QuantAct(3), nn.Linear(4, 2))
    fit(net, data(LABELS), None, FIRST, LOOP, tmp_path)
    net[2] = bd.nn.QuantAct(2)
    with pytest.raises(
        ArgumentError, match=r"model\.quantized is \"QuantAct\(levels=3, ste='relu1'\)\" there"
    ):
        fit(net, data(LABELS), None, FIRST, LOOP, tmp_path, resume=True)


def test_a_task_with_two_outputs_goes_through_both_stages(tmp_path: Path) -> None:
    class Boxes(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(X)

        def __getitem__(self, i: int) -> Any:
            return X[i], (LABELS[i], X[i, 0, 0, :4])

    def loss(output: Any, target: Any) -> Tensor:
        return F.cross_entropy(output[0], target[0]) + F.mse_loss(output[1], target[1])

    def box(output: Any, target: Any) -> Tensor:
        return F.mse_loss(output[1], target[1])

    loop = dataclasses.replace(LOOP, monitor="box", direction="min", decouple_from="best")
    loader = DataLoader(Boxes(), batch_size=16)
    binary, result = duo(
        MyNet(box=True), loader, loader, FIRST, SECOND, loop, tmp_path, loss=loss, metrics={"box": box}
    )
    assert result.changed_predictions is None
    assert result.decoupled_before["box"] == pytest.approx(result.coupled.best["box"], rel=0.05)  # type: ignore[index]
    with torch.no_grad():
        expected = float(box(binary.eval()(X), (LABELS, X[:, 0, 0, :4])))
    assert result.finetuned.last["box"] == pytest.approx(expected, rel=1e-5)  # type: ignore[index]


def test_an_optimizer_of_ones_own_fine_tunes_at_half_of_its_rates(tmp_path: Path) -> None:
    def made(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.1)

    duo(MyNet(), data(LABELS), None, Stage(epochs=1), None, LOOP, tmp_path, optimizer=made)
    rates = [
        [line["lr"] for line in read_metrics(tmp_path / stage) if line["kind"] == "step"]
        for stage in ("coupled", "decoupled")
    ]
    assert rates[0] == [0.1, 0.1, 0.1]
    assert rates[1][0] == 0.05


def test_without_a_test_split_nothing_is_measured(tmp_path: Path) -> None:
    _, result = duo(MyNet(), data(LABELS), None, FIRST, SECOND, LOOP, tmp_path)
    assert (result.decoupled_before, result.changed_predictions, result.finetuned.last) == ({}, None, None)


def test_the_coupled_network_is_as_wide_as_asked(tmp_path: Path) -> None:
    binary, _ = duo(MyNet(), data(LABELS), None, FIRST, SECOND, LOOP, tmp_path / "fill", widths="fill")
    filled = bd.couple(MyNet(), X[:16], widths="fill")
    assert [p.shape for p in binary.parameters()] == [
        p.shape for p in bd.decouple(filled.eval(), X[:16]).parameters()
    ]
    assert "widths: fill" in (tmp_path / "fill" / "recipe.yaml").read_text()
    before = (tmp_path / "fill" / "recipe.yaml").read_bytes()
    arguments = (MyNet(), data(LABELS), None, FIRST, SECOND, LOOP, tmp_path / "fill", True)
    with pytest.raises(
        bd.BinaryDuoError, match=r"started with widths='fill', and this call does not give it"
    ):
        duo(*arguments)
    with pytest.raises(bd.BinaryDuoError, match=r"started without interval=, .* leave out interval="):
        duo(*arguments, widths="fill", interval="layer")
    assert (tmp_path / "fill" / "recipe.yaml").read_bytes() == before
    duo(*arguments, widths="fill")


def test_what_duo_cannot_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="needs a model"):
        duo("vgg7", tmp_path)  # type: ignore[call-overload]
    by_name = [({"x": X}, LABELS)]
    with pytest.raises(ArgumentError, match="give them as a tuple"):
        duo(MyNet(), by_name, None, FIRST, SECOND, LOOP, tmp_path)
    with pytest.raises(
        ArgumentError, match=r"finetune\.lr must be positive"
    ):  # before the first stage is trained
        duo(MyNet(), [(X, LABELS)], None, FIRST, Stage(lr=-1.0), LOOP, tmp_path / "late")
    assert not (tmp_path / "late").exists()


def test_weights_come_back(trained: tuple[Path, nn.Module, Any]) -> None:
    folder, binary, _ = trained
    rebuilt = bd.decouple(bd.couple(MyNet(7), X[:2]), X[:2])
    assert load_weights(rebuilt, folder, "last") is rebuilt
    assert tiny.same(rebuilt, binary)
    best = load_weights(rebuilt, folder)
    tests = [json.loads(line) for line in (folder / "decoupled" / "metrics.jsonl").read_text().splitlines()]
    assert evaluate(best, data(LABELS)).means()["top1"] == max(t.get("test_top1", 0) for t in tests)
    coupled = load_weights(bd.couple(MyNet(7), X[:2]), folder / "coupled", which="last")
    assert {m.levels for m in coupled.modules() if isinstance(m, bd.nn.QuantAct)} == {3}


def test_weights_that_do_not_belong_are_refused(trained: tuple[Path, nn.Module, Any], tmp_path: Path) -> None:
    folder, _, _ = trained
    model = MyNet()
    before = tiny.weights(model)
    with pytest.raises(CheckpointError, match="is of another network"):
        load_weights(model, folder)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    with pytest.raises(ArgumentError, match="it has no checkpoints"):
        load_weights(model, tmp_path)
    with pytest.raises(ArgumentError, match="which must be best or last, not 'newest'"):
        load_weights(model, folder, "newest")  # type: ignore[arg-type]
    fit(model, data(LABELS), None, SECOND, LOOP, tmp_path / "untested")
    with pytest.raises(CheckpointError, match="none was tested: use which='last'"):
        load_weights(model, tmp_path / "untested")
    (path,) = (folder / "decoupled" / "checkpoints").glob("best-*.safetensors")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    try:
        with pytest.raises(CheckpointError, match="was altered"):
            load_weights(bd.decouple(bd.couple(MyNet(), X[:2]), X[:2]), folder)
    finally:
        path.write_bytes(content)


def test_the_folder_describes_the_model_that_was_trained(tmp_path: Path) -> None:
    model = MyNet()
    fit(model, data(LABELS), data(LABELS), SECOND, LOOP, tmp_path)
    recipe = yaml.safe_load((tmp_path / "recipe.yaml").read_text())
    assert recipe["model"] == {"class": "MyNet", "quantized": "2 × QuantAct(levels=2, ste='relu1')"}
    assert "data" not in recipe
    assert not {"batch", "test_batch"} & set(recipe["loop"])  # the loader's own: not known, not said
    assert (recipe["train"]["lr"], recipe["task"]["loss"]) == (0.001, "cross_entropy")
    kept = json.loads((tmp_path / "model.json").read_text())
    cost = bd.cost(model, X[:1])
    assert (kept["class"], kept["input"], kept["cost"]["ops"]) == ("MyNet", [1, 8, 8], cost.ops)
    assert [layer["macs"] for layer in kept["cost"]["layers"]] == [layer.macs for layer in cost.layers]
    text = "".join(path.read_text() for path in (tmp_path / "checkpoints").glob("*.json"))
    for invented in ("vgg7", "fashion-mnist"):
        assert invented not in text + (tmp_path / "recipe.yaml").read_text()


def test_the_report_shows_it_as_it_is(trained: tuple[Path, nn.Module, Any]) -> None:
    folder, binary, _ = trained
    run = read_run(folder)
    assert (run.state, run.own_class, run.problems) == ("complete", "MyNet", [])
    assert [stage.title for stage in run.stages] == ["coupled", "fine-tuning"]
    layers = costs.checked_layers(run.stages[1].model["cost"]["layers"])
    assert sum(layer.macs for layer in layers) == bd.cost(binary, X[:1]).macs
    text = run_report.build([folder])
    assert "a model of your own (MyNet)" in text
    assert "vgg7" not in text


def test_the_report_of_a_task_without_accuracy(tmp_path: Path) -> None:
    model, target = nn.Sequential(nn.Flatten(), nn.Linear(64, 1)), X.mean((1, 2, 3))[:, None]
    fit(
        model, data(target), data(target), SECOND, LOOP, tmp_path, loss=F.mse_loss, metrics={"mae": F.l1_loss}
    )
    run = read_run(tmp_path)
    assert run.stages[0].best() is None
    text = run_report.build([tmp_path])
    assert "Sequential" in text
    assert ">mae<" in text


@pytest.mark.parametrize(
    "arguments",
    [["evaluate"], ["pack", "net.duo"], ["train", "--resume", "--out"], ["duo", "--resume", "--out"]],
)
def test_verbs_that_need_the_class_say_what_to_do(
    arguments: list[str],
    trained: tuple[Path, nn.Module, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    verb, *others = arguments
    line = [verb, *others, str(trained[0])] if "--out" in others else [verb, str(trained[0]), *others]
    error = CliRunner().invoke(app, line).exception
    assert isinstance(error, ArgumentError)
    assert "is of a model of your own (MyNet)" in str(error)
    assert "bd.training.load_weights(model, folder)" in str(error)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a class for a loss": (
        {"loss": nn.MSELoss},
        r"loss is the class MSELoss: give an object of it, MSELoss\(\)",
    ),
    "a class for a metric": ({"metrics": {"mae": nn.L1Loss}}, "the metric 'mae' is the class L1Loss"),
    "a loss without gradient": ({"loss": lambda out, y: F.cross_entropy(out, y).detach()}, "gradients"),
    "an optimizer": (
        {"optimizer": torch.optim.SGD(nn.Linear(1, 1).parameters())},
        "not an object of type SGD",
    ),
    "torch's scheduler": (
        {"scheduler": lambda opt: torch.optim.lr_scheduler.StepLR(opt, 1)},
        "of .step, all steps",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_not_meant_is_refused_by_name(name: str, tmp_path: Path) -> None:
    options, message = MISTAKES[name]
    with pytest.raises(ArgumentError, match=message):
        fit(MyNet(), data(LABELS), data(LABELS), SECOND, LOOP, tmp_path / "run", **options)


def test_nothing_to_train_and_nothing_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no parameter of MyNet is trained"):
        fit(MyNet().requires_grad_(False), data(LABELS), None, SECOND, LOOP, tmp_path / "frozen")
    empty: DataLoader[Any] = DataLoader(TensorDataset(X, LABELS), batch_size=64, drop_last=True)
    with pytest.raises(ArgumentError, match="the training loader has no batch"):
        fit(MyNet(), empty, None, SECOND, LOOP, tmp_path / "empty")


def test_arrays_of_numpy_train_as_tensors_do(tmp_path: Path) -> None:
    batches = [(X[i : i + 16], LABELS[i : i + 16]) for i in (0, 16, 32)]
    arrays = [(x.numpy(), y.numpy()) for x, y in batches]
    found = [fit(MyNet(), b, b, SECOND, LOOP, tmp_path / str(n)) for n, b in enumerate((batches, arrays))]
    assert found[0].last == found[1].last


def test_weights_go_under_a_wrapper(trained: tuple[Path, nn.Module, Any]) -> None:
    coupled = load_weights(bd.couple(MyNet(), X).eval(), trained[0] / "coupled")
    averaged = load_weights(
        torch.optim.swa_utils.AveragedModel(bd.couple(MyNet(), X)), trained[0] / "coupled"
    )
    assert torch.equal(averaged.eval()(X), coupled(X))

"""Each verb takes what the one before it wrote: a run folder, a checkpoint, a file of weights."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import binaryduo as bd
from binaryduo._common.weight_files import read_weights, save_weights
from binaryduo.cli.app import EXTRAS, missing_extra, run
from binaryduo.errors import BinaryDuoError
from binaryduo.paper.registry import RECORDS
from binaryduo.training import Loop, Stage, fit
from binaryduo.training.sources import open_source, run_folder
from tests.training.tiny import split

TINY = (
    *("--network", "mlp", "--width", "0.1", "--set", "train.epochs=1", "--set", "finetune.epochs=1"),
    *("--set", "loop.batch=500", "--set", "loop.engine=eager", "--set", "loop.tensorboard=false"),
)


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        run([str(a) for a in arguments])
    return stopped.value.code if isinstance(stopped.value.code, int) else 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    assert call("train", "--variant", "coupled", *TINY, "--out", folder / "coupled") == 0
    assert call("duo", *TINY, "--out", folder / "duo") == 0
    return folder


def newest(stage: Path, ending: str = "json") -> Path:
    return max((stage / "checkpoints").glob(f"step-*.{ending}"))


def forms(runs: Path, tmp_path: Path) -> dict[str, Path]:
    """The same fine-tuned network in every form that a verb takes."""
    stage = runs / "duo" / "decoupled"
    for ending in ("json", "safetensors"):
        shutil.copy(newest(stage, ending), tmp_path)
    return {
        "run": runs / "duo",
        "stage": stage,
        "checkpoint": newest(stage),
        "tensors": newest(stage, "safetensors"),
        "moved": tmp_path / newest(stage).name,
    }


def test_every_form_is_the_same_network(runs: Path, tmp_path: Path) -> None:
    found = {name: open_source(path) for name, path in forms(runs, tmp_path).items()}
    first = found["run"]
    x = torch.rand(4, *first.shape)
    for source in found.values():
        assert source.options == first.options
        assert torch.equal(source.model(x), first.model(x))
    assert first.options["variant"] == "decoupled"


def test_a_card_beside_a_file_of_weights_is_no_checkpoint(tmp_path: Path) -> None:
    options = {"name": "mlp", "width": 0.1}
    save_weights(bd.models.build(**options), tmp_path / "net.safetensors", options)
    (tmp_path / "net.json").write_text('{"name": "net", "top1": 87.5}')
    assert open_source(tmp_path / "net.safetensors").options["width"] == 0.1


@pytest.mark.parametrize("form", ["run", "stage", "checkpoint", "tensors", "moved"])
def test_the_verbs_take_every_form(
    runs: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = forms(runs, tmp_path)[form]
    assert call("evaluate", source) == 0
    assert "2,000 test images of fashion-mnist-small" in capsys.readouterr().out
    assert call("cost", source, "--no-layers") == 0
    assert "mlp, decoupled" in capsys.readouterr().out
    assert call("pack", source, tmp_path / "net.duo") == 0
    assert f"Next: binaryduo run {tmp_path / 'net.duo'}" in capsys.readouterr().err
    assert call("mismatch", "network", source, "--images", 50, "--coordinates", 2) == 0
    x = torch.rand(4, 1, 28, 28)
    wanted = open_source(source).model(x).detach().numpy()
    np.testing.assert_allclose(bd.load(tmp_path / "net.duo")(x.numpy()), wanted, atol=1e-3)


def test_export_writes_what_another_runtime_reads(runs: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    target = tmp_path / "net.onnx"
    assert call("export", runs / "duo", target) == 0
    x = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    (found,) = onnxruntime.InferenceSession(str(target)).run(None, {"images": x})
    wanted = open_source(runs / "duo").model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert call("export", runs / "duo", target) == 2


@pytest.mark.parametrize("place", ["coupled", "duo", "duo/coupled"])
def test_decouple_takes_what_train_and_duo_write(
    runs: Path, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "binary.safetensors"
    assert call("decouple", runs / place, target) == 0
    (line,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith("Next: ")]
    assert call(*line.removeprefix("Next: binaryduo ").split()) == 0
    coupled = open_source(runs / place / ("coupled" if place == "duo" else "."))
    binary = open_source(target)
    x = torch.rand(50, *coupled.shape)
    same = coupled.model(x).argmax(1) == binary.model(x).argmax(1)
    assert same.float().mean() >= 0.95  # a value within rounding of its threshold may flip
    assert call("evaluate", target) == 0  # the file says which images its run was trained on
    capsys.readouterr()
    bare = tmp_path / "bare.safetensors"
    _, options = read_weights(target)
    save_weights(binary.model, bare, {key: value for key, value in options.items() if key != "data"})
    assert call("evaluate", bare) == 2
    assert "add --data" in capsys.readouterr().err
    assert call("evaluate", bare, "--data", "fashion-mnist-small") == 0


def test_refusals_are_one_sentence(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", images=np.zeros((4, 3, 8, 8), np.float32), labels=np.arange(4))
    (tmp_path / "notes.txt").write_text("nothing")
    for arguments, sentence in (
        (["report", tmp_path / "nowhere", "--out", tmp_path / "r.html"], "nowhere does not exist"),
        (["evaluate", tmp_path / "nowhere"], "nowhere does not exist: give a run folder"),
        (["evaluate", tmp_path / "notes.txt"], "cannot be read as a network: give"),
        (["evaluate", tmp_path], "is not the folder of a run"),
        (["pack", tmp_path / "nowhere", tmp_path / "net.duo"], "nowhere does not exist"),
        (["cost", runs / "duo", "--width", "2"], "says itself which network it is of: leave out width = 2.0"),
        (["decouple", runs / "duo" / "decoupled", tmp_path / "b.safetensors"], "holds a decoupled network"),
        (["mismatch", "network", runs / "duo", "--data", tmp_path / "x.npz"], "takes 1 × 28 × 28"),
        (["mismatch", "network", "mlp"], "add --data"),
        (["train", "--show", "--set", "train.lr=-1"], "train.lr must be"),
        (["duo", "--show", "--set", "finetune.minutes=-3"], "finetune.minutes must be positive"),
        (["train", "--show", "--network", "vgg8"], "unknown network 'vgg8'"),
        (["reproduce", "figure99"], "coupling-pays"),
        (["search", "--out", tmp_path / "s"], "this search trains 260 networks"),
    ):
        assert call(*arguments) == 2, arguments
        error = capsys.readouterr().err
        assert sentence in error
        assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "s").exists()
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("name", RECORDS)
def test_an_estimate_begins_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["--results", tmp_path / "results", "--runs", tmp_path / "runs"]
    assert call("reproduce", name, "--estimate", *places) == 0
    assert name in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_data_of_another_shape_is_refused(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = bd.data.DataSet("squares", split(), split(), ("a", "b", "c", "d"), (1, 8, 8))
    monkeypatch.setattr(sys.modules["binaryduo.training.duo"], "load_data", lambda recipe: other)
    assert call("evaluate", runs / "duo", "--data", "fashion-mnist") == 2
    assert "is of a network that takes 1 × 28 × 28" in capsys.readouterr().err


def test_a_model_of_ones_own_is_named_as_such(tmp_path: Path) -> None:
    data = bd.data.load("fashion-mnist-small")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    fit(net, data.test, None, Stage(epochs=1), Loop(batch=1000, engine="eager", tensorboard=False), tmp_path)
    for source in (tmp_path, newest(tmp_path)):
        with pytest.raises(BinaryDuoError, match="of a model of your own"):
            open_source(source)


def test_report_takes_a_checkpoint_for_its_run(runs: Path, tmp_path: Path) -> None:
    assert run_folder(newest(runs / "duo" / "decoupled")) == runs / "duo"
    assert run_folder(runs / "duo" / "coupled") == runs / "duo"
    assert run_folder(runs / "coupled") == runs / "coupled"
    assert call("report", newest(runs / "duo" / "decoupled"), "--out", tmp_path / "r.html") == 0


def test_search_sets_network_width_and_levels(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--cases", "coupled,baseline:full", "--network", "mlp", "--width", "0.5", "--levels", "4")
    assert call("search", *words, "--show") == 0
    shown = capsys.readouterr().out
    assert re.search(r"cases:\n- coupled:4\n- baseline:full\n", shown)
    assert "network: mlp" in shown
    assert "width: 0.5" in shown


VERBS = ["cost vgg7", "data list", "train", "duo", "report x", "mismatch toy", "bench layers", "pack x y.duo"]
VERBS += ["evaluate x", "decouple x y", "export x y", "search", "demo", "reproduce list", "bench infer"]


def run_without(extras: tuple[str, ...], words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """A command where the packages of these extras are not installed."""
    code = "import sys\n"
    for packages in (EXTRAS[extra] for extra in extras):
        code += "".join(f"sys.modules[{name!r}] = None\n" for name in packages)
    code += f"from binaryduo.cli.app import run\nrun({words.split()!r})\n"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("words", VERBS)
def test_without_pytorch_the_extra_is_named(words: str, tmp_path: Path) -> None:
    ended = run_without(("train", "search", "onnx", "peers"), words, tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert re.search(r"pip install 'binaryduo\[(train|search|onnx|peers)\]'", ended.stderr), ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("words", ["cost mlp", "data list", "reproduce list"])
def test_the_extra_train_alone_is_enough(words: str, tmp_path: Path) -> None:
    ended = run_without(("search",), words, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


def test_a_package_of_nobodys_is_not_explained_away() -> None:
    assert missing_extra(ModuleNotFoundError(name="something_else")) is None


def test_the_readme_walks_this_path() -> None:
    """Every command that the README shows is a verb with options that it has."""
    from click.testing import CliRunner
    from typer.main import get_command

    from binaryduo.cli.app import app

    text = (Path(__file__).parents[2] / "README.md").read_text()
    shown = re.findall(r"^binaryduo (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    assert len(shown) >= 8
    for words in (line.split() for line in shown):
        options = [word for word in words if word.startswith("--")]
        verb = words[:2] if words[0] in ("mismatch", "bench", "data") else words[:1]
        asked = CliRunner().invoke(get_command(app), [*verb, "--help"], env={"COLUMNS": "200"})
        assert asked.exit_code == 0, words
        assert all(option in asked.output for option in options), words


def test_a_report_on_an_empty_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nothing").mkdir()
    assert call("report", tmp_path / "nothing", "--out", tmp_path / "report.html") == 2
    assert "is empty: give the folder of a run" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "report.html").exists()

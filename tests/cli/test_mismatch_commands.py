"""The commands that measure gradient mismatch, run as a user would."""

import json
import os

import numpy as np
import pytest

from binaryduo.cli.app import run


def call(*arguments):
    """Run a command; typer leaves by SystemExit."""
    with pytest.raises(SystemExit) as left:
        run([str(a) for a in arguments])
    return left.value.code


SMALL = ("--samples", 500, "--width", 6)


def test_toy_prints_a_row_for_each_case(capsys, tmp_path):
    out = tmp_path / "rows.json"
    code = call("mismatch", "toy", "--levels", 3, "--levels", "none", "--step", 0.1, *SMALL, "--out", out)
    assert code == 0
    text = capsys.readouterr().out
    assert "ternary" in text
    assert "full precision" in text
    assert [row["levels"] for row in json.loads(out.read_text())] == [3, None]


@pytest.mark.parametrize("verb", ["figure3", "steps"])
def test_figures(verb, tmp_path, capsys):
    picture = tmp_path / "p.png"
    assert call("mismatch", verb, *SMALL, "--seeds", 2, "--plot", picture) == 0
    assert picture.read_bytes()[1:4] == b"PNG"
    assert "swishsign" in capsys.readouterr().out


def test_sigmas(tmp_path):
    picture = tmp_path / "p.png"
    assert call("mismatch", "sigmas", *SMALL, "--pairs", 4, "--step", 0.1, "--plot", picture) == 0
    assert picture.exists()


def test_curves_and_surface(tmp_path):
    curves, surface = tmp_path / "c.png", tmp_path / "s.png"
    assert call("mismatch", "curves", "--few", 50, "--many", 100, "--plot", curves) == 0
    assert call("mismatch", "surface", "--samples", 50, "--plot", surface, "--out", tmp_path / "s.json") == 0
    assert curves.exists()
    assert surface.exists()
    assert len(json.loads((tmp_path / "s.json").read_text())["losses"]) == 61


def test_bad_levels_are_one_sentence(capsys):
    assert call("mismatch", "toy", "--levels", "many") == 2
    assert "--levels takes a whole number or 'none'" in capsys.readouterr().err


def test_bench_prints_the_ratio(capsys, tmp_path):
    out = tmp_path / "bench.json"
    code = call("bench", "mismatch", "--samples", 2000, "--evaluations", 2, "--scaling", 1000, "--out", out)
    assert code == 0
    assert "ratio" in capsys.readouterr().out
    result = json.loads(out.read_text())
    assert result["evaluations_needed"] == 6208
    assert result["ratio"] == pytest.approx(result["brute_seconds"] / result["fast_seconds"])
    assert result["scaling"][0]["samples"] == 1000


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "images.npz"
    np.savez(path, images=rng.normal(size=(30, 1, 28, 28)).astype(np.float32), labels=np.arange(30) % 10)
    return path


def test_network_compares_stes(images, tmp_path, capsys):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from binaryduo.ste import STE, get, register\n"
        "r = get('relu1')\n"
        "register(STE('my-ste', r.function, lambda x, k: r.derivative(x, k) * 2, 1.0, None, 'mine'))\n"
    )
    out, picture = tmp_path / "p.json", tmp_path / "p.png"
    code = call(
        *("mismatch", "network", "mlp", "--data", images, "--coordinates", 3, "--step", 0.05),
        *("--ste", "relu1", "--ste", "my-ste", "--define", plugin, "--out", out, "--plot", picture),
    )
    assert code == 0
    assert "my-ste" in capsys.readouterr().out
    assert [profile["ste"] for profile in json.loads(out.read_text())] == ["relu1", "my-ste"]
    assert picture.exists()


def test_network_by_slopes(images, tmp_path, capsys):
    out, picture = tmp_path / "p.json", tmp_path / "p.png"
    command = ("mismatch", "network", "mlp", "--data", images, "--estimator")
    both = ("--ste", "relu1", "--ste", "swishsign", "--step", 0.02)
    assert call(*command, "slopes", "--directions", 3, *both, "--out", out, "--plot", picture) == 0
    assert "kept" in capsys.readouterr().out
    found = json.loads(out.read_text())
    assert [(one["ste"], one["step"], one["directions"]) for one in found] == [
        ("relu1", 0.02, 3),
        ("swishsign", 0.02, 3),
    ]
    assert picture.exists()
    for wrong, words in (
        (("slope",), "unknown estimator 'slope'"),
        (("slopes", "--coordinates", 3), "--coordinates is not for the estimator slopes"),
        (("cdg", "--directions", 3), "--directions is not for the estimator cdg"),
    ):
        assert call(*command, *wrong) == 2
        assert words in capsys.readouterr().err


def test_network_with_weights(images, tmp_path, capsys):
    from safetensors.torch import save_file

    from binaryduo import models

    model = models.build("mlp", num_classes=10)
    weights = tmp_path / "w.safetensors"
    save_file({f"model/{k}": v for k, v in model.state_dict().items()}, weights)
    command = ("mismatch", "network", "mlp", "--data", images, "--coordinates", 2, "--weights")
    assert call(*command, weights) == 0
    assert "random" not in capsys.readouterr().out
    save_file({"other": next(model.parameters()).detach()}, weights)
    assert call(*command, weights) == 2
    assert "is of another network" in capsys.readouterr().err
    assert call(*command, tmp_path / "none.safetensors") == 2


def test_network_is_binary_unless_other_levels_are_asked_for(images, tmp_path):
    found = {}
    for levels in ((), ("--levels", 2), ("--levels", "none")):
        out = tmp_path / "p.json"
        assert (
            call("mismatch", "network", "mlp", "--data", images, "--coordinates", 3, *levels, "--out", out)
            == 0
        )
        (profile,) = json.loads(out.read_text())
        found[levels] = profile["loss"]
    assert found[()] == found["--levels", 2] != found["--levels", "none"]


@pytest.mark.parametrize(
    ("option", "name", "says"),
    [
        ("--plot", "picture.foo", "must end in"),
        ("--plot", "folder.png", "is a folder"),
        ("--out", "file/x.json", "cannot be written"),
        ("--out", "folder.png", "is a folder"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys, option, name, says):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    # At this size the work itself would take minutes.
    assert call("mismatch", "figure3", "--samples", 10**9, option, tmp_path / name) == 2
    assert says in capsys.readouterr().err


def test_links_and_pipes_stay_what_they_are(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    assert call("mismatch", "toy", *SMALL, "--out", link) == 0
    assert link.is_symlink()
    assert len(json.loads(real.read_text())) == 1
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)  # both ends, so that nobody waits
    try:
        assert call("mismatch", "toy", *SMALL, "--out", pipe) == 0
        assert len(json.loads(os.read(end, 1 << 16))) == 1
        assert pipe.is_fifo()
    finally:
        os.close(end)


@pytest.mark.parametrize("name", ["x" * 300 + ".json", "dangling/x.json"])
def test_names_that_cannot_be(tmp_path, capsys, name):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert call("mismatch", "toy", "--samples", 10**9, "--out", tmp_path / name) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_cosine_that_is_not_a_number_is_null(tmp_path):
    out = tmp_path / "rows.json"
    assert call("mismatch", "toy", "--samples", 3, "--width", 2, "--step", 1e-6, "--out", out) == 0
    text = out.read_text()
    assert "NaN" not in text
    assert None in json.loads(text)[0]["cosine"].values()


def test_many_layers_have_letters_enough(tmp_path):
    picture = tmp_path / "s.svg"
    many = ("--samples", 50, "--width", 3, "--hidden-layers", 15, "--step", 0.1, "--step", 0.2)
    assert call("mismatch", "steps", *many, "--plot", picture) == 0
    assert picture.stat().st_size > 10_000


def test_bench_takes_full_precision(capsys):
    assert call("bench", "mismatch", "--samples", 500, "--evaluations", 1, "--levels", "none") == 0
    assert "levels none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (np.zeros((6, 64)), np.arange(6)),
        (np.zeros((6, 1, 8, 10)), np.arange(6)),
        (np.zeros((6, 1, 8, 8)), np.arange(6)[:, None]),
        (np.zeros((6, 1, 8, 8)).astype(str), np.arange(6)),
        (np.zeros((6, 1, 8, 8)), np.array(3)),
        (np.zeros((6, 1, 8, 8)), np.arange(6) - 1),
    ],
)
def test_images_of_other_shapes_are_refused(tmp_path, capsys, images, labels):
    np.savez(tmp_path / "x.npz", images=images, labels=labels)
    assert call("mismatch", "network", "mlp", "--data", tmp_path / "x.npz") == 2
    assert "x.npz" in capsys.readouterr().err


def test_folders_on_the_way_are_made(tmp_path):
    out = tmp_path / "a" / "b" / "rows.json"
    assert call("mismatch", "toy", *SMALL, "--out", out) == 0
    assert len(json.loads(out.read_text())) == 1


def test_network_with_bad_data(tmp_path, capsys):
    np.savez(tmp_path / "x.npz", pictures=np.zeros(3))
    assert call("mismatch", "network", "mlp", "--data", tmp_path / "x.npz") == 2
    assert "images" in capsys.readouterr().err

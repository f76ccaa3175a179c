"""A search's database and folder when something is wrong with them, and what is borrowed from Optuna."""

import inspect
import re
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest
from optuna.storages import RDBStorage
from packaging.requirements import Requirement

from binaryduo._common.files import write_synced
from binaryduo.errors import ArgumentError
from binaryduo.search.local import open_search, run_search
from binaryduo.search.results import overhead, read_results
from binaryduo.search.storage import StorageError
from tests.search.small import opened, small

ROOT = Path(__file__).parents[2]


def test_the_private_name_of_optuna_is_there_and_its_versions_are_bounded() -> None:
    """QueueStorage overrides it: Optuna's cache asks the storage below for new trials by this name alone."""
    assert list(inspect.signature(RDBStorage._create_new_trial).parameters) == [
        "self",
        "study_id",
        "template_trial",
    ]
    found = re.search(r'"(optuna[<>=][^"]*)"', (ROOT / "pyproject.toml").read_text())
    assert found is not None
    wanted = Requirement(found[1])
    assert any(bound.operator == "<" for bound in wanted.specifier)
    assert wanted.specifier.contains(version("optuna"))


@pytest.mark.parametrize("damage", ["text", "middle", "cut"])
def test_a_damaged_database_is_said_to_be_damaged(damage: str, tmp_path: Path) -> None:
    storage, _ = opened(small(), tmp_path)
    storage.engine.dispose()
    path = tmp_path / "search.db"
    raw = path.read_bytes()
    damaged = {
        "text": b"not a database" * 100,
        "middle": raw[:100] + bytes(len(raw) - 100),
        "cut": raw[:5000],
    }
    for extra in tmp_path.glob("search.db-*"):
        extra.unlink()
    path.write_bytes(damaged[damage])
    with pytest.raises(StorageError, match=r"it is damaged.* move search\.db away") as error:
        open_search(small(), tmp_path, None)
    assert "postgresql" not in str(error.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArgumentError, match=r"file/search cannot be a search's folder: Not a directory"):
        open_search(small(), tmp_path / "file" / "search", None)


def test_a_coupled_run_that_is_not_there_is_named_at_the_start(tmp_path: Path) -> None:
    search = small(cases=("decoupled",), coupled=str(tmp_path / "nothing"))
    with pytest.raises(ArgumentError, match="nothing does not exist: give the folder of a run"):
        run_search(search, tmp_path / "search")
    assert not (tmp_path / "search").exists()


def test_a_file_that_many_write_is_always_one_of_theirs(tmp_path: Path) -> None:
    """As the machines of a search do that share its folder."""
    path, contents = tmp_path / "search.yaml", [bytes([65 + i]) * 100_000 for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda content: write_synced(path, content), contents * 10))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_half_a_note_and_no_results(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "a.json").write_text('{"trials": 1, "busy_')
    (tmp_path / "workers" / "b.json").write_text('{"trials": "many"}')
    assert overhead(tmp_path) is None
    for content in ("[" * 100_000, "{", "[]"):
        (tmp_path / "results.json").write_text(content)
        with pytest.raises(ArgumentError, match="results"):
            read_results(tmp_path)

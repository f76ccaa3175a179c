"""A short part of `make soak`: some kills and some damages of each kind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import damage
from tests.soak.__main__ import BAD

KILLS = """
import sys
from tests.soak import kills
from tests.soak.small_run import single_threaded
single_threaded()
found = list(kills.results(sys.argv[1], 4, most=int(sys.argv[2])))
print(kills.table(found))
"""


@pytest.mark.parametrize("verb", ["train", "duo"])
def test_damage_is_never_silent(verb: str) -> None:
    found = list(damage.results(verb, 4, most=120))
    assert len(found) == 120
    bad = [entry for entry in found if entry[1].startswith(BAD)]
    assert not bad, bad
    assert any(verdict == "a sentence" for _, verdict, _ in found)


@pytest.mark.parametrize("verb", ["train", "duo"])
def test_kills_change_nothing(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLS, verb, "12"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "identical" in done.stdout
    assert not [line for line in done.stdout.splitlines() if "identical" not in line], done.stdout

"""A short part of `make soak`: some kills and some damages of each kind, and a quarter of a minute of the service."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import damage
from tests.soak.__main__ import BAD

ROOT = Path(__file__).parents[2]


def soak(*arguments: str) -> str:
    """What the command prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("verb", ["train", "duo"])
def test_damage_is_never_silent(verb: str) -> None:
    found = list(damage.results(verb, 4, most=120))
    assert len(found) == 120
    bad = [entry for entry in found if entry[1].startswith(BAD)]
    assert not bad, bad
    assert any(verdict == "a sentence" for _, verdict, _ in found)
    assert "together" in damage.table(found)


@pytest.mark.parametrize(("verb", "most"), [("train", 8), ("duo", 8), ("search", 3), ("reproduce", 3)])
def test_kills_change_nothing(verb: str, most: int) -> None:
    said = soak("kills", "--verb", verb, "--most", str(most), "--minutes", "4")
    assert f"{verb}: {2 * most} killed" in said
    assert "before a call" in said or "after a call" in said


def test_a_service_answers_rightly_and_keeps_its_memory() -> None:
    said = soak("service", "--minutes", "0.25")
    assert "worker 2" in said
    assert "99.9 %" in said

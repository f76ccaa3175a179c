"""SIGTERM and Ctrl-C end a command with exit code 0 wherever it is, and are never lost."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from binaryduo._common.stopping import StopAtOnce, Stopped, StopRequest
from binaryduo.training import to_yaml
from tests.training.test_identity import RECIPE


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def send_twice() -> None:
    send(signal.SIGINT)
    send(signal.SIGINT)


def loop_that_hears(number: signal.Signals) -> None:
    with StopRequest() as stop:
        send(number)
        raise ZeroDivisionError(stop.asked)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_two_nest_and_leave_the_handlers_as_they_were(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match=number.name), StopAtOnce():
        send(number)
    with StopAtOnce():
        with pytest.raises(ZeroDivisionError, match=number.name):
            loop_that_hears(number)
        with pytest.raises(Stopped), StopRequest():
            send(number)  # too late for the loop: not lost
        with StopRequest(hand_on=False) as stop:
            send(number)
        assert stop.asked
    assert signal.getsignal(number) == before


def test_a_second_ctrl_c_stops_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), StopRequest():
        send_twice()


def test_nothing_on_the_way_swallows_it() -> None:
    with pytest.raises(Stopped), StopAtOnce(), contextlib.suppress(Exception):
        send(signal.SIGTERM)


def test_a_forked_child_ends_by_the_signal_itself() -> None:
    with StopAtOnce():
        pid = os.fork()
        if not pid:
            try:
                send(signal.SIGINT)
                time.sleep(10)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGINT


# Where a run waits until it is told that the signal is on its way.
PLACES = {
    "start-up": ("binaryduo.training.duo", "load_data"),
    "decoupling": ("binaryduo.training.duo", "_decouple"),
    "testing once": ("binaryduo.training.duo", "_test_once"),
    "importing": ("binaryduo.cli.app", "run"),
}
RUN = """
import sys, time, pathlib
place, module, name, mark = sys.argv[1:5]
sys.argv = ["binaryduo", *sys.argv[5:]]
import binaryduo.cli
import importlib
found = importlib.import_module(module)
def wait(*a, **k):
    pathlib.Path(mark).touch()
    time.sleep(60)
setattr(found, name, wait)
binaryduo.cli.main()
"""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_exit_code_zero_wherever_it_is(place: str, number: signal.Signals, tmp_path: Path) -> None:
    mark, recipe = tmp_path / "waits", tmp_path / "mine.yaml"
    recipe.write_text(to_yaml(RECIPE))
    arguments = ["duo", "--recipe", str(recipe), "--out", str(tmp_path / "run")]
    running = subprocess.Popen(
        [sys.executable, "-c", RUN, place, *PLACES[place], str(mark), *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    until = time.monotonic() + 100
    while not mark.exists() and running.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert f"stopped by {number.name}" in said
    assert "Traceback" not in said

"""The command line: parse, call, print; no logic of its own."""

import sys

from binaryduo._common.stopping import StopAtOnce, Stopped

STOPPABLE = ("train", "duo", "search")  # verbs that end with exit code 0 when they are asked to stop


def main() -> None:
    """Run `binaryduo`; where the terminal packages are missing, say which extra brings them."""
    if sys.argv[1:2] and sys.argv[1] in STOPPABLE:
        try:
            with StopAtOnce():  # from here on: loading the packages takes a while
                _run()
        except Stopped as stopped:
            print(f"binaryduo: stopped by {stopped} before the run had begun", file=sys.stderr)
            raise SystemExit(0) from None
    else:
        _run()


def _run() -> None:
    try:
        from binaryduo.cli.app import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("binaryduo"):
            raise
        raise SystemExit(
            f"binaryduo: the command line needs {error.name!r}: pip install 'binaryduo[cli]'"
        ) from None
    run()

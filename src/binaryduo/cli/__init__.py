"""The command line: parse, call, print; no logic of its own."""


def main() -> None:
    """Run `binaryduo`; where the terminal packages are missing, say which extra brings them."""
    try:
        from binaryduo.cli.app import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("binaryduo"):
            raise
        raise SystemExit(
            f"binaryduo: the command line needs {error.name!r}: pip install 'binaryduo[cli]'"
        ) from None
    run()

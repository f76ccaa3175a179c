"""optuna-dashboard on the loopback, in a process of its own that ends with the search."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from binaryduo.search.storage import with_driver
from binaryduo.search.worker import STORAGE_VARIABLE

# The URL comes in the environment, since it may hold a password that a list of processes would show.
_SERVE = (
    "import os, sys, optuna_dashboard; "
    f"optuna_dashboard.run_server(os.environ['{STORAGE_VARIABLE}'], host='127.0.0.1', port=int(sys.argv[1]))"
)


def free_port(wanted: int) -> int:
    """That port if it is free, else one that the system gives.

    >>> free_port(0) > 0
    True
    """
    for port in (wanted, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return wanted


def start_dashboard(url: str, port: int, log: Path) -> tuple["subprocess.Popen[bytes]", str]:
    """Start the server; returns its process and the address to open."""
    port = free_port(port)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(port)],
            env={**os.environ, STORAGE_VARIABLE: with_driver(url)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    return process, f"http://127.0.0.1:{port}/"

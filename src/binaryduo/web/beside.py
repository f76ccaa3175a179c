"""Our engine beside ONNX Runtime Web in one browser: binary networks, and the full-precision ones they replace."""

import json
import shutil
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from binaryduo.errors import ArgumentError
from binaryduo.web.page import ASSETS, PACKAGE

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What ONNX Runtime Web needs of its own package to run on one thread.
ORT_FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
# The same in one script, which a page can carry inside.
ORT_BUNDLE = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")


@dataclass(frozen=True)
class Beside:
    """Milliseconds of one network: the best and the median of each engine's rounds."""

    network: str
    best: dict[str, float]
    median: dict[str, float]

    def ratio(self) -> float:
        """How many times faster ours is than the best of the others, by the best times.

        >>> Beside("vgg7", {"binaryduo": 2.0, "fp32": 9.0, "int8": 6.0}, {}).ratio()
        3.0
        """
        return min(t for name, t in self.best.items() if name != "binaryduo") / self.best["binaryduo"]


def ort_folder(package: Path, files: Sequence[str] = ORT_FILES) -> Path:
    """The folder with ONNX Runtime Web's files: `package` is what npm unpacked, or its dist folder."""
    for folder in (package, package / "dist", package / "node_modules" / "onnxruntime-web" / "dist"):
        if all((folder / name).is_file() for name in files):
            return folder
    raise ArgumentError(
        f"{package} does not hold ONNX Runtime Web: run 'npm install onnxruntime-web' and give "
        "node_modules/onnxruntime-web"
    )


def find_browser(named: str | None) -> str:
    """The browser's command."""
    found = shutil.which(named) if named else next((p for n in BROWSERS if (p := shutil.which(n))), None)
    if found is None:
        raise ArgumentError(
            f"{named or 'Chromium'} was not found: install it, or name another with --browser"
        )
    return found


def measure(
    networks: Sequence[str], package: Path, browser: str | None, rounds: int
) -> tuple[list[Beside], str]:
    """Make the networks, run all engines in a browser, and return the times and the browser's name."""
    from binaryduo.bench.peer_networks import Networks

    ort, command = ort_folder(package), find_browser(browser)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = []
        for network in networks:
            made = Networks(network, 4, folder)
            made.onnx_int8(1)
            plan.append({"name": network, "shape": list(made.images.shape[1:])})
        (folder / "plan.json").write_text(json.dumps({"networks": plan, "rounds": rounds}))
        shutil.copy(ASSETS / "bench.html", folder / "index.html")
        shutil.copytree(PACKAGE, folder / "binaryduo")
        (folder / "onnxruntime-web").mkdir()
        for file in ORT_FILES:
            shutil.copy(ort / file, folder / "onnxruntime-web")
        answer = _run(command, folder, seconds=1200)
    if "error" in answer:
        raise ArgumentError(f"the browser could not run them: {answer['error'][:300]}")
    found = [
        Beside(
            result["name"],
            {engine: min(times) for engine, times in result["times"].items()},
            {engine: statistics.median(times) for engine, times in result["times"].items()},
        )
        for result in answer["results"]
    ]
    return found, str(answer["browser"])


class _Handler(SimpleHTTPRequestHandler):
    """Serves the folder; what the page posts is the answer."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        ".wasm": "application/wasm",
    }

    def end_headers(self) -> None:
        """Isolated from other origins, a page's clock has 5 µs and not 100."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def do_POST(self) -> None:
        server: Any = self.server
        server.answer = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        server.answered.set()

    def log_message(self, *_: object) -> None:
        """Quiet."""


def _run(command: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Open the folder's page in a headless browser and wait for what it posts."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    server.answered, server.answer = threading.Event(), {"error": f"no answer in {seconds:.0f} seconds"}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = (
        "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-sync "
        "--disable-background-networking --disable-component-update --disable-quic"
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        words = [command, *options.split(), f"--user-data-dir={profile}", address]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            server.answered.wait(seconds)
        finally:
            process.terminate()
            process.wait(20)
            server.shutdown()
            server.server_close()
    answer: dict[str, Any] = server.answer
    return answer

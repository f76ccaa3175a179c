"""A real browser for tests: Debian's Chromium, driven over its debugging pipe (no driver, no library)."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium(install: bool = True) -> str | None:
    """The browser's command; where there is none and apt-get may install it, it is installed."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is not None or not install or shutil.which("apt-get") is None or os.geteuid() != 0:
        return found
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "-o", "DPkg::Lock::Timeout=120", "chromium"],
    ):
        subprocess.run(command, capture_output=True, timeout=280, check=False)
    return shutil.which("chromium")


class Browser:
    """One page of a headless browser. `errors` collects what its console complains about."""

    def __init__(self, command: str, profile: Path, width: int = 1200, height: int = 900) -> None:
        self.command, self.profile, self.size = command, profile, (width, height)
        self.errors: list[str] = []
        self._next, self._buffer = 0, b""

    def __enter__(self) -> "Browser":
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        options = (
            "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run "
            "--disable-background-networking --disable-component-update --disable-sync --disable-quic"
        )
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$0" {options} --remote-debugging-pipe --user-data-dir="$1" about:blank '
                f"3<&{to_browser} 4>&{from_browser}",
                self.command,
                str(self.profile),
            ],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._session: str | None = None
        pages = self._call("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.resize(*self.size)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._write)
        os.close(self._read)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._next:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _receive(self, seconds: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(parameters["args"])[:500])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            address = parameters["request"]["url"]
            if not address.startswith(("file:", "data:", "blob:", "about:")):
                self.errors.append(f"the page asked the network for {address}")

    def open(self, path: Path, again: bool = False) -> None:
        """Load a file and wait until its script has done its work; one that is open stays unless `again`."""
        address = path.resolve().as_uri()
        if not again and self.value("location.href") == address:
            return
        self._call("Page.navigate", url=address)
        end = time.monotonic() + 60
        while self.value("document.documentElement?.dataset.ready") != "yes":
            assert time.monotonic() < end, f"the page did not get ready: {self.errors}"
            time.sleep(0.05)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives; promises are awaited."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key as the keyboard sends it."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            code = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}[key]
            self._call("Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=code)

    def move(self, x: float, y: float) -> None:
        """Move the mouse."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press, move and release the mouse."""
        common = {"button": "left", "clickCount": 1}
        self.move(*start)
        self._call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], **common)
        for step in range(1, 6):
            at = [a + (b - a) * step / 5 for a, b in zip(start, end, strict=True)]
            self._call(
                "Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1], button="left", buttons=1
            )
        self._call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], **common)

    def resize(self, width: int, height: int, mobile: bool = False) -> None:
        """The size of the window."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def prefer(self, scheme: str) -> None:
        """What the system says about light and dark."""
        feature = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=feature)

    def screenshot(self, path: Path) -> Path:
        """What a person would see now."""
        answer = self._call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

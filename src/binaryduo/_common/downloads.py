"""Where fetched files are kept, and how one gets there: whole and checked, or not at all."""

import hashlib
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binaryduo._common.locks import alone
from binaryduo._common.progress import bar
from binaryduo.errors import DataError


def cache_dir() -> Path:
    """BINARYDUO_CACHE, else the user's cache folder."""
    named = os.environ.get("BINARYDUO_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "binaryduo"


def download(url: str, target: Path, published: str, algorithm: str = "md5") -> Path:
    """Fetch a file with a progress bar; it exists under its name only when complete and checked.

    Of several processes that want it at once one fetches it, and the others wait.
    """
    part = target.with_name(target.name + ".part")
    with alone(target.with_name(f".{target.name}.lock")):
        if target.is_file():
            return target
        try:
            found = _fetch(url, part, algorithm)
            if found != published:
                raise DataError(
                    f"{url} is partial or altered ({part.stat().st_size} bytes, {algorithm.upper()} {found}, "
                    f"published {published}) and is not used"
                )
            part.rename(target)
        except OSError as error:
            raise DataError(f"{target} could not be written: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)
    return target


def _fetch(url: str, part: Path, algorithm: str) -> str:
    """Write what lies at the address to a file, and return its checksum."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with part.open("wb") as out, bar() as display:
        with _reading(url):
            answer = urllib.request.urlopen(url, timeout=20)
        with answer:
            length = answer.headers.get("Content-Length")
            task = display.add_task(part.stem, total=int(length) if length else None)
            while True:
                with _reading(url):
                    chunk = answer.read(1 << 20)
                if not chunk:
                    return digest.hexdigest()
                out.write(chunk)
                digest.update(chunk)
                display.advance(task, len(chunk))


@contextmanager
def _reading(url: str) -> Iterator[None]:
    """What goes wrong here is the network's fault, and not the disk's."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{url} could not be read: {error}") from error

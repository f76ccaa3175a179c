"""Where fetched files are kept, and how one gets there: whole and checked, or not at all."""

import hashlib
import os
import urllib.request
from pathlib import Path

from binaryduo._common.progress import bar
from binaryduo.errors import DataError


def cache_dir() -> Path:
    """BINARYDUO_CACHE, else the user's cache folder."""
    named = os.environ.get("BINARYDUO_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "binaryduo"


def download(url: str, target: Path, published: str, algorithm: str = "md5") -> Path:
    """Fetch a file with a progress bar; it exists under its name only when complete and checked."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    part = target.with_name(target.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(url, timeout=20) as answer, part.open("wb") as out, bar() as display:
            length = answer.headers.get("Content-Length")
            task = display.add_task(target.name, total=int(length) if length else None)
            while chunk := answer.read(1 << 20):
                out.write(chunk)
                digest.update(chunk)
                display.advance(task, len(chunk))
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"{url} could not be read: {error}") from error
    if digest.hexdigest() != published:
        size = part.stat().st_size
        part.unlink()
        raise DataError(
            f"{url} is partial or altered ({size} bytes, {algorithm.upper()} {digest.hexdigest()}, published "
            f"{published}) and is not used"
        )
    part.rename(target)
    return target

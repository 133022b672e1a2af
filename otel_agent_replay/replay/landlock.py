"""The kernel's wall around files: Landlock keeps a replaying process from writing outside the folders it was given.

It holds for the thread that puts it up and for every thread and program that thread starts, for the life of the
process; threads that ran before are not held by it, and `apply` says how many those are. Reading stays free. It does
not hold back a change of mode, owner, times or attributes, nor writing to a descriptor that was open before.

Linux 5.13 or newer, x86-64 and ARM64, no privilege needed; elsewhere `why_not` says so. From Linux 6.12 on it also
keeps the process from sending signals to processes outside.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import CannotJudge

NAME = "kernel files (landlock)"

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_VERSION = 1
_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_MACHINES = ("x86_64", "aarch64")

_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE = sum(1 << bit for bit in range(6, 13))  # devices, folders, files, sockets, pipes, links
_REFER = 1 << 13
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a lock of multiprocessing lives there


def why_not() -> str:
    """Return why this machine has no such wall, or "" when it has one."""
    if sys.platform != "linux":
        return f"Landlock is a feature of Linux, this is {sys.platform}"
    if platform.machine() not in _MACHINES or struct.calcsize("P") != 8:
        return f"no rules are written for {platform.machine()} programs"
    return "" if _version() >= 1 else "the kernel has no Landlock, or it is switched off"


def apply(allowed: Sequence[Path]) -> int:
    """Let this thread, and what it starts, write in the `allowed` folders (and files) only.

    Returns how many other threads there are, which are not held by it. Raises CannotJudge when the kernel refuses.
    """
    version = _version()
    if version < 1:
        raise CannotJudge(f"a wall around files is not possible here: {why_not()}")
    handled = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE
    if version >= 2:
        handled |= _REFER
    if version >= 3:
        handled |= _TRUNCATE
    scoped = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if version >= 6 else 0
    attributes = struct.pack("=QQQ", handled, 0, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = _called("made", _CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path in (*allowed, *map(Path, (*_DEVICES, _SHARED_MEMORY))):
            if path.exists():
                _allow(rules, path, handled)
        libc: Any = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise CannotJudge(f"the wall around files failed: no_new_privs: {os.strerror(ctypes.get_errno())}")
        _called("put up", _RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)
    return sum(1 for _ in Path("/proc/self/task").iterdir()) - 1


def _allow(rules: int, path: Path, handled: int) -> None:
    access = handled if path.is_dir() else handled & (_WRITE_FILE | _TRUNCATE)
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _called("given a folder", _ADD_RULE, rules, _BENEATH, struct.pack("=Qi", access, opened), 0)
    finally:
        os.close(opened)


def _version() -> int:
    """Return the version of the kernel's interface; less than 1: it has none."""
    return int(_syscall()(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION))


def _called(what: str, number: int, *arguments: Any) -> int:
    result = int(_syscall()(number, *arguments))
    if result < 0:
        raise CannotJudge(f"the wall around files could not be {what}: {os.strerror(ctypes.get_errno())}")
    return result


def _syscall() -> Callable[..., int]:
    function: Any = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    found: Callable[..., int] = function
    return found

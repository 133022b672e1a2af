"""Reads of the system's entropy by the application: `os.urandom`, `secrets`, `SystemRandom`, and uuids.

`os.urandom` and the name under which `random` holds it are the two doors that all of these go through, so that
names bound earlier (`from uuid import uuid4`) are caught as well. uuid1 asks the C library for its time, so it
is replaced as a function.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import uuid
from collections.abc import Callable
from typing import Any, cast

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.reads import Stored, session_for, taken
from otel_agent_replay.model import CoverageEntry, Kind

_getframe = sys._getframe
_urandom = os.urandom
_uuid4_code = uuid.uuid4.__code__
_passing = (vars(random), vars(secrets))
_TIMED = ("uuid1", "uuid6", "uuid7")

hooks = Hooks()


def install() -> list[CoverageEntry]:
    """Replace the doors to the system's entropy; return what is covered."""
    if not hooks:
        hooks.replace(os, "urandom", urandom)
        hooks.replace(random, "_urandom", urandom)
        for name in _TIMED:
            if hasattr(uuid, name):
                hooks.replace(uuid, name, _timed(name, getattr(uuid, name)))
    return [
        CoverageEntry("entropy", "captured", "os.urandom, secrets, random.SystemRandom, uuid.uuid1 and uuid.uuid4"),
        CoverageEntry("entropy.others", "not_captured", "names of temporary files; identifiers made inside C or Rust"),
    ]


def uninstall() -> None:
    """Put the doors back."""
    hooks.undo()


@looks_like(_urandom)
def urandom(size: int, /) -> bytes:
    """Return a bytes object containing random bytes suitable for cryptographic use."""
    if not _session.live_sessions:
        return _urandom(size)
    frame = _getframe(1)
    if frame.f_code is _uuid4_code:
        session = session_for(frame.f_back)
        if session is None:
            return _urandom(size)
        return taken(session, Kind.UUID, "uuid.uuid4", lambda: _urandom(size), _uuid4_text, _uuid_bytes)
    name = "os.urandom"
    caller = frame
    while caller.f_back is not None and any(caller.f_globals is names for names in _passing):
        caller = caller.f_back
        name = "random.SystemRandom"
    session = session_for(caller)
    if session is None or type(size) is not int or size <= 0:
        return _urandom(size)
    return taken(session, Kind.RANDOM, f"{name}({size})", lambda: _urandom(size), bytes, _as_bytes)


def _timed(name: str, real: Callable[..., uuid.UUID]) -> Callable[..., uuid.UUID]:
    full = f"uuid.{name}"

    @looks_like(real)
    def hook(*args: Any, **kwargs: Any) -> uuid.UUID:
        session = session_for(_getframe(1)) if _session.live_sessions else None
        if session is None:
            return real(*args, **kwargs)
        return taken(session, Kind.UUID, full, lambda: real(*args, **kwargs), str, _as_uuid)

    return hook


def _uuid4_text(drawn: bytes) -> str:
    return str(uuid.UUID(bytes=drawn, version=4))


def _uuid_bytes(stored: Stored) -> bytes:
    return uuid.UUID(str(stored)).bytes


def _as_bytes(stored: Stored) -> bytes:
    return cast("bytes", stored)


def _as_uuid(stored: Stored) -> uuid.UUID:
    return uuid.UUID(str(stored))

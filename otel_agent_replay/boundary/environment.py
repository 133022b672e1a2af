"""Reads of the process environment by the application: `os.environ` in all its forms, `os.getenv`.

Hooked at the methods of the mapping's class, which `get`, `getenv`, `copy`, `in` and iteration are made of. Values
pass through redaction before anybody is told; a masked one is its mask in a replay, unless the replay was given an
identity of its own under that name. C code's own `getenv` is not seen.
"""

from __future__ import annotations

import _collections_abc
import json
import logging
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, cast

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.reads import session_for, taken
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import CoverageEntry, Kind, Read
from otel_agent_replay.payload.masks import MASK

_getframe = sys._getframe
_ENV = Kind.ENV
_log = logging.getLogger("otel_agent_replay")
_Environ: Any = vars(os)["_Environ"]
_getitem = vars(_Environ)["__getitem__"]
_delitem = vars(_Environ)["__delitem__"]
_iter = vars(_Environ)["__iter__"]
_passing = (vars(os), vars(_collections_abc))

PLACEHOLDER = "replay-placeholder"
"""What stands for a secret in the environment of a replay: clients want one to be there, and it opens nothing."""

hooks = Hooks()


def install() -> list[CoverageEntry]:
    """Replace the mapping's methods; return what is covered."""
    if not hooks:
        hooks.replace(_Environ, "__getitem__", getitem)
        hooks.replace(_Environ, "__delitem__", delitem)
        hooks.replace(_Environ, "__iter__", names)
    return [
        CoverageEntry("environment", "captured", "os.environ, os.environb, os.getenv"),
        CoverageEntry("environment.c_libraries", "not_captured", "getenv inside C (TLS, proxies, locale)"),
    ]


def uninstall() -> None:
    """Put the methods back."""
    hooks.undo()


def real_variable(name: str) -> str | None:
    """Return a variable as it is, None where it is not set; nobody is told that it was read."""
    try:
        return cast("str", _getitem(os.environ, name))
    except KeyError:
        return None


def _reading(frame: FrameType | None) -> Session | None:
    while frame is not None and any(frame.f_globals is names for names in _passing):
        frame = frame.f_back
    return session_for(frame)


@looks_like(_getitem)
def getitem(self: Any, key: Any) -> Any:
    """Return the variable's value; KeyError when it is not set."""
    session = _reading(_getframe(1)) if _session.live_sessions else None
    if session is None or not isinstance(key, (str, bytes)):
        return _getitem(self, key)
    variable = _shown(key)
    name = f"os.environ[{variable}]"
    read = None if session.reads_live else session.answer_read(_ENV, name)
    if read is not None:
        return _served(session, self, key, read)
    try:
        value = _getitem(self, key)
    except KeyError:
        session.observe_read(_ENV, name, None)
        raise
    stored, masked = _redacted(session, variable, os.fsdecode(value))
    session.observe_read(_ENV, name, _storable(stored), masked=masked)
    return value


@looks_like(_delitem)
def delitem(self: Any, key: Any) -> None:
    """Unset the variable; KeyError when it was not set, in a replay when it was not set then."""
    session = _reading(_getframe(1)) if _session.live_sessions else None
    if session is None or not isinstance(key, (str, bytes)):
        _delitem(self, key)
        return

    def delete() -> bool:
        try:
            _delitem(self, key)
        except KeyError:
            return False
        return True

    # What the recorded run found may not be there now, and the other way round; the variable is gone either way.
    found = taken(session, _ENV, f"del os.environ[{_shown(key)}]", delete, int, lambda stored: delete() or bool(stored))
    if not found:
        raise KeyError(key)


@looks_like(_iter)
def names(self: Any) -> Iterator[Any]:
    """Return an iterator over the names of the variables, of the recorded ones in a replay."""
    session = _reading(_getframe(1)) if _session.live_sessions else None
    if session is None:
        return cast("Iterator[Any]", _iter(self))
    binary = self is not os.environ
    found = taken(
        session,
        _ENV,
        "os.environ",
        lambda: [os.fsdecode(name) for name in _iter(self)],
        json.dumps,
        lambda stored: cast("list[str]", json.loads(cast("str", stored))),
    )
    return iter([os.fsencode(name) for name in found] if binary else found)


def _served(session: Session, environment: Any, key: str | bytes, read: Read) -> Any:
    stored = read.value
    if read.masked:
        try:
            value = _getitem(environment, key)
        except KeyError:
            stored = stored or ""
        else:
            if not _is_scrubbed(session, value):
                _redacted(session, _shown(key), os.fsdecode(value))  # so that the secret is masked where it is used
                return value
            stored = stored or ""
    if stored is None:
        raise KeyError(key)
    return os.fsencode(cast("str", stored)) if isinstance(key, bytes) else os.fsdecode(cast("str | bytes", stored))


def _is_scrubbed(session: Session, value: str | bytes) -> bool:
    """Whether nothing is left of a secret in the variable: a placeholder, or a text with its secret part masked."""
    text = os.fsdecode(value)
    return text == PLACEHOLDER or (MASK in text and session.redaction.text(text) == text)


def _redacted(session: Session, variable: str, value: str) -> tuple[str, bool]:
    try:
        return session.redaction.env(variable, value)
    except Exception:
        _log.exception("the environment variable %s could not be redacted, so its value is not kept", variable)
        return "", True


def _shown(key: str | bytes) -> str:
    return os.fsdecode(key).encode("utf-8", "backslashreplace").decode()


def _storable(value: str) -> str | bytes:
    """Return text as it is, and what is not valid UTF-8 as the bytes it came from."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return os.fsencode(value)
    return value

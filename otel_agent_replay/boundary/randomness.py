"""Draws of the application from `random`: the shared generator, and generators of its own.

Draws are taken at the primitives (`random()` and `getrandbits()`), which every other method is made of: choice,
shuffle and sample keep their identity, order and in-place effect, a seed set by the application keeps its
effect, and recording draws exactly what would have been drawn. The primitives are hooked at the class, so methods
bound to other names earlier meet them too.

A generator that the application seeds inside the run is settled by its seed (an unseeded one gets recorded
entropy) and its draws are not recorded one by one; all others are. The shared generator's draws always are, since
libraries draw from it too.
"""

from __future__ import annotations

import operator
import os
import random
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.reads import Stored, session_for, taken
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import CoverageEntry, Kind

_getframe = sys._getframe
_RANDOM = Kind.RANDOM
_Random = random.Random
_shared: random.Random = vars(random)["_inst"]
_names = vars(random)
_primitive = cast("Any", _Random.__mro__[1])  # the generator written in C
_c_random: Callable[[random.Random], float] = _primitive.random
_c_getrandbits: Callable[[random.Random, int], int] = _primitive.getrandbits
_seed = vars(_Random)["seed"]
_gauss_code = _Random.gauss.__code__
_urandom = os.urandom
_ENTROPY = 32  # bytes that settle an unseeded generator
_SEEDED_IN = "_agent_replay_seeded_in"
_FITS_AN_INTEGER = 63  # bits; a stored integer is signed 64-bit, longer draws are stored as bytes

hooks = Hooks()


def install() -> list[CoverageEntry]:
    """Replace the primitives; return what is covered."""
    if not hooks:
        hooks.replace(random, "random", shared_random)
        hooks.replace(random, "getrandbits", shared_getrandbits)
        hooks.replace(_Random, "random", own_random)
        hooks.replace(_Random, "getrandbits", own_getrandbits)
        hooks.replace(_Random, "seed", seed)
        hooks.replace(_Random, "gauss_next", property(_get_gauss_next, _set_gauss_next))
    return [
        CoverageEntry("random", "captured", "the shared generator, and generators of random.Random's kind"),
        CoverageEntry("random.others", "not_captured", "generators inside C libraries, torch and the like: seed them"),
    ]


def uninstall() -> None:
    """Put the primitives back."""
    hooks.undo()


def _drawing(generator: random.Random, frame: FrameType | None) -> Session | None:
    """Return the session that wants this draw, made by the code in `frame` or by `random` for it."""
    while frame is not None and frame.f_globals is _names:
        frame = frame.f_back
    session = session_for(frame)
    if session is None or generator is _shared:
        return session
    mark = vars(generator).get(_SEEDED_IN)
    return None if mark is not None and mark() is session else session


def _draw_random(session: Session, generator: random.Random) -> float:
    name = "random.random" if generator is _shared else "random.Random.random"
    read = None if session.reads_live else session.answer_read(_RANDOM, name)
    if read is not None:
        return cast("float", read.value)
    value = _c_random(generator)
    session.observe_read(_RANDOM, name, value)
    return value


def _draw_bits(session: Session, generator: random.Random, bits: Any) -> int:
    try:
        k = operator.index(bits)
    except TypeError:
        k = 0
    if k <= 0:  # no draw, or an error for the original to raise
        return _c_getrandbits(generator, bits)
    name = f"random.getrandbits({k})" if generator is _shared else f"random.Random.getrandbits({k})"
    read = None if session.reads_live else session.answer_read(_RANDOM, name)
    if read is not None:
        stored = read.value
        return int.from_bytes(stored, "big") if isinstance(stored, bytes) else cast("int", stored)
    value = _c_getrandbits(generator, k)
    session.observe_read(_RANDOM, name, value if k <= _FITS_AN_INTEGER else value.to_bytes((k + 7) // 8, "big"))
    return value


@looks_like(random.random)
def shared_random() -> float:
    """random() -> x in the interval [0, 1)."""
    if _session.live_sessions:
        session = _drawing(_shared, _getframe(1))
        if session is not None:
            return _draw_random(session, _shared)
    return _c_random(_shared)


@looks_like(random.getrandbits)
def shared_getrandbits(k: int, /) -> int:
    """getrandbits(k) -> x. Generates an int with k random bits."""
    if _session.live_sessions:
        session = _drawing(_shared, _getframe(1))
        if session is not None:
            return _draw_bits(session, _shared, k)
    return _c_getrandbits(_shared, k)


@looks_like(_primitive.random)
def own_random(self: random.Random) -> float:
    """random() -> x in the interval [0, 1)."""
    if _session.live_sessions:
        session = _drawing(self, _getframe(1))
        if session is not None:
            return _draw_random(session, self)
    return _c_random(self)


@looks_like(_primitive.getrandbits)
def own_getrandbits(self: random.Random, k: int, /) -> int:
    """getrandbits(k) -> x. Generates an int with k random bits."""
    if _session.live_sessions:
        session = _drawing(self, _getframe(1))
        if session is not None:
            return _draw_bits(session, self, k)
    return _c_getrandbits(self, k)


@looks_like(_seed)
def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    """Initialize internal state from a seed; without one, from entropy that is recorded."""
    vars(self).pop(_SEEDED_IN, None)
    if _session.live_sessions:
        frame: FrameType | None = _getframe(1)
        while frame is not None and frame.f_globals is _names:
            frame = frame.f_back
        session = session_for(frame)
        if session is not None:
            if a is None:
                a = taken(session, _RANDOM, "random.Random", lambda: _urandom(_ENTROPY), bytes, _as_bytes)
                a = int.from_bytes(a, "big")
            vars(self)[_SEEDED_IN] = weakref.ref(session)
    _seed(self, a, version)


def _as_bytes(stored: Stored) -> bytes:
    return cast("bytes", stored)


def _get_gauss_next(self: random.Random) -> float | None:
    """Return the second of the pair that `gauss` makes; it may date from before the run, so it is a read."""
    try:
        value: float | None = vars(self)["gauss_next"]
    except KeyError:
        raise AttributeError("gauss_next") from None
    if not _session.live_sessions:
        return value
    frame = _getframe(1)
    session = _drawing(self, frame.f_back) if frame.f_code is _gauss_code else None
    if session is None:
        return value
    name = "random.gauss_next" if self is _shared else "random.Random.gauss_next"
    return taken(session, _RANDOM, name, lambda: value, _same, _as_float)


def _set_gauss_next(self: random.Random, value: float | None) -> None:
    vars(self)["gauss_next"] = value


def _same(value: float | None) -> Stored:
    return value


def _as_float(stored: Stored) -> float | None:
    return cast("float | None", stored)

"""Draws of the application from `numpy.random`, hooked when the host has imported it.

Its generators are written in C and have no primitive to hook, so the legacy functions (`numpy.random.rand` ...)
record the shared generator's state where it is not what this thread of control left behind: once, and again
whenever somebody else drew from it. A replay draws with the same method from a generator of its own that is set
to that state. Unseeded generators (`default_rng()`, `RandomState()`) get recorded entropy.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from otel_agent_replay.boundary import session as _session
from otel_agent_replay.boundary.crossing import strand_label
from otel_agent_replay.boundary.hooks import Hooks, looks_like
from otel_agent_replay.boundary.on_import import ImportNotice, loaded
from otel_agent_replay.boundary.reads import Stored, session_for, taken
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import CodecError
from otel_agent_replay.model import CoverageEntry, Kind

_MODULE = "numpy.random"
_getframe = sys._getframe
_RANDOM = Kind.RANDOM
_ALIASES = {"ranf": "random_sample", "sample": "random_sample"}  # plain functions around the shared generator
_NO_DRAWS = {"seed", "get_state", "set_state"}
_TAIL = struct.Struct("<iid")  # position, whether a normal draw is left over, that draw
_KNOWN = "MT19937"

hooks = Hooks()
_problem = ""


def install() -> list[CoverageEntry]:
    """Hook numpy's generators, now or on their import; return what is covered."""
    module = loaded(_MODULE)
    if module is None:
        _notice.turn_on()
    elif not hooks:
        _hook(module)
    if _problem:
        return [CoverageEntry(_MODULE, "not_captured", _problem)]
    detail = "legacy functions and unseeded generators" + ("" if hooks else "; not imported so far")
    return [
        CoverageEntry(_MODULE, "captured", detail),
        CoverageEntry("numpy.random.Generator", "not_captured", "draws from a generator made before the run"),
    ]


def uninstall() -> None:
    """Put numpy's functions back, or wait for them no longer."""
    _notice.turn_off()
    hooks.undo()


def _imported(module: ModuleType) -> None:
    _notice.turn_off()
    _hook(module)


_notice = ImportNotice(lambda name: name == _MODULE, _imported)


def _hook(module: ModuleType) -> None:
    global _problem
    try:
        shared = sys.modules["numpy.random.mtrand"]._rand
        seeds = sys.modules["numpy.random.bit_generator"]
        randbits = seeds.randbits
    except (AttributeError, KeyError) as error:
        _problem = f"this version of numpy is built otherwise: {error!r} is missing"
        return
    hooks.replace(seeds, "randbits", _entropy(randbits))
    for name, function in list(vars(module).items()):
        method = _ALIASES.get(name, name)
        if name in _NO_DRAWS or name.startswith("_"):
            continue
        if getattr(function, "__self__", None) is shared or name in _ALIASES:
            hooks.replace(module, name, _legacy(f"{_MODULE}.{name}", function, method, shared))


def _entropy(randbits: Callable[[int], int]) -> Callable[[int], int]:
    def hook(k: int) -> int:
        session = session_for(_getframe(1)) if _session.live_sessions else None
        if session is None:
            return randbits(k)
        size = (k + 7) // 8
        return taken(
            session,
            _RANDOM,
            f"numpy.random.entropy({k})",
            lambda: randbits(k),
            lambda value: value.to_bytes(size, "big"),
            _from_bytes,
        )

    return hook


def _from_bytes(stored: Stored) -> int:
    if not isinstance(stored, bytes):
        raise CodecError(f"recorded entropy of numpy is bytes, not {stored!r}")
    return int.from_bytes(stored, "big")


_recorded: WeakKeyDictionary[Session, dict[str, bytes]] = WeakKeyDictionary()  # by strand: the state left behind
_replayed: WeakKeyDictionary[Session, dict[str, Any]] = WeakKeyDictionary()  # by strand: the generator of its own


def _legacy(name: str, real: Callable[..., Any], method: str, shared: Any) -> Callable[..., Any]:
    @looks_like(real)
    def hook(*args: Any, **kwargs: Any) -> Any:
        session = session_for(_getframe(1)) if _session.live_sessions else None
        if session is None:
            return real(*args, **kwargs)
        read = None if session.reads_live else session.answer_read(_RANDOM, name)
        if read is not None:
            return getattr(_own_generator(session, shared, read.value), method)(*args, **kwargs)
        before = _packed(shared)
        if before is None:  # the host runs the legacy functions on a generator of another make
            return real(*args, **kwargs)
        left_behind = _recorded.setdefault(session, {})
        strand = strand_label()
        session.observe_read(_RANDOM, name, None if left_behind.get(strand) == before else before)
        try:
            return real(*args, **kwargs)
        finally:
            left_behind[strand] = _packed(shared) or b""

    return hook


def _own_generator(session: Session, shared: Any, stored: Stored) -> Any:
    generators = _replayed.setdefault(session, {})
    strand = strand_label()
    if isinstance(stored, bytes):
        generator = generators.setdefault(strand, type(shared)(0))
        generator.set_state(_unpacked(stored))
    if strand not in generators:
        raise CodecError("the tape goes on drawing from numpy's generator, but never says from which state")
    return generators[strand]


def _packed(shared: Any) -> bytes | None:
    state = shared.get_state(legacy=False)
    if state["bit_generator"] != _KNOWN:
        return None
    inner = state["state"]
    words = inner["key"].astype("<u4", copy=False).tobytes()
    return bytes(words + _TAIL.pack(inner["pos"], state["has_gauss"], state["gauss"]))


def _unpacked(stored: bytes) -> dict[str, Any]:
    numpy: Any = sys.modules["numpy"]
    position, has_gauss, gauss = _TAIL.unpack(stored[-_TAIL.size :])
    key = numpy.frombuffer(stored[: -_TAIL.size], dtype="<u4").astype("u4")
    return {
        "bit_generator": _KNOWN,
        "state": {"key": key, "pos": position},
        "has_gauss": has_gauss,
        "gauss": gauss,
    }

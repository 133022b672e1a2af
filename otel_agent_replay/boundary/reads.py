"""One bulk read, asked of the session and told to it: the two steps that every hook shares.

A hook first asks `session_for(frame)`; with a session it gets its value from `taken`, or does both steps
itself where speed matters.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from otel_agent_replay.boundary import callers, collector
from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.boundary.session import Session, active
from otel_agent_replay.model import Kind

_verdict_known = callers.verdict_known
_NOBODYS = (callers.Verdict.LIBRARY, callers.Verdict.CLIENT)

_T = TypeVar("_T")
Stored = int | float | str | bytes | None


def session_for(frame: FrameType | None) -> Session | None:
    """Return the session that wants the reads of the code in `frame`; None outside a run and for libraries' code."""
    if frame is not None and _verdict_known(frame.f_code.co_filename) in _NOBODYS:
        return None  # as nearly always: a client times its requests, draws its jitter
    if collector.collecting and collector.runs_this():
        return None
    here = current.get()
    if here is None:  # outside any declared run there may be an implicit one
        here = active() if callers.is_application(frame) else None
        return None if here is None else here[0]
    if not callers.is_application(frame):
        return None
    if here[0].closed:
        here[0].came_late(here[1])
        return None
    return here[0]


def taken(
    session: Session,
    kind: Kind,
    name: str,
    live: Callable[[], _T],
    encode: Callable[[_T], Stored],
    decode: Callable[[Stored], _T],
) -> _T:
    """Return the read's value, from whoever answers it; `encode` and `decode` turn it into what is stored and back."""
    read = None if session.reads_live else session.answer_read(kind, name)
    if read is not None:
        return decode(read.value)
    value = live()
    session.observe_read(kind, name, encode(value))
    return value

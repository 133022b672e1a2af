"""Which LangGraph saver a save or load goes to, and whether it is one of the graph's at all.

Owns the savers in memory that replays get: a replay must not write into a service's own database of checkpoints.
"""

from __future__ import annotations

import sys
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.session import Session, active_for_call

_inside_a_saver: ContextVar[bool] = ContextVar("agent_replay_inside_a_saver", default=False)
_of_replays: weakref.WeakKeyDictionary[Session, Any] = weakref.WeakKeyDictionary()


@contextmanager
def unrecorded() -> Iterator[None]:
    """Run the enclosed code as a saver's own: what it saves and loads by other methods of a saver is no news."""
    token = _inside_a_saver.set(True)
    try:
        yield
    finally:
        _inside_a_saver.reset(token)


def here_outside_a_saver() -> tuple[Session, Place] | None:
    """Return the session and place that a saver is called from; None outside a run and for a saver's own calls."""
    return None if _inside_a_saver.get() else active_for_call()


def lives_here(saver: Any) -> bool:
    """Whether all that a saver holds is lost with this process, so that a replay may write into it."""
    module = sys.modules.get("langgraph.checkpoint.memory")
    return module is not None and isinstance(saver, module.InMemorySaver) and type(saver.storage) is defaultdict


def saver_of_replay(session: Session) -> Any:
    """Return what stands for a lasting saver in this replay."""
    found = _of_replays.get(session)
    if found is None:
        from langgraph.checkpoint.memory import InMemorySaver

        found = _of_replays.setdefault(session, InMemorySaver())
    return found

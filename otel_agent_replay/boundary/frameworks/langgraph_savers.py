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

from otel_agent_replay.boundary.crossing import Place, current
from otel_agent_replay.boundary.session import Session, active_for_call

_inside_a_saver: ContextVar[bool] = ContextVar("agent_replay_inside_a_saver", default=False)
_used: weakref.WeakKeyDictionary[Any, dict[str, tuple[weakref.ref[Session], Place]]] = weakref.WeakKeyDictionary()
_MOST_USES = 256  # threads of one saver, before those of runs that are over are forgotten
_of_replays: weakref.WeakKeyDictionary[Session, Any] = weakref.WeakKeyDictionary()
_restored: weakref.WeakKeyDictionary[Session, set[str]] = weakref.WeakKeyDictionary()


@contextmanager
def unrecorded() -> Iterator[None]:
    """Run the enclosed code as a saver's own: what it saves and loads by other methods of a saver is no news."""
    token = _inside_a_saver.set(True)
    try:
        yield
    finally:
        _inside_a_saver.reset(token)


def here_outside_a_saver(saver: Any, config: Any = None) -> tuple[Session, Place] | None:
    """Return the session and place that a saver is called from; None outside a run and for a saver's own calls.

    LangGraph saves what parallel nodes wrote from threads that carry nothing: such a call belongs to the run that
    last used this saver for the thread that `config` names.
    """
    if _inside_a_saver.get():
        return None
    thread_id = str(((config or {}).get("configurable") or {}).get("thread_id"))
    if current.get() is None:
        used = _uses_of(saver).get(thread_id)
        session = None if used is None else used[0]()
        if used is not None and session is not None and not session.closed:
            return session, used[1]
    here = active_for_call()
    if here is not None and config is not None:
        _note_use(saver, thread_id, here)
    return here


def _uses_of(saver: Any) -> dict[str, tuple[weakref.ref[Session], Place]]:
    try:
        return _used.setdefault(saver, {})
    except TypeError:  # a saver that can be neither hashed nor referred to: nothing is remembered of it
        return {}


def _note_use(saver: Any, thread_id: str, here: tuple[Session, Place]) -> None:
    uses = _uses_of(saver)
    if len(uses) >= _MOST_USES and thread_id not in uses:
        for name, (session, _) in list(uses.items()):
            known = session()
            if known is None or known.closed:
                uses.pop(name, None)
    uses[thread_id] = (weakref.ref(here[0]), here[1])


def lives_here(saver: Any) -> bool:
    """Whether all that a saver holds is lost with this process, so that a replay may write into it."""
    module = sys.modules.get("langgraph.checkpoint.memory")
    in_memory = getattr(module, "InMemorySaver", None)  # another thread may be importing it just now
    return in_memory is not None and isinstance(saver, in_memory) and type(saver.storage) is defaultdict


def saver_of_replay(session: Session) -> Any:
    """Return what stands for a lasting saver in this replay."""
    found = _of_replays.get(session)
    if found is None:
        from langgraph.checkpoint.memory import InMemorySaver

        found = _of_replays.setdefault(session, InMemorySaver())
    return found


def saver_to_enter_by(saver: Any, thread_id: str) -> Any | None:
    """Return where the state goes with which the running code is entered at a checkpoint; None: it is not entered.

    The graph's next load of that thread is how it is entered, and no part of the run.
    """
    here = current.get()
    session = None if here is None else here[0]
    if session is None or session.closed or session.entered_at is None:
        return None
    _restored.setdefault(session, set()).add(thread_id)
    return saver if lives_here(saver) else saver_of_replay(session)


def takes_restored(session: Session, thread_id: str) -> bool:
    """Whether this load takes the state that the run is entered with. The first one of the thread does."""
    waiting = _restored.get(session)
    if not waiting or thread_id not in waiting:
        return False
    waiting.discard(thread_id)
    return True

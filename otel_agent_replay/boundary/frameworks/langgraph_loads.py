"""What a graph loads from its LangGraph saver: a search for context, answered from the tape in a replay.

A thread's state comes from runs before this one, by way of a database that a replay must not ask. Owns what is
recorded of the question and of what was found; the saver is called by the hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.frameworks import langgraph_state as kept
from otel_agent_replay.boundary.frameworks.langgraph_savers import lives_here, saver_of_replay, takes_restored
from otel_agent_replay.boundary.policy import COMPONENT
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.boundary.tools import Declaration
from otel_agent_replay.model import Kind, SideEffect


class Load:
    """One question to a saver. `name` is the method asked, `arguments` its arguments by name."""

    def __init__(self, here: tuple[Session, Place], saver: Any, name: str, arguments: Mapping[str, Any]) -> None:
        self._session = here[0]
        self._saver = saver
        self._name = name.removeprefix("a")
        self._live: list[Any] = []
        at = kept.ids_of(arguments.get("config"))
        # Ids of checkpoints are drawn anew in each run: which of several loads of a thread it is, their order tells.
        self.request: dict[str, Any] = {
            "thread_id": at["thread_id"],
            "checkpoint_ns": at["checkpoint_ns"],
            "at": "latest" if at["checkpoint_id"] is None else "checkpoint",
            **{name: arguments[name] for name in ("filter", "limit", "channels") if name in arguments},
        }

    def takes_restored(self) -> bool:
        """Whether it takes what the run is entered with, or what a component run's graph saved: no part of the run."""
        if self._session.mode is COMPONENT:
            return True
        return self._name == "get_tuple" and takes_restored(self._session, str(self.request["thread_id"]))

    def declaration(self, call: Callable[..., Any]) -> Declaration:
        """Return the question as a declared function; `call` asks the saver and returns what is kept of the answer."""
        return Declaration(Kind.RETRIEVAL, f"langgraph.{self._name}", SideEffect.READ, call, ())

    def targets(self) -> list[Any]:
        """Return the savers to ask, the first that knows it answers."""
        if self._session.mode.is_replay and not lives_here(self._saver):
            return [saver_of_replay(self._session), self._saver]
        return [self._saver]

    def took(self, found: Any) -> bool:
        """Take what a saver gave; return whether that was anything."""
        self._live.append(found)
        if self._name == "get_delta_channel_history":
            return any(one.get("writes") or "seed" in one for one in found.values())
        return found is not None

    def kept(self) -> Any:
        """Return what is kept of what a saver gave last."""
        found = self._live[-1]
        return dict(found) if self._name == "get_delta_channel_history" else kept.loaded_tuple(found)

    def given(self, value: Any) -> Any:
        """Return what the graph gets: what the saver gave, else what is kept of it."""
        if self._live:
            return self._live.pop()
        return value if self._name == "get_delta_channel_history" else kept.tuple_from(value)

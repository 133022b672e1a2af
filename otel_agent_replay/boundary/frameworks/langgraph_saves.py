"""A LangGraph checkpoint, or the writes of one task, on its way into a saver: a checkpoint of the run.

Owns what is recorded of it and who is written to. That the saver is called at all, and how, is the hook's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.frameworks import langgraph_state as kept
from otel_agent_replay.boundary.frameworks.langgraph_savers import lives_here, saver_of_replay, unrecorded
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.outcomes import MASKED, NOT_KEPT, NOT_WHOLE, error_outcome, lacking, value_outcome
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.model import Call, Kind, Outcome, OutcomeStatus, SideEffect
from otel_agent_replay.payload.failure import rebuild

NOT_RESTORABLE = (NOT_WHOLE, MASKED)
"""Reasons for which a checkpoint cannot even be put back into a saver."""


class Saved(Protocol):
    """Something that a saver is asked to keep."""

    name: str

    def state(self) -> Any:
        """Return what a replay is held to."""

    def beside(self) -> Any:
        """Return the rest of what it takes to save it again."""

    def facts(self) -> dict[str, Any]:
        """Return the attributes of the checkpoint that it becomes."""

    def doubts(self) -> list[str]:
        """Return why one cannot go on from here."""


class SavedState:
    """A checkpoint of LangGraph's, as `put` gets it."""

    name = kept.CHECKPOINT

    def __init__(self, module: ModuleType, config: Any, checkpoint: Any, metadata: Any) -> None:
        self._module = module
        self._parent = config
        self._checkpoint = checkpoint
        self._metadata = metadata

    @property
    def config(self) -> dict[str, Any]:
        """The config that points to it, which `put` returns."""
        return kept.config_of({**kept.ids_of(self._parent), "checkpoint_id": self._checkpoint["id"]})

    def state(self) -> Any:
        """Return the values of the channels."""
        return kept.state_of(self._checkpoint)

    def beside(self) -> Any:
        """Return its ids, versions and metadata, the last as a saver stores them."""
        metadata = self._module.get_checkpoint_metadata(self._parent, self._metadata)
        return kept.beside_state(self._parent, self._checkpoint, metadata)

    def facts(self) -> dict[str, Any]:
        """Return where it lies, and which nodes come next."""
        ids = kept.ids_of(self._parent)
        facts = {
            **_of_thread(ids),
            semconv.LANGGRAPH_CHECKPOINT_ID: self._checkpoint["id"],
            semconv.LANGGRAPH_NEXT: kept.next_nodes(self._checkpoint),
            semconv.LANGGRAPH_PARENT_ID: ids["checkpoint_id"],
            semconv.LANGGRAPH_STEP: self._metadata.get("step"),
            semconv.LANGGRAPH_SOURCE: self._metadata.get("source"),
        }
        return {key: value for key, value in facts.items() if value is not None}

    def doubts(self) -> list[str]:
        """Return why the graph cannot be continued from it."""
        following = kept.next_nodes(self._checkpoint)
        if following is None:
            return ["the checkpoint does not tell which nodes come next"]
        return [] if following else ["the graph is at its end"]


class SavedWrites:
    """What one task wrote, as `put_writes` gets it."""

    name = kept.WRITES

    def __init__(self, config: Any, writes: Any, task_id: str, task_path: str) -> None:
        self._config = config
        self._writes = writes
        self._task_id = task_id
        self._task_path = task_path

    def state(self) -> Any:
        """Return the channels that were written."""
        return kept.channels_of(self._writes)

    def beside(self) -> Any:
        """Return what was written, and by whom."""
        return kept.beside_channels(self._config, self._writes, self._task_id, self._task_path)

    def facts(self) -> dict[str, Any]:
        """Return the checkpoint that they lie beside, the task, and the channels."""
        ids = kept.ids_of(self._config)
        return {
            **_of_thread(ids),
            semconv.LANGGRAPH_CHECKPOINT_ID: ids["checkpoint_id"],
            semconv.LANGGRAPH_TASK_ID: self._task_id,
        }

    def doubts(self) -> list[str]:
        """Return nothing: the graph goes on from the checkpoint that the writes lie beside, without this task."""
        return []


class SavedChange:
    """What a saver is asked to do with what it holds: delete, copy or prune threads. No place to go on from."""

    def __init__(self, method: str, function: Callable[..., Any], args: Any, options: Any) -> None:
        self.name = f"langgraph.{method}"
        self._function = function
        self._args = args
        self._options = options

    def state(self) -> Any:
        """Return the arguments by name."""
        named = inspect.signature(self._function).bind(*self._args, **self._options).arguments
        return dict(list(named.items())[1:])

    def beside(self) -> Any:
        """Return nothing: the arguments are all."""
        return None

    def facts(self) -> dict[str, Any]:
        """Return nothing more."""
        return {}

    def doubts(self) -> list[str]:
        """Return why it is no place to go on from."""
        return ["threads were changed, no state was saved"]


def _of_thread(ids: Mapping[str, Any]) -> dict[str, Any]:
    return {semconv.LANGGRAPH_THREAD_ID: str(ids["thread_id"]), semconv.LANGGRAPH_NAMESPACE: ids["checkpoint_ns"]}


@contextmanager
def saving(here: tuple[Session, Place], saved: Saved, saver: Any) -> Iterator[Any]:
    """Record the checkpoint and run the enclosed code, which writes it into the saver that is given; None: into none.

    What the tape has is saved already, so that a lasting saver is left alone; one in memory died with the recorded
    process and is written again. Raises what the saver raised then.
    """
    session, place = here
    lasting = not lives_here(saver)
    target = saver_of_replay(session) if lasting and session.mode.is_replay else saver
    call, beside = _taken_down(session, saved)
    crossing = session.begin(call, place)
    if crossing.answer is not None:
        outcome = crossing.answer.outcome
        crossing.finish(outcome)
        if outcome.failure is not None:
            raise rebuild(outcome.failure)
        with unrecorded():
            yield None if target is saver and lasting else target
        return
    try:
        with crossing.inside(), unrecorded():
            yield target
    except BaseException as error:
        crossing.finish(error_outcome(session, error))
        raise
    crossing.finish(beside)


def _taken_down(session: Session, saved: Saved) -> tuple[Call, Outcome]:
    """Return the checkpoint as it is recorded, and what lies beside its state, by value.

    Never raises: what fails is told, and not kept.
    """
    attributes: dict[str, Any] = {semconv.CHECKPOINT_NAME: saved.name, semconv.CHECKPOINT_RESUMABLE: False}
    state = beside = Outcome(OutcomeStatus.OK, round_trips=False)
    try:
        state, beside = value_outcome(session, saved.state()), value_outcome(session, saved.beside())
        doubts = [*saved.doubts(), *lacking(state, beside)]
        facts = session.redaction.attributes({semconv.CHECKPOINT_UNSAFE_REASONS: doubts, **saved.facts()})
        attributes.update(facts)
        attributes[semconv.CHECKPOINT_RESUMABLE] = not doubts
    except Exception as error:
        report(session, "taking down a checkpoint of LangGraph", error)
    call = Call(
        kind=Kind.CHECKPOINT,
        name=saved.name,
        side_effect=SideEffect.NONE,
        request=state.result or NOT_KEPT,
        attributes=attributes,
        round_trips=state.round_trips,
        notes=state.notes,
    )
    return call, beside

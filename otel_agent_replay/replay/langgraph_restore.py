"""A recorded LangGraph checkpoint put back into a saver, out of the recording alone.

Owns which of the recorded saves it takes: the checkpoint, what came before it, and the graphs around it. What a save
holds is `boundary.frameworks.langgraph_state`'s. Nothing of the saver that the run was recorded with is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.frameworks import langgraph_state as kept
from otel_agent_replay.boundary.frameworks.langgraph_saves import NOT_RESTORABLE
from otel_agent_replay.errors import CannotJudge, ConfigurationError, MissingPayload
from otel_agent_replay.model import Kind, MediaType, Payload, RecordedRun, RecordedSpan
from otel_agent_replay.payload.codec import decode

Key = tuple[str, str, str]
"""Thread, namespace and id of a checkpoint."""

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A LangGraph checkpoint of a run. `next` are the nodes that come next, None where it does not tell.

    `step` is its step in the run, `graph_step` LangGraph's own number; the last two are as recorded.
    """

    step: int
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    graph_step: int | None
    source: str
    next: tuple[str, ...] | None
    resumable: bool
    unsafe_reasons: tuple[str, ...]


class RecordedSaves:
    """What a recorded run's graphs have saved."""

    def __init__(self, recorded: RecordedRun) -> None:
        self._recorded = recorded
        self._states: dict[Key, RecordedSpan] = {}
        self._writes: dict[Key, list[RecordedSpan]] = {}
        self._steps: dict[int, RecordedSpan] = {}
        for item in recorded.spans:
            node = item.node
            if node is None or node.kind is not Kind.CHECKPOINT or node.step is None:
                continue
            if node.name == kept.CHECKPOINT:
                self._states[_key(item)] = item
            elif node.name == kept.WRITES:
                self._writes.setdefault(_key(item), []).append(item)
            else:
                continue
            self._steps[node.step] = item

    def checkpoints(self) -> list[SavedCheckpoint]:
        """Return the checkpoints in the order of the run."""
        found = [_facts(step, item) for step, item in self._steps.items() if _name(item) == kept.CHECKPOINT]
        return sorted(found, key=lambda one: one.step)

    def at(self, place: int | str) -> RecordedSpan:
        """Return the save of this step, or of the checkpoint with this id of LangGraph's. Raises ConfigurationError."""
        if isinstance(place, int):
            item = self._steps.get(place)
        else:
            item = next((item for key, item in self._states.items() if key[2] == place), None)
        if item is None:
            steps = sorted(self._steps)
            shown = ", ".join(map(str, steps[:_MOST_NAMED])) + (", ..." if len(steps) > _MOST_NAMED else "")
            what = f"step {place}" if isinstance(place, int) else f"the id {place!r}"
            raise ConfigurationError(
                f"run {self._recorded.run.run_id.hex()} has no LangGraph checkpoint at {what}; "
                + (f"its graphs saved at the steps {shown}" if steps else "its graphs saved nothing")
            )
        return item

    def made_at(self, step: int) -> str:
        """Return when the checkpoint of this step was made, as LangGraph says it (ISO 8601).

        Raises CannotJudge, MissingPayload or CodecError for one that was not kept whole.
        """
        return str(self._beside(self.at(step))["checkpoint"]["ts"])

    def calls_to_restore(self, target: RecordedSpan) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the saver's methods to call, each with its arguments, so that it is as it was at `target`.

        Beside the checkpoints that were reached by then lie the writes that had been made by then; none beside the
        target itself when it is a checkpoint. Writes over which the process died are left out, unless they are the
        target: a lasting saver may lack them too, and what wrote them runs anew where no later checkpoint has them.
        """
        key, until = _key(target), _step(target)
        reached = self._reached(target)
        for one in self._lineage(reached):
            yield "put", self._put(self._states[one])
            for writes in self._writes.get(one, ()):
                if writes is not target and not _was_saved(writes):
                    continue
                if one not in reached or (_step(writes) <= until and (one != key or _name(target) == kept.WRITES)):
                    yield "put_writes", self._put_writes(writes)

    def config_at(self, target: RecordedSpan, *, latest: bool = False) -> dict[str, Any]:
        """Return the config from which the graph goes on.

        It names the checkpoint, unless nodes were under way: LangGraph runs a named checkpoint's nodes all anew, and
        takes what they had done by then from the latest checkpoint of a thread only. With `latest` it names none: to go
        on from a named one LangGraph saves another, as the first of a branch.
        """
        thread_id, _, checkpoint_id = _key(target)
        named = None if latest or self.is_under_way(target) else checkpoint_id
        return kept.config_of({"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": named})

    def is_under_way(self, target: RecordedSpan) -> bool:
        """Whether nodes had done something by then: wrote, or are graphs that saved a checkpoint of their own."""
        return _name(target) == kept.WRITES or _key(target)[1] != ""

    def _reached(self, target: RecordedSpan) -> dict[Key, None]:
        """Return the checkpoints that the graphs were at: the target, and those of graphs around and inside it."""
        key, until = _key(target), _step(target)
        if key not in self._states:
            raise CannotJudge(f"the checkpoint {key[2]} of thread {key[0]!r} was saved by an earlier run")
        found = dict.fromkeys([*self._around(key), key])
        if self.is_under_way(target):
            latest: dict[tuple[str, str], Key] = {}
            for one, item in self._states.items():
                if _step(item) <= until and one[0] == key[0] and set(self._around(one)) & set(found):
                    latest[one[0], one[1]] = one
            found.update(dict.fromkeys(one for one in latest.values() if one[1] not in {name for _, name, _ in found}))
        return found

    def _lineage(self, reached: Iterable[Key]) -> list[Key]:
        """Return these checkpoints and what came before each, oldest first."""
        found: dict[Key, None] = {}
        for here in reached:
            one: Key | None = here
            while one is not None and one in self._states and one not in found:
                found[one] = None
                parent = self._states[one].span.attributes.get(semconv.LANGGRAPH_PARENT_ID)
                one = None if parent is None else (one[0], one[1], str(parent))
            if one is not None and one not in self._states:
                self._may_lack_ancestors(here)
        return sorted(found, key=lambda one: one[2])  # LangGraph's ids sort by time

    def _around(self, key: Key) -> list[Key]:
        """Return the checkpoints of the graphs around this one's, which it was saved beside."""
        parents: Mapping[str, str] = self._beside(self._states[key])["metadata"].get("parents") or {}
        return [(key[0], name, one) for name, one in parents.items() if name != key[1]]

    def _may_lack_ancestors(self, key: Key) -> None:
        if self._beside(self._states[key])["metadata"].get("counters_since_delta_snapshot"):
            raise CannotJudge(
                f"the checkpoint {key[2]} of thread {key[0]!r} holds only what changed since one of an earlier run"
            )

    def _put(self, item: RecordedSpan) -> tuple[Any, ...]:
        beside = self._beside(item)
        checkpoint = kept.checkpoint_from(self._state(item), beside)
        # Every channel counts as new: the saver has none of the values that earlier checkpoints put there.
        return kept.config_of(beside["saved_at"]), checkpoint, beside["metadata"], dict(checkpoint["channel_versions"])

    def _put_writes(self, item: RecordedSpan) -> tuple[Any, ...]:
        beside = self._beside(item)
        return kept.config_of(beside["saved_at"]), kept.writes_from(beside), beside["task_id"], beside["task_path"]

    def _state(self, item: RecordedSpan) -> Any:
        node = item.node
        if node is None or node.call is None:
            raise AssertionError("only what was saved is restored")
        return self._value(node.call.request, item)

    def _beside(self, item: RecordedSpan) -> Any:
        node = item.node
        outcome = None if node is None else node.outcome
        if node is None or node.call is None or outcome is None or outcome.result is None:
            raise CannotJudge(f"step {_step(item)} cannot be restored: it was not saved to the end")
        reasons = item.span.attributes.get(semconv.CHECKPOINT_UNSAFE_REASONS)
        lacking = [one for one in NOT_RESTORABLE if isinstance(reasons, Sequence) and one in reasons]
        if lacking:
            why = "; ".join([*lacking, *node.call.notes, *outcome.notes])
            raise CannotJudge(f"step {node.step} cannot be restored: {why}")
        return self._value(outcome.result, item)

    def _value(self, payload: Payload, item: RecordedSpan) -> Any:
        data = self._recorded.bytes_of(payload)
        if data is None or payload.media_type != MediaType.VALUE.value:
            raise MissingPayload(payload.digest, f"step {_step(item)}")
        return decode(data)


def _name(item: RecordedSpan) -> str:
    return "" if item.node is None else item.node.name


def _was_saved(item: RecordedSpan) -> bool:
    """Whether the saver had come to its end, and said where."""
    return item.node is not None and item.node.outcome is not None and item.node.outcome.result is not None


def _step(item: RecordedSpan) -> int:
    return 0 if item.node is None or item.node.step is None else item.node.step


def _key(item: RecordedSpan) -> Key:
    found = item.span.attributes
    names = (semconv.LANGGRAPH_THREAD_ID, semconv.LANGGRAPH_NAMESPACE, semconv.LANGGRAPH_CHECKPOINT_ID)
    thread_id, namespace, checkpoint_id = (str(found.get(name, "")) for name in names)
    return thread_id, namespace, checkpoint_id


def _facts(step: int, item: RecordedSpan) -> SavedCheckpoint:
    found = item.span.attributes
    thread_id, namespace, checkpoint_id = _key(item)
    parent, graph_step = found.get(semconv.LANGGRAPH_PARENT_ID), found.get(semconv.LANGGRAPH_STEP)
    following, reasons = found.get(semconv.LANGGRAPH_NEXT), found.get(semconv.CHECKPOINT_UNSAFE_REASONS)
    return SavedCheckpoint(
        step=step,
        thread_id=thread_id,
        checkpoint_ns=namespace,
        checkpoint_id=checkpoint_id,
        parent_checkpoint_id=None if parent is None else str(parent),
        graph_step=graph_step if isinstance(graph_step, int) else None,
        source=str(found.get(semconv.LANGGRAPH_SOURCE, "")),
        next=tuple(map(str, following)) if isinstance(following, (list, tuple)) else None,
        resumable=found.get(semconv.CHECKPOINT_RESUMABLE) is True,
        unsafe_reasons=tuple(map(str, reasons)) if isinstance(reasons, (list, tuple)) else (),
    )

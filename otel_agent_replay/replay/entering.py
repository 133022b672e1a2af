"""Where an agent can be entered: the last checkpoint before a step that it may go on from, or why there is none.

Owns what a checkpoint must be for that. Whether the agent takes part (`@replay.agent(enter=...)`) is the caller's
affair. Only what a person declared resumable is entered, and only where the recording tells for sure what was over by
then: a state that is not whole, or a call in flight, and the run is fast-forwarded instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.approvals import Grant, action_digest
from otel_agent_replay.boundary.crossing import root_strand
from otel_agent_replay.boundary.frameworks import langgraph_state
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import CodecError, RecordingError
from otel_agent_replay.model import Checkpoint, Kind, MediaType, Node, RecordedRun, RecordedSpan, digest_of
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.replay import langgraph_entrance
from otel_agent_replay.replay.langgraph_entrance import is_of_langgraph
from otel_agent_replay.replay.past import Past
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import Entry


@dataclass(frozen=True, slots=True)
class Entrance:
    """A checkpoint to enter at, and what lies before it."""

    checkpoint: Checkpoint
    past: Past
    langgraph_id: str = ""

    def open(self, session: Session, tape: Tape) -> None:
        """Let the agent of `session` be entered here, with what had been approved and seen by then."""
        session.entered_at = self.checkpoint
        session.strand = root_strand(self.past.next_strand)
        point = next(entry for entry in tape.skipped if entry.step == self.checkpoint.step)
        session.last_state = point.call.request.digest
        for grant in _unspent_grants(tape):
            session.approvals.grant(grant)


def entrance_before(recorded: RecordedRun, step: int) -> Entrance | str:
    """Return the last place before `step` where the run's agent can be entered, or why there is none."""
    reason = f"the run has no checkpoint before step {step}"
    points = [
        item
        for item in recorded.spans
        if item.node is not None and _is_state(item.node) and 0 < (item.node.step or 0) < step
    ]
    for number, item in enumerate(reversed(points)):
        found = _entrance_at(recorded, item)
        if isinstance(found, Entrance):
            return found
        if not number:
            reason = found
    return reason


def _is_state(node: Node) -> bool:
    """Whether it is a checkpoint; what LangGraph keeps beside its own is none."""
    return node.kind is Kind.CHECKPOINT and not node.name.startswith(f"{langgraph_state.CHECKPOINT}.")


def _entrance_at(recorded: RecordedRun, item: RecordedSpan) -> Entrance | str:
    node = item.node
    if node is None or node.step is None:
        raise AssertionError("only steps are checkpoints")
    named = f"checkpoint {node.name!r} (step {node.step})"
    doubt = _doubt(item, node)
    if doubt:
        return f"{named} {doubt}"
    past = langgraph_entrance.past_of(recorded, item) if is_of_langgraph(item) else _past_of(recorded, node)
    if isinstance(past, str):
        return f"{named} {past}"
    try:
        state = _state(recorded, node)
    except CodecError as error:
        return f"the state of {named} {error}"
    except RecordingError as error:
        return f"the state of {named} cannot be read: {error}"
    langgraph_id = str(item.span.attributes.get(semconv.LANGGRAPH_CHECKPOINT_ID, ""))
    return Entrance(Checkpoint(node.name, state, node.step, recorded), past, langgraph_id)


def _doubt(item: RecordedSpan, node: Node) -> str:
    """Return why nobody may go on from a checkpoint, by what was declared and seen when it was taken."""
    facts: Mapping[str, Any] = {**(node.call.attributes if node.call else {}), **item.span.attributes}
    reasons = facts.get(semconv.CHECKPOINT_UNSAFE_REASONS)
    if isinstance(reasons, Sequence) and reasons:
        return f"is not safe to go on from: {'; '.join(map(str, reasons))}"
    if facts.get(semconv.CHECKPOINT_RESUMABLE) is not True:
        return "is not declared resumable"
    return "" if node.end_sequence else "was not taken to the end"


def _past_of(recorded: RecordedRun, point: Node) -> Past | str:
    """Return all that began before, unless a call had not ended: code that is entered could not get its answer."""
    nodes = [node for node in recorded.nodes if node.sequence <= point.sequence]
    for node in nodes:
        if node.kind.is_crossing and not 0 < node.end_sequence < point.sequence:
            return f"was taken while {node.name!r} (step {node.step}) was in flight"
    return Past(recorded, point.sequence, {node.sequence for node in nodes})


def _state(recorded: RecordedRun, node: Node) -> Any:
    """Return the state that was handed over. Raises CodecError, which says what is wrong with it."""
    call = node.call
    if call is None or not call.round_trips:
        raise CodecError("; ".join(("was not kept whole", *(call.notes if call is not None else ()))))
    data = recorded.bytes_of(call.request)
    if data is None or call.request.media_type != MediaType.VALUE.value:
        raise CodecError("was not kept")
    if digest_of(data) != call.request.digest:
        raise CodecError("was altered")
    try:
        return decode(data)
    except CodecError as error:
        raise CodecError(f"cannot be read: {error}") from error


def _unspent_grants(tape: Tape) -> list[Grant]:
    """Return the approvals that lie before the checkpoint and that no call had used up by then."""
    given = [entry for entry in tape.skipped if entry.node.kind is Kind.APPROVAL and not entry.below]
    grants = [grant for entry in given if (grant := _grant(entry)) is not None]
    if not grants:
        return []
    tools = [entry for entry in tape.skipped if entry.node.kind is Kind.TOOL]
    spent = Counter(action_digest(entry.call.name, tape.request(entry) or b"") for entry in tools)
    left = []
    for grant in grants:
        if spent[grant.digest]:
            spent[grant.digest] -= 1
        else:
            left.append(grant)
    return left


def _grant(entry: Entry) -> Grant | None:
    outcome = entry.outcome
    facts = {} if outcome is None else outcome.attributes
    if facts.get(semconv.APPROVAL_GRANTED) is not True:
        return None
    allowed = facts.get(semconv.APPROVAL_ALLOWED, ())
    return Grant(
        bytes.fromhex(str(facts[semconv.APPROVAL_ACTION_DIGEST])),
        str(facts[semconv.APPROVAL_ACTION]),
        str(facts.get(semconv.APPROVAL_BY, "")),
        str(facts.get(semconv.APPROVAL_POLICY, "")),
        [str(one) for one in allowed] if isinstance(allowed, (list, tuple)) else [],
        entry.span[1],
        bytes.fromhex(str(facts.get(semconv.APPROVAL_STATE_DIGEST, ""))),
    )

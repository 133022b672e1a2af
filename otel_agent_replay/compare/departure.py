"""The first departure of one run from another: where, and of which cause, with the evidence.

Owns the closed list of causes. A cause is named only where the recordings show it; where they cannot, the cause
is one of those that mean "not comparable from here", which is neither "same" nor "different".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.cause_walk import Walker
from otel_agent_replay.compare.change_list import Sides
from otel_agent_replay.compare.changes import Added, Change, Changed, Field, Moved, NodeRef, Placed, Removed
from otel_agent_replay.compare.consequences import Consequence
from otel_agent_replay.compare.redacted import masks_asked, may_be_equal, related
from otel_agent_replay.compare.timeline import Timeline
from otel_agent_replay.compare.tree import Tree
from otel_agent_replay.compare.walk import WalkEnd
from otel_agent_replay.model import (
    AnswerSource,
    Kind,
    Loss,
    LossReason,
    Node,
    OutcomeStatus,
    RecordedRun,
    RunStatus,
    Versions,
    Word,
)
from otel_agent_replay.payload.canonical import canonical_json
from otel_agent_replay.payload.difference import MISSING


class Cause(Word):
    """Why two runs part. A closed list."""

    MODEL_ANSWER = "model answered differently to an equal request"
    REQUEST = "request differed"
    MODEL_OR_PARAMETERS = "model or parameters changed"
    ANSWER = "tool result differed for equal arguments"
    TOOLS = "tool set or schema changed"
    INSTRUCTIONS = "instructions changed"
    CODE = "code version changed"
    ORDER = "order only (parallel work)"
    ERROR = "retry or error"
    AMBIENT = "time or randomness not recorded"
    EDITED = "edited by fork"
    ENDING_NOT_OBSERVED = "ending not observed"
    UNRECORDED_ANSWER = "fork needs an unrecorded answer"
    REDACTION = "redaction may be the cause"
    INCOMPLETE = "recording incomplete"
    UNKNOWN = "unknown"

    @property
    def is_comparable(self) -> bool:
        """Whether the difference is one of the runs, rather than of what is known about them.

        `UNKNOWN` is comparable: both sides were seen and differ, only the reason was not.
        """
        return self not in _NOT_COMPARABLE


_NOT_COMPARABLE = frozenset({Cause.ENDING_NOT_OBSERVED, Cause.UNRECORDED_ANSWER, Cause.REDACTION, Cause.INCOMPLETE})

_FIELD_CAUSES = (
    (Field.MODEL, Cause.MODEL_OR_PARAMETERS),
    (Field.PARAMETERS, Cause.MODEL_OR_PARAMETERS),
    (Field.TOOLS, Cause.TOOLS),
    (Field.INSTRUCTIONS, Cause.INSTRUCTIONS),
    (Field.MESSAGES, Cause.REQUEST),
    (Field.ENDPOINT, Cause.REQUEST),
    (Field.REQUEST, Cause.REQUEST),
    (Field.ENVIRONMENT, Cause.REQUEST),
    (Field.NAME, Cause.CODE),
    (Field.SIDE_EFFECT, Cause.CODE),
)

_HIDING = frozenset(
    {
        LossReason.DROPPED,
        LossReason.SAMPLED,
        LossReason.TORN,
        LossReason.NOT_COVERED,
        LossReason.LATE,
        LossReason.INTERNAL,
    }
)


_AMBIENT = frozenset({"time", "datetime", "random", "entropy", "numpy.random", "environment"})
"""Entries of the coverage report without which time or randomness may have decided unseen."""

_HOPS_TOLD = 8  # sentences; the walk as data has all


@dataclass(frozen=True, slots=True)
class Departure:
    """Where the runs part. `counterpart` is what the other run did instead, at the same moment.

    `evidence` are sentences; `consequences` has one entry for each later change. `too_different`: so few nodes could be
    paired that no cause is named.
    """

    change: Change
    counterpart: Change | None
    cause: Cause
    evidence: Sequence[str]
    consequences: Sequence[Consequence]
    too_different: bool = False

    @property
    def at(self) -> NodeRef:
        """The node of A where it has one, else of B."""
        return self.change.b if isinstance(self.change, Added) else self.change.a


def find_departure(
    a: RecordedRun, b: RecordedRun, placed: Sequence[Placed], sides: Sides, consequences: Sequence[Consequence]
) -> Departure | None:
    """Return the first departure, None when nothing of substance differs."""
    if not placed:
        return None
    first = placed[0]
    counterpart = next((item.change for item in placed[1:] if _instead(first, item)), None)
    changes = [item.change for item in placed]
    cause, evidence = _Reasoning(a, b, sides, changes).cause(first, counterpart)
    return Departure(first.change, counterpart, cause, evidence, consequences)


def _instead(first: Placed, item: Placed) -> bool:
    kinds = (type(first.change), type(item.change))
    return item.moment == first.moment and kinds in {(Added, Removed), (Removed, Added)}


class _Reasoning:
    """Names the cause of one change from both recordings."""

    def __init__(self, a: RecordedRun, b: RecordedRun, sides: Sides, changes: Sequence[Change]) -> None:
        self._a, self._b, self._sides, self._changes = a, b, sides, changes

    def cause(self, placed: Placed, counterpart: Change | None) -> tuple[Cause, list[str]]:
        change = placed.change
        nodes = self._nodes(change)
        for node in nodes:
            if node.source is AnswerSource.EDITED:
                return Cause.EDITED, ["the answer was edited by a person when the run was forked"]
            if node.source is AnswerSource.REFUSED:
                return Cause.UNRECORDED_ANSWER, ["nobody could answer this call in the replay"]
        if isinstance(change, Changed):
            return self._of_pair(change, nodes)
        return self._of_structure(placed, counterpart)

    def _nodes(self, change: Change) -> list[Node]:
        ends: list[tuple[Tree, NodeRef]] = []
        if not isinstance(change, Added):
            ends.append((self._sides.tree_a, change.a))
        if not isinstance(change, Removed):
            ends.append((self._sides.tree_b, change.b))
        found = [tree.nodes[end.index].node for tree, end in ends]
        return [node for node in found if node is not None]

    def _of_pair(self, change: Changed, nodes: Sequence[Node]) -> tuple[Cause, list[str]]:
        fields = {item.field for item in change.fields}
        pending = [node for node in nodes if node.outcome is not None and node.outcome.status is OutcomeStatus.PENDING]
        requests = [cause for field, cause in _FIELD_CAUSES if field in fields]
        if pending and not requests:
            return Cause.ENDING_NOT_OBSERVED, ["the recording ends during this step: its process died"]
        redacted = [loss for run, end in ((self._a, change.a), (self._b, change.b)) for loss in _redactions(run, end)]
        if redacted:
            return Cause.REDACTION, ["a value of this step was replaced by a redaction rule in at least one recording"]
        if not requests:
            hidden = self._hidden(change, nodes)
            if hidden:
                return Cause.REDACTION, hidden
        if requests:
            return self._of_request(change, requests)
        if fields & {Field.STATUS, Field.FAILURE}:
            return Cause.ERROR, ["equal request; one run failed where the other did not, or otherwise"]
        if fields == {Field.ANSWERING_MODEL}:
            return Cause.MODEL_OR_PARAMETERS, ["equal request; another version of the model answered"]
        kind = nodes[0].kind if nodes else None
        if kind is Kind.MODEL:
            return Cause.MODEL_ANSWER, ["equal request, different answer"]
        if kind is None or not kind.is_crossing or kind is Kind.DECISION:
            return self._unexplained("equal input, different result, and nothing recorded inside it differs")
        if kind is Kind.INPUT:
            return Cause.ANSWER, ["the user said something else to the same message: it came from outside"]
        return Cause.ANSWER, ["equal arguments, different result"]

    def _hidden(self, change: Changed, nodes: Sequence[Node]) -> list[str]:
        """Return what says that a redaction rule may have made, or may hide, the difference of equal requests."""
        places = [place for item in change.fields for place in item.differences]
        if places and all(may_be_equal(place.before, place.after) for place in places):
            where = ", ".join(place.path or "the whole value" for place in places[:3])
            return [f"nothing differs but where a redaction rule replaced a value, at {where}"]
        unseen = any(item.by_digest for item in change.fields)
        if unseen and any(node.outcome is not None and not node.outcome.exact for node in nodes):
            return ["a redaction rule replaced a part of an answer, and what else differs was not kept"]
        if related(self._a.run, self._b.run):  # what was masked in one was answered from the other's tape
            return []
        count = sum(masks_asked(self._a, node) for node in nodes[:1])
        if not count:
            return []
        values = "a value" if count == 1 else f"{count} values"
        return [f"the requests are equal but for {values} that a redaction rule replaced: there they may have differed"]

    def _of_request(self, change: Changed, requests: Sequence[Cause]) -> tuple[Cause, list[str]]:
        listed = [item for item in change.fields if item.field.is_request or item.field is Field.ENVIRONMENT]
        evidence = [
            f"{item.field} differs at {', '.join(place.path or 'the whole value' for place in item.differences[:3])}"
            + (f" and {len(item.differences) - 3} more places" if len(item.differences) > 3 else "")
            for item in listed
        ]
        if set(requests) == {Cause.CODE}:
            return self._unexplained("the step itself is declared differently")
        if set(requests) == {Cause.REQUEST} and _same_in_another_order(change):
            return Cause.ORDER, [*evidence, "both requests hold the same values in another order"]
        more = [*self._walked(change), *self._version_evidence(), *self._ambient_evidence(change)]
        return requests[0], [*evidence, *more]

    def _of_structure(self, placed: Placed, counterpart: Change | None) -> tuple[Cause, list[str]]:
        change = placed.change
        if isinstance(change, Moved):
            return self._unexplained("the same step ran at another place")
        missing_in = self._b if isinstance(change, Removed) else self._a
        time = self._sides.time_b if isinstance(change, Removed) else self._sides.time_a
        name = "B" if isinstance(change, Removed) else "A"
        if counterpart is None and _stopped(missing_in, time, placed.moment):
            if missing_in.run.status is RunStatus.DEPARTED:
                return Cause.UNRECORDED_ANSWER, [f"{name} is a replay that stopped here: it left its tape"]
            return Cause.ENDING_NOT_OBSERVED, [f"the recording of {name} ends before this step: its process died"]
        hiding = [loss for loss in missing_in.losses if loss.reason in _HIDING]
        if hiding:
            return Cause.INCOMPLETE, [f"{name} lost {_losses(hiding)}: the step may have happened unseen"]
        observed = f"everything that came before it is equal; only {'A' if name == 'B' else 'B'} has it"
        return self._unexplained(observed, self._walked(change))

    def _unexplained(self, observed: str, walked: Sequence[str] = ()) -> tuple[Cause, list[str]]:
        versions = self._version_evidence()
        if versions:
            return Cause.CODE, [observed, *walked, *versions]
        uncovered = [
            entry.what
            for run in (self._a, self._b)
            for entry in run.run.coverage.entries
            if entry.state != "captured" and entry.what in _AMBIENT
        ]
        if uncovered:
            return Cause.AMBIENT, [observed, *walked, f"not captured: {', '.join(sorted(set(uncovered)))}"]
        return Cause.UNKNOWN, [observed, *walked]

    def _version_evidence(self) -> list[str]:
        return [
            f"{name} is {before!r} in A and {after!r} in B"
            for name, before, after in code_differences(self._a.run.versions, self._b.run.versions)
        ]

    def _walked(self, change: Change) -> list[str]:
        """Tell the way back from a request to where what is new in it came from."""
        walk = Walker(self._a, self._b, self._sides, self._changes).walk(change)
        if walk is None or walk.end is WalkEnd.ONLY_HERE:
            return []
        return walk.told(_HOPS_TOLD)

    def _ambient_evidence(self, change: Changed) -> list[str]:
        """Say which recorded clock and random reads went before with other values: they may be the source."""
        differing: dict[str, int] = {}
        for node, other, until in self._earlier_pairs(change):
            reads = zip(node.reads, other.reads, strict=False)
            for read, twin in reads:
                if read.sequence < until and read.name == twin.name and read.value != twin.value:
                    differing[read.name] = differing.get(read.name, 0) + 1
        return [
            f"{count} earlier read{'s' if count > 1 else ''} of {name} gave other values"
            for name, count in differing.items()
        ]

    def _earlier_pairs(self, change: Changed) -> list[tuple[Node, Node, int]]:
        until = self._sides.tree_a.nodes[change.a.index].node
        if until is None:
            return []
        found = []
        for pair in self._sides.alignment.pairs:
            one, other = self._sides.tree_a.nodes[pair.a].node, self._sides.tree_b.nodes[pair.b].node
            if one is not None and other is not None and one.reads and one.sequence < until.sequence:
                found.append((one, other, until.sequence))
        return found


def code_differences(a: Versions, b: Versions) -> list[tuple[str, str, str]]:
    """Return the versions of the program that are known on both sides and differ: (name, in A, in B)."""
    names = ("agent", "code", "source", "policy", "index")
    found = [(f"{name} version", getattr(a, name), getattr(b, name)) for name in names]
    found += [
        (f"package {name}", a.packages[name], b.packages[name])
        for name in sorted(a.packages.keys() & b.packages.keys())
    ]
    return [item for item in found if item[1] and item[2] and item[1] != item[2]]


def _stopped(run: RecordedRun, time: Timeline, moment: int) -> bool:
    """Whether the run was cut off and none of its own events lie after `moment`."""
    return run.run.status in (RunStatus.PENDING, RunStatus.DEPARTED) and time.nothing_begins_after(moment)


def _redactions(run: RecordedRun, end: NodeRef) -> list[Loss]:
    return [loss for loss in run.losses if loss.reason is LossReason.REDACTED and loss.span_id == end.span_id]


def _losses(losses: Sequence[Loss]) -> str:
    return ", ".join(f"{loss.count} {loss.what} ({loss.reason})" for loss in losses[:3])


def _same_in_another_order(change: Changed) -> bool:
    places = [place for item in change.fields if item.field.is_request for place in item.differences]
    before = sorted(canonical_json(place.before) for place in places if place.before is not MISSING)
    after = sorted(canonical_json(place.after) for place in places if place.after is not MISSING)
    return len(before) > 1 and before == after

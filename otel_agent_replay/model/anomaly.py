"""What is wrong with a trace that came in: named, kept, and never a reason to lose a span."""

from __future__ import annotations

from dataclasses import dataclass

from otel_agent_replay.model.word import Word


class AnomalyCode(Word):
    """What contradicts itself, or the rules, in spans that somebody sent."""

    ORPHAN_PARENT = "orphan_parent"  # the parent that a span names never came
    CYCLE = "cycle"  # spans that are each other's ancestors: cut at the earliest
    SEVERAL_ROOTS = "several_roots"  # more than one span of a trace has no parent: the earliest is the run's root
    DUPLICATE_SPAN = "duplicate_span"  # the same span came twice, or first unfinished: one is kept
    CONFLICTING_SPAN = "conflicting_span"  # different spans with one id: all are kept
    NEGATIVE_DURATION = "negative_duration"  # it ends before it begins: kept as it is
    MISSING_TIME = "missing_time"  # it has no time of its begin
    CHILD_OUTSIDE_PARENT = "child_outside_parent"  # it begins before, or ends after, its parent: clocks or a late task
    INVALID_ID = "invalid_id"  # no id at all, or unreadable: the span was left out
    CUT_ID = "cut_id"  # an id that is too short: kept, and joined with the one trace whose id has it in it
    ID_ENCODING = "id_encoding"  # ids written otherwise than the format says, and understood
    UNKNOWN_ENUM = "unknown_enum"  # a word for a kind or status that the format does not know
    LONE_SURROGATE = "lone_surrogate"  # text with half a character: kept exactly, sent on as an escape
    DUPLICATE_ATTRIBUTE = "duplicate_attribute"  # an attribute given twice: the last one is kept
    CUT_JSON = "cut_json"  # a JSON text that ends in the middle: kept as text
    DEEP_NESTING = "deep_nesting"  # deeper than logical places go: below that, its place is its ancestor's
    SPLIT_TRACE = "split_trace"  # parts of a trace began more than a day apart: a run each, told by a compaction
    UNREADABLE = "unreadable"  # a span, or a part of one, that is not what it says: left out

    @property
    def is_left_out(self) -> bool:
        """Whether something of what came was not kept."""
        return self in _LEFT_OUT


_LEFT_OUT = frozenset(
    {AnomalyCode.INVALID_ID, AnomalyCode.UNREADABLE, AnomalyCode.UNKNOWN_ENUM, AnomalyCode.DUPLICATE_ATTRIBUTE}
)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that is wrong, where, and in a sentence what was done about it. Ids are empty where unknown."""

    code: AnomalyCode
    detail: str
    trace_id: bytes = b""
    span_id: bytes = b""

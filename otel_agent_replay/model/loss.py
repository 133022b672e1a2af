"""What was lost: nothing is dropped in silence."""

from __future__ import annotations

from dataclasses import dataclass

from otel_agent_replay.model.word import Word


class LossReason(Word):
    """Why something that happened is not, or not wholly, in the lake."""

    DROPPED = "dropped"  # could not be written: full disk, closed journal, lock not had in time
    TRUNCATED = "truncated"  # over a stated size
    SAMPLED = "sampled"  # left out by policy
    REDACTED = "redacted"  # replaced by a rule, so that what is kept no longer round-trips
    UNPARSABLE = "unparsable"  # kept byte for byte, but not understood
    TORN = "torn"  # the tail of a journal segment was cut by a crash
    NOT_COVERED = "not_covered"  # crossed where we have no hook
    LATE = "late"  # came after its run had ended
    DAMAGED = "damaged"  # it came so that it contradicts itself: kept as it is, `what` names how
    INTERNAL = "internal"  # a defect of ours, guarded


@dataclass(frozen=True, slots=True)
class Loss:
    """`count` things of kind `what` lost for `reason`; `run_id` and `span_id` are empty where unknown."""

    reason: LossReason
    what: str
    count: int = 1
    detail: str = ""
    run_id: bytes = b""
    span_id: bytes = b""
    time_ns: int = 0

"""What was over when a LangGraph checkpoint was made: what a graph that is restored from it does not do again.

LangGraph saves in the background while the next nodes run, so that the step of a save says little of that. But the
checkpoint holds the time when it was made, between two super-steps, and where LangGraph's reads of the clock are on
record, that read is the exact place in the run; else times tell. Saves are told by the ids of the checkpoints that they
belong to, which sort by time. Where a doubt is left the checkpoint is no entrance.
"""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from otel_agent_replay import semconv
from otel_agent_replay.boundary.frameworks import langgraph_state as kept
from otel_agent_replay.errors import CodecError, RecordingError
from otel_agent_replay.model import CLIENT_STRAND, ORDER_MARKS, Kind, Read, RecordedRun, RecordedSpan
from otel_agent_replay.replay.langgraph_restore import RecordedSaves
from otel_agent_replay.replay.past import Past

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)
_SAVES = (kept.CHECKPOINT, kept.WRITES)
_CLOCK = "datetime.now(tz)"  # the read that makes a checkpoint's time, in microseconds
_ID = ("time.time_ns", "random.getrandbits(48)")  # those that follow it there and make its id


class _Moment(NamedTuple):
    """When the checkpoint was made: Unix microseconds, and the read that said so, where it is on record."""

    made_us: int
    read: Read | None

    def side(self, item: RecordedSpan) -> int:
        """Return on which side a call lies: -1 it was over, 1 it came after, 0 neither."""
        node, span = item.node, item.span
        if node is None:
            return 0
        if self.read is not None:
            here, begin, end = self.read.sequence, node.sequence, node.end_sequence
        else:
            here, begin, end = self.made_us, span.start_ns // 1000, span.end_ns // 1000
        if node.end_sequence and end <= here:
            return -1
        return 1 if begin >= here else 0


def is_of_langgraph(item: RecordedSpan) -> bool:
    """Whether a checkpoint is one that a graph saved."""
    return semconv.LANGGRAPH_THREAD_ID in item.span.attributes


def past_of(recorded: RecordedRun, item: RecordedSpan) -> Past | str:
    """Return what lies before the checkpoint `item`, or why one cannot tell."""
    point = item.node
    if point is None or point.step is None or item.span.attributes.get(semconv.LANGGRAPH_NAMESPACE):
        return "is one of a graph inside another"
    try:
        made = dt.datetime.fromisoformat(RecordedSaves(recorded).made_at(point.step))
    except (RecordingError, CodecError, ValueError) as error:
        return f"cannot be restored: {error}"
    reads = _reads_of(recorded)
    made_us = (made - _EPOCH) // _MICROSECOND
    said = [read for read in reads if read.name == _CLOCK and read.value == made_us]
    moment = _Moment(made_us, said[0] if len(said) == 1 else None)
    if moment.read is None and recorded.run.replay:
        return "was made by a replay, whose clock was another one"
    over, last, following = {point.sequence}, 0, point.sequence + 1
    for other in recorded.spans:
        node = other.node
        if node is None or node is point or not (node.kind.is_crossing or node.kind is Kind.CHECKPOINT):
            continue
        side = moment.side(other)
        if is_of_langgraph(other) and node.name in _SAVES:
            if _is_saved_before(other, item):
                over.add(node.sequence)
        elif side < 0:
            over.add(node.sequence)
            last = max(last, node.end_sequence)
        elif side > 0:
            following = min(following, node.sequence)
        else:
            return f"was made while {node.name!r} (step {node.step}) was in flight"
    until = following - 1 if moment.read is None else _end_of_making(reads, moment.read)
    first = last if moment.read is None else moment.read.sequence
    if any(first < read.sequence <= until and not _is_making(moment.read, read) for read in reads):
        return "was saved while code beside it read a clock, a draw or a variable: before it or after, nobody knows"
    return Past(recorded, until, over)


def _reads_of(recorded: RecordedRun) -> list[Read]:
    """Return the reads that the agent's code and its graph made, in order; those in calls are the calls' own."""
    found = (read for node in recorded.nodes if not node.kind.is_crossing for read in node.reads)
    made = [read for read in found if read.strand != CLIENT_STRAND and read.name not in ORDER_MARKS]
    return sorted(made, key=lambda read: read.sequence)


def _end_of_making(reads: list[Read], clock: Read) -> int:
    """Return the last sequence number of what makes the checkpoint: its time, then its id."""
    until = clock.sequence
    after = (read for read in reads if read.strand == clock.strand and read.sequence > until)
    for name, read in zip(_ID, after):  # noqa: B905 - the rest is code that comes later
        if read.name != name:
            break
        until = read.sequence
    return until


def _is_making(clock: Read | None, read: Read) -> bool:
    return clock is not None and read.strand == clock.strand


def _is_saved_before(other: RecordedSpan, point: RecordedSpan) -> bool:
    """Whether a save belongs to what led to the checkpoint."""
    name = semconv.LANGGRAPH_CHECKPOINT_ID
    theirs, ours = str(other.span.attributes.get(name, "")), str(point.span.attributes.get(name, ""))
    return theirs < ours

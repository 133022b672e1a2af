"""What lies in segments beside their runs: spans without a run, losses, torn tails, records that came late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from otel_agent_replay.export.record_index import RecordIndex, RunKey
from otel_agent_replay.export.run_records import foreign_spans
from otel_agent_replay.model import Loss, LossReason, RecordedRun, RecordedSpan, Run, Span
from otel_agent_replay.wire import convert


@dataclass(slots=True)
class Leftovers:
    """`traces` are runs with an empty id, one a trace; `losses` are those of no run and those of late records."""

    traces: list[RecordedRun] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)


def leftovers(index: RecordIndex, published: Mapping[str, Mapping[str, int]], segments: Collection[int]) -> Leftovers:
    """Return what is left in these `segments` of `index` (by number) after their runs were published.

    `published` tells of each attempt how many of its records were read in each segment: the others came too late.
    Late spans are kept as spans without a run, and said; other late records are counted.
    """
    found = Leftovers()
    spans: list[Span] = []
    for number in sorted(segments):
        found.losses += index.losses.get(number, ())
        torn = index.torn.get(number)
        if torn is not None:
            detail = f"{torn.segment}: {torn.lost_bytes} bytes after offset {torn.offset}"
            found.losses.append(Loss(LossReason.TORN, "journal segment", 1, detail, time_ns=_time_of(index, number)))
        for place in index.without_run.get(number, ()):
            _add_spans(index, place, spans, found.losses, b"")
    for key, run in index.runs.items():
        if not run.segments.isdisjoint(segments):
            _add_late(index, key, _counts(key, published), segments, found, spans)
    found.traces = _traces(spans)
    return found


def _counts(key: RunKey, published: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    """Return how many records were read: of an attempt that began elsewhere, those of all attempts at its run."""
    if key.span_id:
        return published.get(key.text, {})
    counts: Counter[str] = Counter()
    for text, of_attempt in published.items():
        if text.startswith(key.text):
            counts.update(of_attempt)
    return counts


def _add_late(
    index: RecordIndex,
    key: RunKey,
    counts: Mapping[str, int],
    segments: Collection[int],
    found: Leftovers,
    spans: list[Span],
) -> None:
    read = {number: counts.get(index.segments[number].segment.id, 0) for number in segments}
    late: Counter[str] = Counter()
    for place in index.runs[key].places:
        number = place[0]
        if number not in read:
            continue
        read[number] -= 1
        if read[number] >= 0:
            continue
        record = index.record_at(place)
        which: str = record.WhichOneof("record") or "record"
        if which == "loss":
            found.losses.append(convert.loss_from_wire(record.loss))
            continue
        late[which] += 1
        if which == "foreign":
            _add_spans(index, place, spans, found.losses, key.run_id)
    for which, count in sorted(late.items()):
        detail = "came after its run was sealed"
        found.losses.append(
            Loss(LossReason.LATE, which, count, detail, key.run_id, b"", _time_of(index, min(segments)))
        )


def _time_of(index: RecordIndex, number: int) -> int:
    header = index.segments[number].header
    return 0 if header is None else header.time_ns


def _add_spans(
    index: RecordIndex, place: tuple[int, int, int], spans: list[Span], losses: list[Loss], run_id: bytes
) -> None:
    try:
        spans.extend(foreign_spans(index.record_at(place).foreign))
    except DecodeError as error:
        losses.append(Loss(LossReason.UNPARSABLE, "foreign span", 1, str(error), run_id))


def _traces(spans: Sequence[Span]) -> list[RecordedRun]:
    traces: dict[bytes, dict[bytes, Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, {}).setdefault(span.span_id, span)
    return [_trace(trace_id, sorted(members.values(), key=_start)) for trace_id, members in traces.items()]


def _start(span: Span) -> tuple[int, bytes]:
    return span.start_ns, span.span_id


def _trace(trace_id: bytes, spans: Sequence[Span]) -> RecordedRun:
    run = Run(run_id=b"", trace_id=trace_id, root_span_id=b"", agent="", started_ns=spans[0].start_ns)
    return RecordedRun(run, tuple(RecordedSpan(span) for span in spans), _no_payload)


def _no_payload(digest: bytes) -> bytes | None:  # noqa: ARG001 - spans without a run have no payloads
    return None

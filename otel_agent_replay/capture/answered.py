"""The nodes of a replay that were answered as recorded: kept as numbers, and written many to a record.

Owns which nodes these are, and their form in the journal. Of such a node the tape knows everything but its ids, place
in the order and times, so that one of them costs a row here instead of two records.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing, Place, strand_label
from otel_agent_replay.capture.node_records import Shape
from otel_agent_replay.model import AnswerSource, Call, Outcome, OutcomeStatus, new_span_ids
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_time_ns = time.time_ns  # bound at import: our own clock reads are never recorded
_MOST_LIKES = 512
_OK = OutcomeStatus.OK
_TAPE = AnswerSource.TAPE


class _Like:
    """What the nodes of one name, at one place and in one thread of control, have in common."""

    __slots__ = ("attributes", "media_type", "parent_span_id", "shape", "strand")

    def __init__(self, call: Call, shape: Shape, parent_span_id: bytes, strand: str) -> None:
        self.attributes: Mapping[str, Any] = call.attributes
        self.media_type = call.request.media_type
        self.shape = shape
        self.parent_span_id = parent_span_id
        self.strand = strand


Begun = tuple[Crossing, _Like, int]
"""A node that has begun: the crossing, its like, and the Unix nanoseconds when it did."""

_Row = tuple[_Like, int, int, int, int, bytes, int, int, int, bytes]


class AnsweredNodes:
    """Those of one run. `shape_of` and `span_id_of` tell what a node shares with its like, and the id of a place.

    May be used from several threads.
    """

    def __init__(
        self,
        run_id: bytes,
        shape_of: Callable[[Place, Call, AnswerSource], Shape],
        span_id_of: Callable[[Place | None], bytes],
    ) -> None:
        self._run_id = run_id
        self._shape_of = shape_of
        self._span_id_of = span_id_of
        self._likes: dict[tuple[object, ...], _Like] = {}
        self._open: dict[Place, Begun] = {}
        self._rows: list[_Row] = []
        self._lock = threading.Lock()

    def begun(self, crossing: Crossing) -> bool:
        """Keep the begin of `crossing`, now; False when it is none of these."""
        answer, call = crossing.answer, crossing.call
        if answer is None or not answer.same_request or answer.origin_step is None:
            return False
        if crossing.source is not _TAPE:
            return False
        place, attributes = crossing.place, call.attributes
        # Of an HTTP call's attributes only the protocol is written; the rest follows from the tape.
        protocol = None if call.head is None else attributes.get(semconv.PROTOCOL)
        key = (place.parent, place.kind, place.name, call.side_effect, protocol, strand_label())
        like = self._likes.get(key)
        if (
            like is None
            or (call.head is None and like.attributes is not attributes)
            or like.media_type != call.request.media_type
        ):
            like = self._liken(key, crossing)
        self._open[place] = (crossing, like, _time_ns())
        return True

    def _liken(self, key: tuple[object, ...], crossing: Crossing) -> _Like:
        place, call = crossing.place, crossing.call
        shape = self._shape_of(place, call, crossing.source)
        if len(self._likes) >= _MOST_LIKES:
            self._likes.clear()
        like = self._likes[key] = _Like(call, shape, self._span_id_of(place.parent), strand_label())
        return like

    def ended(self, begun: Begun, outcome: Outcome) -> int:
        """Keep the end, now, of what `taken` gave. Returns how many are kept and not written.

        0: this one did not end as recorded, and needs records of its own.
        """
        crossing, like, time_ns = begun
        answer, result = crossing.answer, outcome.result
        if (
            answer is None
            or outcome is not answer.bare
            or result is None
            or outcome.status is not _OK
            or outcome.failure is not None
        ):
            return 0
        place = crossing.place
        rows = self._rows
        rows.append(
            (
                like,
                place.occurrence,
                place.step or 0,
                place.sequence,
                time_ns,
                crossing.call.request.digest,
                answer.origin_step or 0,
                place.next_sequence(),
                _time_ns(),
                result.digest,
            )
        )
        return len(rows)

    def taken(self, place: Place) -> Begun | None:
        """Return the begin that is kept for `place`, and forget it."""
        return self._open.pop(place, None)

    def still_open(self) -> list[Crossing]:
        """Return what has begun and not ended."""
        return [begun[0] for begun in list(self._open.values())]

    def records(self) -> list[bytes]:
        """Return the records of all that has ended, and forget it."""
        with self._lock:  # against another reader; whoever appends meanwhile stays behind
            count = len(self._rows)
            rows = self._rows[:count]
            del self._rows[:count]
        likes: dict[_Like, list[_Row]] = {}
        for row in rows:
            likes.setdefault(row[0], []).append(row)
        return [self._record(like, alike) for like, alike in likes.items()]

    def _record(self, like: _Like, rows: list[_Row]) -> bytes:
        _, occurrences, steps, sequences, begun_ns, requests, origins, end_sequences, ended_ns, results = zip(
            *rows, strict=True
        )
        record = wire.Record()
        answered = record.answered
        answered.run_id = self._run_id
        begun = answered.begun
        begun.CopyFrom(wire.Record.FromString(like.shape.begun).node_begun)
        begun.parent_span_id = like.parent_span_id
        begun.as_recorded = True
        if like.strand:
            begun.strand = like.strand
        ended = answered.ended
        ended.run_id = self._run_id
        ended.status = _OK._value_
        ended.as_recorded = True
        answered.span_ids = new_span_ids(len(rows))
        answered.occurrences.extend(occurrences)
        answered.steps.extend(steps)
        answered.sequences.extend(sequences)
        answered.begun_ns.extend(begun_ns)
        answered.request_digests = b"".join(requests)
        answered.origin_steps.extend(origins)
        answered.end_sequences.extend(end_sequences)
        answered.ended_ns.extend(ended_ns)
        answered.result_digests = b"".join(results)
        return record.SerializeToString()

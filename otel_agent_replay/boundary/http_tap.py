"""A tap on a live HTTP exchange: collects what the reader receives, and ends the crossing exactly once.

It never changes, delays or holds back a byte, and nothing it does may raise into the host. Memory is bounded:
a long body is handed to the observer in parts while it arrives.
"""

from __future__ import annotations

import collections
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing, leave_of
from otel_agent_replay.boundary.failures import recorded_failure
from otel_agent_replay.boundary.http_call import SentRequest, call_of, media_type_of, telling
from otel_agent_replay.boundary.http_coding import Masked, codings_in, masked
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.http_frames import MEDIA_TYPE as FRAMES
from otel_agent_replay.model import (
    STREAM_TYPES,
    AttributeValue,
    Chunk,
    FailurePhase,
    HttpResponseHead,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    make_outcome,
    make_response_head,
)
from otel_agent_replay.protocols.protocol import Protocol
from otel_agent_replay.protocols.sse import may_be_malformed

_clock = time.perf_counter_ns  # bound at import: our own clock reads are never recorded

PART_OF_STREAM = 1 << 20  # bytes of a stream held before a part is handed over
PART_OF_BODY = 16 << 20  # the same for any other body: it is one document, better whole
PART_AFTER_NS = 10_000_000_000  # an event stream that is slow but long is handed over in parts too
OVERLAP = 8 << 10  # bytes held back from a part, so that a secret split over two parts is seen whole
MOST_PACKED = 64 << 20  # a packed or framed body cannot be looked into in parts; beyond this it is not kept
MOST_UPLOADED = 64 << 20  # bytes of a streamed upload that are held

_NEVER = 1 << 63
_OK = OutcomeStatus.OK  # naming a member costs 35 ns before Python 3.12
_NO_FACTS: Mapping[str, AttributeValue] = {}
_new_chunk = tuple.__new__  # a named tuple's own way of making one costs three times as much

_abandoned: collections.deque[ResponseTap] = collections.deque()


def finish_abandoned() -> None:
    """End the exchanges whose responses were dropped without being read or closed.

    Garbage collection may strike anywhere, also inside a lock that ending a crossing needs, so it only leaves
    them here; the next exchange, or who closes the run, ends them.
    """
    while _abandoned:
        try:
            tap = _abandoned.popleft()
        except IndexError:
            return
        tap.close()


class ResponseTap:
    """The recording side of one exchange. Every method may be called from whatever thread or task reads.

    `began_ns` is on `time.perf_counter_ns`; chunk times count from it. `edited` is the request that the transport
    has to send in place of the client's, None as a rule.
    """

    # Of the class until something else is known: most taps never see a part, an upload or a coding.
    edited: SentRequest | None = None
    _head: HttpResponseHead | None = None
    _media_type: str = MediaType.BYTES.value
    _codings: tuple[str, ...] = ()
    _packed = False  # what cannot be looked into in parts: a content coding, or frames
    _trailers: tuple[tuple[str, str], ...] = ()
    _held = 0
    _limit = PART_OF_BODY
    _part_due = _NEVER
    _ended = False
    _sha: Any = None
    _told = 0  # bytes handed over in parts
    _first = b""
    _changed = False
    _dropped = False
    _upload: list[bytes] | None = None
    _uploaded = 0

    def __init__(
        self,
        crossing: Crossing,
        protocol: Protocol | None,
        request: SentRequest,
        began_ns: int,
        *,
        edited: bool = False,
    ) -> None:
        self.crossing = crossing
        if edited:
            self.edited = request
        self._protocol = protocol
        self._request = request
        self._began_ns = began_ns
        self._data: list[bytes] = []
        self._times: list[int] = []  # on the same clock as `began_ns`
        if request.body is None:
            self._upload = []
        crossing.leave = leave_of(self)

    # --- what the transport tells ---

    def head(self, status: int, reason: str, headers: tuple[tuple[str, str], ...], http_version: str) -> None:
        """The status line and headers have come."""
        try:
            self._end_upload()
            redaction = self.crossing.session.redaction
            self._head = make_response_head(status, reason, redaction.headers(headers), http_version)
            told = telling(headers)
            media_type = self._media_type = media_type_of(told.get("content-type", ""))
            coding = told.get("content-encoding")
            if coding:
                self._codings = codings_in(coding)
            if self._codings or media_type == FRAMES:
                self._packed = True
                self._limit = MOST_PACKED
            elif media_type in STREAM_TYPES:
                self._limit = PART_OF_STREAM
                self._part_due = _clock() + PART_AFTER_NS
        except Exception as error:
            report(self.crossing.session, "keeping a response head", error)

    def chunk(self, data: bytes) -> None:
        """The reader receives `data`."""
        now = _clock()
        self._data.append(data)
        self._times.append(now)
        self._held += len(data)
        if self._held > self._limit or now > self._part_due:
            self._overflow(now)

    def trailers(self, headers: tuple[tuple[str, str], ...]) -> None:
        """Headers came after the body."""
        self._trailers = self.crossing.session.redaction.headers(headers)

    def uploaded(self, data: bytes) -> None:
        """A piece of a streamed request body is sent."""
        if self._upload is not None:
            self._uploaded += len(data)
            if self._uploaded <= MOST_UPLOADED:
                self._upload.append(bytes(data))

    def end(self) -> None:
        """The body was read to its end."""
        self._finish(_OK, None, closed_early=False)

    def close(self) -> None:
        """The reader is done with the response, before its end if `end` was not called."""
        if not self._ended:
            self._finish(_OK, None, closed_early=True)

    def run_over(self) -> None:
        """The run ends while the body is still open: what was read of it is all that the run ever had."""
        if self._head is not None:
            self.close()

    def fail(self, error: BaseException) -> None:
        """The call or the reading of its body raised `error`, which the caller now raises on."""
        if isinstance(error, GeneratorExit):
            self.close()
        elif isinstance(error, Exception):
            self._finish(OutcomeStatus.ERROR, error, closed_early=False)
        else:
            self._finish(OutcomeStatus.CANCELLED, error, closed_early=False)

    def __del__(self) -> None:
        if not self._ended:
            _abandoned.append(self)

    # --- inside ---

    def _finish(self, status: OutcomeStatus, error: BaseException | None, *, closed_early: bool) -> None:
        if self._ended:
            return
        self._ended = True
        session = self.crossing.session
        try:
            self._end_upload()
            outcome = self._outcome(status, error, closed_early=closed_early)
        except Exception as defect:
            report(session, "keeping a response", defect)
            note = "the response was not kept: recording it failed"
            outcome = Outcome(status, head=self._head, round_trips=False, exact=False, notes=(note,))
        try:
            self.crossing.finish(outcome)
        except Exception as defect:
            report(session, "ending an exchange", defect)
        self._data = []

    def _outcome(self, status: OutcomeStatus, error: BaseException | None, *, closed_early: bool) -> Outcome:
        head, session, failure = self._head, self.crossing.session, None
        if error is not None:
            phase = FailurePhase.CALL if head is None else FailurePhase.BODY
            failure = recorded_failure(error, phase, session.redaction)
        if head is None:
            return Outcome(status, failure=failure)
        body = self._last_part() if self._sha is not None else None
        if body is None:
            clean = self._masked()
            data = clean.chunks[0] if len(clean.chunks) == 1 else b"".join(clean.chunks)
            result = Payload.of(data, self._media_type)
            chunks = self._chunks(clean.chunks)
        else:
            clean, result, chunks = body, Payload(self._sha.digest(), None, self._media_type, self._told), ()
        return make_outcome(
            status,
            result,
            head,
            chunks,
            self._trailers,
            failure,
            closed_early,
            clean.exact and not self._changed,
            not self._dropped,
            clean.notes,
            self._facts(head, clean.plain, whole=status is _OK and not closed_early)
            if session.observer.wants_facts
            else _NO_FACTS,
        )

    def _chunks(self, pieces: Sequence[bytes]) -> tuple[Chunk, ...]:
        """Return the sizes of the first pieces that are held, and when each came."""
        began_ns = self._began_ns
        after_ns = [at_ns - began_ns for at_ns in self._times]
        return tuple(map(_new_chunk, repeat(Chunk), zip(map(len, pieces), after_ns)))  # noqa: B905 - of each as many

    def _masked(self) -> Masked:
        if self._dropped:
            note = f"the packed or framed body has more than {MOST_PACKED >> 20} MiB; it was not kept"
            self._times.clear()
            return Masked([], b"", exact=False, notes=(note,))
        return masked(self.crossing.session.redaction, self._data, self._media_type, self._codings)

    def _facts(self, head: HttpResponseHead, plain: bytes, *, whole: bool) -> dict[str, AttributeValue]:
        protocol = self._protocol
        facts: dict[str, AttributeValue] = {semconv.HTTP_STATUS: head.status}
        if protocol is None:
            return facts
        if self._times and protocol.framing((self._first or plain)[:64], self._media_type) is not None:
            facts[semconv.RESPONSE_TIME_TO_FIRST_CHUNK] = (self._times[0] - self._began_ns) / 1e9
        found = protocol.response_facts(self._first + plain, self._media_type, head.status)
        facts.update(found)
        if self._to_be_read_in_full(plain, head.status, found, whole=whole):
            problems = protocol.fold(plain, self._media_type, head.status).problems
            if problems:
                facts[semconv.MALFORMED] = "; ".join(problems)
        return facts

    def _to_be_read_in_full(
        self, plain: bytes, status: int, found: Mapping[str, AttributeValue], *, whole: bool
    ) -> bool:
        """Whether something in an answer may be malformed. Reading each in full is for when it is sealed."""
        if status >= 400 or self._told:
            return False
        if whole and semconv.RESPONSE_MODEL not in found and semconv.RESPONSE_FINISH_REASONS not in found:
            return True
        # Also of a stream that its reader left: a client leaves at the event that it cannot read.
        return self._media_type == MediaType.EVENT_STREAM.value and may_be_malformed(plain)

    def _overflow(self, now: int) -> None:
        try:
            if self._packed:
                self._dropped = True
                self._data, self._held = [], 0
            elif not self._dropped:
                self._tell(keep=OVERLAP)
                if self._part_due is not _NEVER:
                    self._part_due = now + PART_AFTER_NS
        except Exception as error:
            self._dropped = True
            self._data, self._held = [], 0
            report(self.crossing.session, "keeping a part of a long body", error)

    def _tell(self, *, keep: int) -> None:
        """Hand all but about the last `keep` bytes to the observer, redacted."""
        redaction = self.crossing.session.redaction
        clean = masked(redaction, self._data, self._media_type, ())
        self._changed = self._changed or not clean.exact
        ready, held = len(clean.chunks), 0
        while ready and held < keep:
            ready -= 1
            held += len(clean.chunks[ready])
        if ready == 0 and keep:
            return
        data = b"".join(clean.chunks[:ready])
        if self._sha is None:
            self._sha = hashlib.sha256()
            self._first = data[:OVERLAP]
        self._sha.update(data)
        self._told += len(data)
        chunks = self._chunks(clean.chunks[:ready])
        if self._head is not None:
            self.crossing.session.observer.partial(self.crossing, self._head, data, chunks)
        # What is held back stays masked: the half of a secret that was seen whole here must not come back.
        self._data, self._times, self._held = clean.chunks[ready:], self._times[ready:], held

    def _last_part(self) -> Masked:
        tail = b"".join(self._data)
        self._tell(keep=0)
        return Masked([], tail, exact=True)

    def _end_upload(self) -> None:
        """Tell the observer the whole request once a streamed upload was sent."""
        pieces, self._upload = self._upload, None
        if pieces is None:
            return
        crossing, request = self.crossing, self._request
        if self._uploaded > MOST_UPLOADED:
            note = f"the upload has {self._uploaded} bytes; only the first {MOST_UPLOADED >> 20} MiB were kept"
            request = replace(request, notes=(*request.notes, note))
        call, _ = call_of(crossing.session.redaction, replace(request, body=b"".join(pieces)))
        crossing.call = replace(
            crossing.call,
            request=call.request,
            head=call.head,
            notes=call.notes,
            round_trips=self._uploaded <= MOST_UPLOADED,
        )
        crossing.session.observer.sent(crossing)

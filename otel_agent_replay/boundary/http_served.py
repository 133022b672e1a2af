"""A recorded HTTP outcome on its way to the code that asked: head, chunks one by one, failure at its point.

A transport takes pieces and tells how the reader left; the recorded completion order is kept here. No I/O,
and no library's classes: each transport builds its own response around this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from otel_agent_replay.boundary.crossing import Answer, Crossing, leave_of
from otel_agent_replay.boundary.http_faults import stop
from otel_agent_replay.boundary.transport_faults import Fault, TransportFault
from otel_agent_replay.errors import MissingPayload, ReplayDeparture, ReplayInterrupt, TapeEnded
from otel_agent_replay.model import HttpResponseHead, Outcome, OutcomeStatus, Payload
from otel_agent_replay.payload.failure import failure_of, rebuild

# Naming a member costs 35 ns before Python 3.12.
_OK, _PENDING = OutcomeStatus.OK, OutcomeStatus.PENDING


class Served:
    """The playback side of one exchange.

    Call `open` (or `open_async`) first: it raises a failure that came before any answer. Then `take` until it
    gives None, then `end` (or `end_async`); or `leave` at any time. All but `take` may raise. `translate` makes the
    client's own error of a prepared one; `connect_s` and `read_s` are how long the client waits for that, None: for
    ever.
    """

    __slots__ = (
        "__weakref__",
        "_answer",
        "_done",
        "_next",
        "_outcome",
        "_pieces",
        "_taken",
        "connect_s",
        "crossing",
        "read_s",
        "translate",
    )

    def __init__(self, crossing: Crossing, answer: Answer) -> None:
        self.crossing = crossing
        self._answer = answer
        self._outcome = answer.bare  # told as it is where it ends as recorded: its bytes are not needed then
        self._pieces = self._cut(answer.data)
        self._next = 0
        self._taken = 0
        self._done = False
        self.connect_s: float | None = None
        self.read_s: float | None = None
        self.translate: Callable[[TransportFault], BaseException] | None = None
        crossing.leave = leave_of(self)

    @property
    def head(self) -> HttpResponseHead:
        """The recorded head. Only after `open`."""
        head = self._outcome.head
        if head is None:
            raise self._stopped("the recording has no response head")
        return head

    @property
    def trailers(self) -> tuple[tuple[str, str], ...]:
        """Headers that came after the body."""
        return self._outcome.trailers

    @property
    def size(self) -> int:
        """Bytes of the whole recorded body."""
        return sum(map(len, self._pieces))

    @property
    def ends_here(self) -> bool:
        """Whether every piece was taken and the recording ended well with the last of them."""
        outcome = self._outcome
        whole = outcome.status is _OK and not outcome.closed_early
        return whole and self._next == len(self._pieces)

    def open(self) -> None:
        """Raise the recorded failure if it came before any answer, at its turn."""
        within = getattr(self.crossing.answer, "settle_within", None)
        if within is not None:
            try:
                came = within(self._patience_s())
            except BaseException:
                self._finish(self._cancelled())
                raise
            self._arrived(came=came)
        if self._fails_at_once():
            self.end()

    async def open_async(self) -> None:
        """Raise the recorded failure if it came before any answer, at its turn."""
        within = getattr(self.crossing.answer, "settle_within_async", None)
        if within is not None:
            try:
                came = await within(self._patience_s())
            except BaseException:
                self._finish(self._cancelled())
                raise
            self._arrived(came=came)
        if self._fails_at_once():
            await self.end_async()

    def take(self) -> bytes | None:
        """Return the next recorded piece, or None after the last; then call `end`."""
        if self._next == len(self._pieces):
            return None
        piece = self._pieces[self._next]
        self._next += 1
        self._taken += len(piece)
        return piece

    def end(self) -> None:
        """End the exchange in its turn; raise its failure, if it had one."""
        if self._done:
            return
        self._check_end()
        try:
            self.crossing.settle()
        except BaseException:
            self._finish(self._cancelled())
            raise
        self._end()

    async def end_async(self) -> None:
        """End the exchange in its turn, letting other tasks run; raise its failure, if it had one."""
        if self._done:
            return
        self._check_end()
        try:
            await self.crossing.settle_async()
        except BaseException:
            self._finish(self._cancelled())
            raise
        self._end()

    def leave(self, *, in_turn: bool = True) -> None:
        """The reader leaves before the end. `in_turn` False where the thread must not be made to wait."""
        if self._done:
            return
        try:
            if in_turn:
                self.crossing.settle()
        finally:
            self._finish(self._as_left())

    def run_over(self) -> None:
        """The run ends while the body is still open."""
        if self._outcome.head is not None:
            self.leave(in_turn=False)

    async def leave_async(self) -> None:
        """The reader leaves before the end, letting other tasks run until it is its turn."""
        if self._done:
            return
        try:
            await self.crossing.settle_async()
        finally:
            self._finish(self._as_left())

    def __del__(self) -> None:
        # Ending here could wait or lock in the middle of a collection; whoever closes the run counts it as open.
        if not self._done and self.crossing.answer is not None:
            self.crossing.answer.done()

    # --- inside ---

    def _cut(self, data: bytes | None) -> list[bytes]:
        result, chunks = self._outcome.result, self._outcome.chunks
        if result is None:
            return []
        if data is None:
            if result.size == 0:
                return []
            missing = MissingPayload(result.digest, f"response body of step {self._step}")
            raise self._stopped(str(missing)) from missing
        if not chunks:
            return [data] if data else []
        pieces, start = [], 0
        for size, _ in chunks:
            pieces.append(data[start : start + size])
            start += size
        if start < len(data):
            pieces.append(data[start:])
        return pieces

    @property
    def _step(self) -> int | None:
        return self._answer.origin_step

    def _cancelled(self) -> Outcome:
        return replace(self._whole(), status=OutcomeStatus.CANCELLED)

    def _whole(self) -> Outcome:
        """Return the outcome with its bytes: for one that ends otherwise than recorded."""
        return self._answer.outcome if self._outcome is self._answer.bare else self._outcome

    def _fails_at_once(self) -> bool:
        return self._outcome.head is None

    # --- a prepared answer takes its time before its head; a recorded one is held at its end alone ---

    def _never_connects(self) -> bool:
        failure = self._outcome.failure
        return failure is not None and failure.message == Fault.CONNECT_TIMEOUT.value

    def _patience_s(self) -> float | None:
        return self.connect_s if self._never_connects() else self.read_s

    def _arrived(self, *, came: bool) -> None:
        """Go on with an answer that came within the client's patience; end the exchange with its timeout otherwise."""
        if not came:
            fault = Fault.CONNECT_TIMEOUT if self._never_connects() else Fault.READ_TIMEOUT
            self._outcome = Outcome(OutcomeStatus.ERROR, failure=failure_of(TransportFault(fault)))
            self._pieces = []

    def _check_end(self) -> None:
        """Stop the replay where the reader wants more than was ever received."""
        outcome = self._outcome
        if outcome.status is _PENDING:
            raise stop(self.crossing.session, TapeEnded(self._step, self.crossing.call.name))
        if outcome.closed_early and outcome.failure is None:
            raise stop(
                self.crossing.session,
                ReplayDeparture(
                    step=self._step,
                    path=self.crossing.place.path,
                    expected=f"the body to be closed after {len(self._pieces)} chunks ({self.size} bytes)",
                    came="a read beyond them",
                ),
            )

    def _end(self) -> None:
        outcome = self._outcome
        self._finish(outcome)
        if outcome.failure is not None:
            error = rebuild(outcome.failure)
            if isinstance(error, TransportFault) and self.translate is not None:
                error = self.translate(error)
            raise error
        if outcome.head is None:
            raise self._stopped("the recording has neither an answer nor a failure")

    def _as_left(self) -> Outcome:
        """Return the outcome as this reader saw it: the pieces taken."""
        if self.ends_here or (self._outcome.closed_early and self._next == len(self._pieces)):
            return self._outcome
        outcome = self._whole()
        result = outcome.result
        if result is None or result.data is None:
            return replace(outcome, closed_early=True)
        return replace(
            outcome,
            status=OutcomeStatus.OK,
            failure=None,
            closed_early=True,
            result=Payload.of(result.data[: self._taken], result.media_type),
            chunks=tuple(outcome.chunks)[: self._next],
        )

    def _finish(self, outcome: Outcome) -> None:
        if not self._done:
            self._done = True
            self.crossing.finish(outcome)

    def _stopped(self, why: str) -> ReplayInterrupt:
        return stop(self.crossing.session, ReplayInterrupt(f"step {self._step} cannot be replayed: {why}"))

"""Which bodies the open segment has: each is written once a segment, as its difference to an earlier one where it can.

A segment must hold every body that its own runs name, also when it was opened between the question "is this body
there?" and the write that relies on the answer. Knows nothing of files.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from otel_agent_replay.model import EMPTY_DIGEST, Payload
from otel_agent_replay.payload.parts import StateHistory
from otel_agent_replay.payload.prefix import BodyHistory
from otel_agent_replay.wire.frames import frame
from otel_agent_replay.wire.v1 import journal_pb2 as wire

_MOST_OFFERED = 256
_DELTA_FROM = 512  # bytes: looking for what a smaller body shares costs more than it saves


class Offer:
    """What one thread was told about bodies since its last write, and of which segment it was told."""

    __slots__ = ("bodies", "generation")

    def __init__(self, generation: int = 0) -> None:
        self.generation = generation
        self.bodies: list[tuple[Payload, wire.Record | None]] = []


NO_OFFER = Offer()


class _Open(threading.local):
    def __init__(self) -> None:
        self.offer: Offer | None = None


class SegmentBodies:
    """The digests written in the open segment. `record` and `take` are for any thread, the rest is locked."""

    def __init__(self) -> None:
        self._open = _Open()
        self._generation = 1
        self._written: set[bytes] = set()

    def new_segment(self) -> None:
        """Forget what was written: the next segment has none of it."""
        self._written = set()
        self._generation += 1

    def record(self, payload: Payload, history: BodyHistory | None) -> wire.Record | None:
        """Return the record to write for `payload`, or None when none is needed. Remembers the answer for `take`."""
        data = payload.data
        if data is None or payload.digest == EMPTY_DIGEST:
            return None
        offer = self._open.offer
        if offer is None or len(offer.bodies) >= _MOST_OFFERED:
            offer = self._open.offer = Offer(self._generation)
        if payload.digest in self._written:
            offer.bodies.append((payload, None))
            return None
        difference = None if history is None or len(data) < _DELTA_FROM else _difference(history, payload, data)
        if difference is not None and difference.base in self._written:
            record = wire.Record(body=difference)
        else:
            record = _whole(payload, data)
        offer.bodies.append((payload, record))
        return record

    def take(self) -> Offer:
        """Return what this thread was told since the last `take`."""
        offer = self._open.offer
        if offer is None:
            return NO_OFFER
        self._open.offer = None
        return offer

    def is_stale(self, offer: Offer) -> bool:
        """Whether the offer speaks of an earlier segment."""
        return bool(offer.bodies) and offer.generation != self._generation

    def completed(self, records: Sequence[wire.Record | bytes], offer: Offer) -> bytes:
        """Return the frames of `records` with every offered body whole, for a segment younger than the offer."""
        frames = [
            frame(_whole(payload, payload.data or b"").SerializeToString())
            for payload, _ in offer.bodies
            if payload.digest not in self._written
        ]
        bodies = {id(body) for _, body in offer.bodies}
        frames += [framed(record) for record in records if id(record) not in bodies]
        return b"".join(frames)

    def wrote(self, records: Sequence[wire.Record | bytes], offer: Offer) -> None:
        """Note that `records` are in the segment now."""
        for payload, body in offer.bodies:
            if body is not None and any(record is body for record in records):
                self._written.add(payload.digest)


def framed(record: wire.Record | bytes) -> bytes:
    """Return the frame of a record, or of its serialised form."""
    return frame(record if isinstance(record, bytes) else record.SerializeToString())


def _whole(payload: Payload, data: bytes) -> wire.Record:
    return wire.Record(body=wire.Body(digest=payload.digest, media_type=payload.media_type, data=data))


def _difference(history: BodyHistory, payload: Payload, data: bytes) -> wire.Body | None:
    """Return `data` as its difference to an earlier body, and remember it. None: write it whole."""
    body = wire.Body(digest=payload.digest, media_type=payload.media_type)
    try:
        if isinstance(history, StateHistory):
            found = history.parts(data)
            history.remember(payload.digest, data)
            if found is None:
                return None
            body.base = found[0]
            body.parts.extend(wire.Part(data=part.data, start=part.start, size=part.size) for part in found[1])
            return body
        delta = history.delta(data)
        history.remember(payload.digest, data)
    except RuntimeError:  # another thread of the run changed the history meanwhile: only the saving is lost
        return None
    if delta is None:
        return None
    body.base, body.prefix, body.suffix = delta
    body.data = data[body.prefix : len(data) - body.suffix]
    return body

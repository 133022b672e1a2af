"""Where both protocols meet: may a request come in at all, is it fit, and into the log with it.

Owns the bounds: a size before anything is read, memory in use, what waits to be sealed.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from otel_agent_replay_collector.admission import Admission, Admitted
from otel_agent_replay_collector.buffers import Buffer, BufferPool
from otel_agent_replay_collector.options import CollectorOptions
from otel_agent_replay_collector.refusal import Refused, busy, too_large, unavailable
from otel_agent_replay_collector.request_file import LOGS, TRACES, waiting_bytes
from otel_agent_replay_collector.request_log import Accepted, RequestLog, Waiting
from otel_agent_replay_collector.tally import Tally

SIGNALS = {TRACES: "traces", LOGS: "logs"}
_LOOK_AGAIN_S = 0.25


class Intake:
    """Takes requests. May be used from several threads."""

    def __init__(self, options: CollectorOptions, admission: Admission, log: RequestLog, tally: Tally) -> None:
        self.most = options.max_request_mb << 20
        self._retry_s = options.retry_s
        self._admission = admission
        self._log = log
        self.tally = tally
        self.pool = BufferPool(options.max_in_flight_mb << 20)
        self.backlog = Backlog(options.folder, options.max_waiting_mb << 20, log)
        self.ending = False

    def not_now(self) -> Refused | None:
        """Return why no request is taken just now; None when one is."""
        if self.ending:
            return unavailable("the receiver is ending", 1.0, "ending")
        if self._log.broken is not None and not self.backlog.may_try():
            return unavailable("requests cannot be written to disk", self._retry_s, "disk")
        if self.backlog.is_full():
            told = f"{self.backlog.bytes >> 20} MiB wait to be sealed, and no more may"
            return busy(told, self._retry_s, "backlog")
        return None

    def room_for(self, size: int) -> Buffer:
        """Return a buffer for a request of `size` bytes. Raises Refused when it is too large, or too much is in use."""
        if size > self.most:
            raise too_large(str(size), self.most)
        buffer = self.pool.take(size)
        if buffer is None:
            raise busy("too many requests are being read at the same time", 1.0, "memory")
        return buffer

    def quick(self, buffer: Buffer, length: int, kind: int, owner: Waiting, tag: object) -> Accepted | None:
        """Return a plain request as it is to be logged; None when it needs `slow`, and keeps its buffer."""
        admitted = self._admission.at_once(buffer.body(length), kind)
        if admitted is None:
            return None
        return self._accepted(admitted, buffer, length, owner, tag, as_json=False)

    def slow(
        self, buffer: Buffer, length: int, kind: int, owner: Waiting, tag: object, *, is_json: bool, gzipped: bool
    ) -> Accepted:
        """Return any request as it is to be logged. Raises Refused, and the buffer is given back."""
        try:
            admitted = self._admission.thorough(buffer.body(length), kind, is_json=is_json, gzipped=gzipped)
            if admitted.data is not None:
                other = self.room_for(len(admitted.data))
                buffer.release()
                buffer, length = other, len(admitted.data)
                buffer.body(length)[:] = admitted.data
        except BaseException:
            buffer.release()
            raise
        return self._accepted(admitted, buffer, length, owner, tag, as_json=is_json)

    def submit(self, accepted: Accepted) -> None:
        """Hand a request to the log; its owner is told when it is on disk."""
        self._log.submit(accepted)

    def acknowledged(self, accepted: Accepted) -> None:
        """Count a request that is on disk, and give its buffer back."""
        self.tally.add("acknowledged_requests")
        self.tally.add("acknowledged_items", accepted.items, f'signal="{SIGNALS[accepted.kind]}"')
        accepted.buffer.release()

    def not_written(self, accepted: Accepted) -> Refused:
        """Return why a request that could not be written is refused, and give its buffer back."""
        accepted.buffer.release()
        return unavailable("the request could not be written to disk", self._retry_s, "disk")

    def refused(self, refusal: Refused) -> None:
        """Count a refusal."""
        self.tally.add("refused_requests", 1, f'reason="{refusal.reason}"')

    def _accepted(
        self, admitted: Admitted, buffer: Buffer, length: int, owner: Waiting, tag: object, *, as_json: bool
    ) -> Accepted:
        self.tally.add("received_items", admitted.items + admitted.rejected, f'signal="{SIGNALS[admitted.kind]}"')
        if admitted.rejected:
            self.tally.add("rejected_items", admitted.rejected)
        if admitted.masked:
            self.tally.add("masked_requests")
        return Accepted(buffer, length, admitted.kind, admitted.items, owner, tag, _answer(admitted, as_json=as_json))


class Backlog:
    """What was accepted and is not sealed, in bytes; looked up anew a few times a second."""

    def __init__(self, lake: Path, most: int, log: RequestLog) -> None:
        self._lake = lake
        self._most = most
        self._log = log
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._on_disk = 0
        self._written_then = 0
        self._tried = float("-inf")

    @property
    def bytes(self) -> int:
        """Bytes that wait."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_AGAIN_S and self._lock.acquire(blocking=False):
            try:
                written = self._log.written_bytes
                self._on_disk = waiting_bytes(self._lake)
                self._written_then, self._looked = written, now
            finally:
                self._lock.release()
        return self._on_disk + self._log.written_bytes - self._written_then

    def is_full(self) -> bool:
        """Return whether senders must wait for the sealer."""
        return self.bytes >= self._most

    def may_try(self) -> bool:
        """Return whether one request may try a disk that failed: now and then, to see whether it works again."""
        now = time.monotonic()
        if now - self._tried < 1.0:
            return False
        self._tried = now
        return True


def _answer(admitted: Admitted, *, as_json: bool) -> bytes:
    if not admitted.rejected:
        return b"{}" if as_json else b""
    if as_json:
        from google.protobuf import json_format

        return json_format.MessageToJson(admitted.answer(), indent=None).encode()
    return bytes(admitted.answer().SerializeToString())

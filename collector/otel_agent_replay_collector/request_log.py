"""The log of accepted requests: one thread writes what all connections hand in, many requests with one sync.

Whoever hands a request in is told when it is on disk, and only then acknowledges it. Owns the order of frames and the
beginning and ending of segments.
"""

from __future__ import annotations

import logging
import mmap
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from otel_agent_replay_collector.buffers import Buffer
from otel_agent_replay_collector.request_file import HEADER, PAGE, requests_folder, rounded, write_header
from otel_agent_replay_collector.request_segment import OpenSegment, sync_folder

_log = logging.getLogger("otel_agent_replay.collector")

_STAGING = 1 << 20
_SMALL = 64 << 10  # bytes of a request that is copied, so that it shares pages with its neighbours


class Waiting(Protocol):
    """Whoever hands requests in."""

    def committed(self, requests: Sequence[Accepted], error: OSError | None) -> None:
        """Hear that requests are on disk, or why they are not. Called by the writing thread; must not block."""


@dataclass(slots=True, eq=False)
class Accepted:
    """A request to keep: `length` bytes in `buffer`, behind the room for the frame's header. `owner` is told."""

    buffer: Buffer
    length: int
    kind: int
    items: int
    owner: Waiting
    tag: object = None
    answer: bytes = b""
    time_ns: int = 0


class RequestLog:
    """Writes segments into a lake's folder of requests. `sync` False leaves durability to the operating system.

    Raises OSError when the folder cannot be made. `written_bytes`, `commits` count what was done; `broken` is the last
    error while nothing can be written, None otherwise.
    """

    def __init__(self, lake: Path, *, segment_bytes: int, segment_s: float, sync: bool = True) -> None:
        self._folder = requests_folder(lake)
        self._folder.mkdir(parents=True, exist_ok=True)
        if sync:
            sync_folder(lake)
        self._segment_bytes = segment_bytes
        self._segment_s = segment_s
        self._sync = sync
        self._writer = f"{socket.gethostname()[:40]}-{os.getpid()}-{time.time_ns():x}"
        self._segments = 0
        self._open: OpenSegment | None = None
        self._opened = 0.0
        self._waiting: list[Accepted] = []
        self._wake = threading.Condition()
        self._ending = False
        self._staging = memoryview(mmap.mmap(-1, _STAGING))
        self.written_bytes = 0
        self.commits = 0
        self.broken: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)
        self._thread.start()

    def submit(self, request: Accepted) -> None:
        """Hand a request in; its owner is told what became of it."""
        with self._wake:
            if not self._ending:
                self._waiting.append(request)
                self._wake.notify()
                return
        request.owner.committed([request], OSError("the receiver is ending"))

    def close(self) -> None:
        """Write what waits, close the segment, end the thread."""
        with self._wake:
            self._ending = True
            self._wake.notify()
        self._thread.join()

    # --- the writing thread ---

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting and not self._ending:
                    if not self._wake.wait(self._until_old()) and self._until_old() == 0:
                        break
                group, self._waiting = self._waiting, []
                ending = self._ending and not group
            if group:
                self._commit(group)
            if ending or self._is_full():
                self._close_segment()
            if ending:
                return

    def _until_old(self) -> float | None:
        """Return the seconds after which the open segment is old; None while there is nothing in it."""
        if self._open is None or not self._open.size:
            return None
        return max(0.0, self._opened + self._segment_s - time.monotonic())

    def _is_full(self) -> bool:
        return self._open is not None and (self._open.size >= self._segment_bytes or self._until_old() == 0)

    def _close_segment(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _commit(self, group: list[Accepted]) -> None:
        error: OSError | None = None
        try:
            self._write(group)
        except OSError as failure:
            error = failure
            if self.broken is None:
                _log.error("requests cannot be kept and are refused until they can: %s", failure)
            self._close_segment()
        self.broken = error
        self.commits += 1
        owners: dict[int, list[Accepted]] = {}
        for request in group:
            owners.setdefault(id(request.owner), []).append(request)
        for requests in owners.values():
            requests[0].owner.committed(requests, error)

    def _segment(self) -> OpenSegment:
        if self._open is None:
            self._segments += 1
            self._open = OpenSegment(self._folder, f"{self._writer}-{self._segments:08d}", sync=self._sync)
            self._opened = time.monotonic()
        return self._open

    def _write(self, group: list[Accepted]) -> None:
        """Write a group as whole pages; small requests are put together first."""
        segment = self._segment()
        now = time.time_ns()
        try:
            staged = 0
            for request in group:
                request.time_ns = now
                staged = self._add(segment, request, staged)
            if staged:
                self._append(segment, self._staged(staged))
            segment.commit()
        except OSError:
            segment.cut()
            raise

    def _add(self, segment: OpenSegment, request: Accepted, staged: int) -> int:
        """Append a request, or stage it. Returns how many bytes are staged then."""
        view, size = request.buffer.view, HEADER + request.length
        write_header(
            view,
            kind=request.kind,
            length=request.length,
            time_ns=request.time_ns,
            segment=segment.number,
            items=request.items,
        )
        small = size <= _SMALL
        if staged and (not small or staged + rounded(size, HEADER) > _STAGING):
            self._append(segment, self._staged(staged))
            staged = 0
        end = rounded(size, HEADER if small else PAGE)
        if not small:
            view[size:end] = bytes(end - size)
            self._append(segment, view[:end])
            return 0
        self._staging[staged : staged + size] = view[:size]
        self._staging[staged + size : staged + end] = bytes(end - size)
        return staged + end

    def _append(self, segment: OpenSegment, piece: memoryview) -> None:
        segment.append(piece)
        self.written_bytes += len(piece)

    def _staged(self, size: int) -> memoryview:
        end = rounded(size, PAGE)
        self._staging[size:end] = bytes(end - size)
        return self._staging[:end]

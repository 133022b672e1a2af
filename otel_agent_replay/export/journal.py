"""The journal's writer: records of this process, durable against its death the moment `append` returns.

It runs on the host's threads, so it never raises, never waits longer than `lock_timeout_s` for another thread, and
counts what it could not write; the counts are written as `Loss` records once writing works again. Only the kernel can
hold an `append` longer (a stalled disk). Reading, assembling and removing segments is the business of others.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from otel_agent_replay.boundary.native_waits import plain_acquire
from otel_agent_replay.export.loss_count import LossCount
from otel_agent_replay.export.segment_bodies import NO_OFFER, Offer, SegmentBodies, framed
from otel_agent_replay.export.segment_file import SegmentFile, segment_name
from otel_agent_replay.model import Payload
from otel_agent_replay.payload.prefix import BodyHistory
from otel_agent_replay.wire.frames import frame
from otel_agent_replay.wire.v1 import journal_pb2 as wire

FORMAT_VERSION = 1
READER_VERSION = 1
FIRST_RETRY_S = 0.25
LONGEST_RETRY_S = 30.0
LONGEST_SEGMENT_S = 60.0
"""How long a segment goes on while runs overlap without end: older, it is followed by the next when a run ends."""

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_log = logging.getLogger("otel_agent_replay")
# Bound at import, before any interception.
_monotonic = time.monotonic
_time_ns = time.time_ns
_urandom = os.urandom


Written: TypeAlias = "wire.Record | bytes"
"""A record, or its serialised form."""


class _Batch(NamedTuple):
    """What one `append` writes."""

    records: Sequence[Written]
    data: bytes
    offer: Offer


_NOTHING = _Batch((), b"", NO_OFFER)


class Journal:
    """Appends records to `<lake>/journal/<writer>-<n>.log`; one writer a process, one open segment at a time.

    `lake` is the root folder of the lake, made when the first record is written. `header_fields` go into every
    segment's header (`service`, `resource`, `recorder_version`, `quirks`). A segment that has grown to `segment_bytes`
    is followed by the next. `fsync` makes `append(..., durable=True)` wait for the disk, several threads sharing
    one wait. A forked child writes segments of its own. `on_segment_end` is told the size of each segment that has
    ended, under the journal's lock; it must neither raise nor wait. Nothing here raises.
    """

    def __init__(
        self,
        lake: Path,
        *,
        header_fields: Mapping[str, Any] | None = None,
        segment_bytes: int = 64 << 20,
        lock_timeout_s: float = 0.25,
        fsync: bool = False,
        on_segment_end: Callable[[int], None] | None = None,
    ) -> None:
        self.lake = Path(lake).absolute()  # the host may change its working directory
        self._header_fields = dict(header_fields or {})
        self._segment_bytes = segment_bytes
        self._lock_timeout_s = lock_timeout_s
        self._fsync = fsync
        self._on_segment_end = on_segment_end
        self._complained = False
        self._start_afresh()
        _journals.add(self)

    def _start_afresh(self) -> None:
        """Set what belongs to this process alone; a forked child does it again."""
        self.writer = _new_writer_name()
        # Reentrant: a finalizer or signal handler may append while this thread is inside an append.
        self._lock = threading.RLock()
        self._acquire, self._release = plain_acquire(self._lock), self._lock.release
        self._busy = False
        self._deferred: deque[_Batch] = deque()
        self._segment: SegmentFile | None = None
        self._number = 0
        self._opened = 0.0
        self._limit = self._segment_bytes
        self._bodies = SegmentBodies()
        self._open_runs: set[bytes] = set()
        self._losses = LossCount()
        self._retry_at = 0.0
        self._retry_s = FIRST_RETRY_S
        self._sync_lock = threading.Lock()
        self._synced = (0, 0)

    def body(self, payload: Payload, history: BodyHistory | None) -> wire.Record | None:
        """Return the record of a payload's bytes, or None when this segment has them already (or nobody kept them).

        Pass what comes back to the next `append` of the same thread, together with the records that name the digest.
        """
        return self._bodies.record(payload, history)

    def append(self, *records: Written, durable: bool = False) -> bool:
        """Write the records, in order, in one write. Returns False when they were not written; they are counted then.

        A record may come serialised. With `durable` (and `fsync` set) it returns after the disk has them.
        """
        try:
            offer = self._bodies.take()
            only = records[0] if len(records) == 1 else None
            data = frame(only) if type(only) is bytes else b"".join(map(framed, records))
            if self._acquire(False) or self._acquire(timeout=self._lock_timeout_s):
                try:
                    segment = self._segment
                    if (
                        segment is None
                        or offer is not NO_OFFER
                        or self._busy
                        or segment.broken
                        or segment.size >= self._limit
                        or self._retry_at
                        or self._losses.pending
                    ):
                        problem = self._commit(_Batch(records, data, offer))
                    else:  # as nearly always: nothing is to be thought of but the write
                        self._busy = True
                        try:
                            segment.write(data)
                            problem = None
                        except OSError as error:
                            problem = self._write_elsewhere(_Batch(records, data, offer), error)
                        finally:
                            if self._deferred:
                                self._release_busy()
                            else:
                                self._busy = False
                finally:
                    self._release()
            else:
                problem = f"another thread held the journal for more than {self._lock_timeout_s} s"
            if problem is None:
                if durable and self._fsync:
                    self._wait_for_disk()
                return True
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        self._lose(records, problem)
        return False

    def begin_run(self, run_id: bytes) -> None:
        """Note that a run is open: its segment is not given away before it has ended."""
        self._open_runs.add(run_id)
        segment = self._segment
        if segment is not None and not segment.is_ours():
            # Removed, or the descriptor was closed by somebody: what we wrote there would be lost.
            segment.broken = True

    def end_run(self, run_id: bytes) -> None:
        """Note that a run has ended; when none is open, the segment is ended too, so that it can be sealed at once."""
        self._open_runs.discard(run_id)
        if self._open_runs:
            if _monotonic() - self._opened >= LONGEST_SEGMENT_S:
                self.rotate()
        else:
            with _Held(self) as held:
                if held and not self._open_runs:
                    self._end_segment()

    def rotate(self) -> None:
        """End the open segment, so that it can be sealed; the next record opens another."""
        with _Held(self) as held:
            if held and self._segment is not None:
                if self._open_runs:
                    self._roll()
                else:
                    self._end_segment()

    def close(self) -> None:
        """End the open segment in order. A later `append` (a late exit handler) opens another."""
        with _Held(self) as held:
            if held:
                if self._losses:
                    self._retry_at = 0.0
                    self._write(_NOTHING)
                self._open_runs.clear()
                self._end_segment()

    def describe(self, **header_fields: Any) -> None:
        """Set fields of the header of the segments opened from now on, where they are not set yet."""
        for name, value in header_fields.items():
            if not self._header_fields.get(name):
                self._header_fields[name] = value

    @property
    def losses(self) -> int:
        """How many records were lost and are not yet written as losses."""
        return len(self._losses)

    # --- under the lock ---

    def _commit(self, batch: _Batch) -> str | None:
        """Write a batch. Returns None, or why it was not written."""
        if self._busy:  # we are inside an append of this very thread; it writes this one too
            self._deferred.append(batch)
            return None
        self._busy = True
        try:
            return self._write(batch)
        finally:
            self._release_busy()

    def _release_busy(self) -> None:
        """Write what this thread appended from inside, then let it append again."""
        try:
            while self._deferred:
                batch = self._deferred.popleft()
                problem = self._write(batch)
                if problem is not None:
                    self._lose(batch.records, problem)
        finally:
            self._busy = False

    def _write(self, batch: _Batch) -> str | None:
        if self._retry_at and _monotonic() < self._retry_at:
            return "writing failed a moment ago"
        try:
            segment = self._ready_segment()
        except OSError as error:
            return self._pause(error)
        try:
            self._put(segment, batch)
        except OSError as error:
            return self._write_elsewhere(batch, error)
        self._works()
        return None

    def _write_elsewhere(self, batch: _Batch, error: OSError) -> str | None:
        """Write to another file what one would not take: its size limit, its disk, its descriptor."""
        if error.errno in _DISK_FULL:
            return self._pause(error)
        try:
            self._put(self._roll(), batch)
        except OSError as again:
            if again.errno == errno.EFBIG:  # too much for any file; other records still find room
                return f"{type(again).__name__}: {again}"
            return self._pause(again)
        self._works()
        return None

    def _works(self) -> None:
        if self._retry_at:
            self._retry_at, self._retry_s = 0.0, FIRST_RETRY_S

    def _pause(self, error: OSError) -> str:
        self._retry_at = _monotonic() + self._retry_s
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)
        return f"{type(error).__name__}: {error}"

    def _put(self, segment: SegmentFile, batch: _Batch) -> None:
        data, bodies = batch.data, self._bodies
        if bodies.is_stale(batch.offer):
            data = bodies.completed(batch.records, batch.offer)
        if self._losses:
            lost, counts = self._losses.frames()
            segment.write(lost + data)
            self._losses.written(counts)
        elif data:
            segment.write(data)
        if batch.offer.bodies:
            bodies.wrote(batch.records, batch.offer)

    def _ready_segment(self) -> SegmentFile:
        segment = self._segment
        if segment is None:
            return self._open_segment()
        if segment.broken:
            return self._roll()
        if segment.size >= self._limit:
            try:
                return self._roll()
            except OSError:
                self._limit += self._segment_bytes // 8  # the old one still works; try again a little later
        return segment

    def _roll(self) -> SegmentFile:
        """Open the next segment, then end this one: while a run is open, some segment of its writer stays locked."""
        old = self._segment
        new = self._open_segment()
        if old is not None:
            self._close_segment(old)
        return new

    def _open_segment(self) -> SegmentFile:
        journal = _ensure_folders(self.lake)
        number = self._number + 1
        header = wire.SegmentHeader(
            format_version=FORMAT_VERSION,
            reader_version=READER_VERSION,
            writer=self.writer,
            segment=number,
            pid=os.getpid(),
            host=os.uname().nodename,
            time_ns=_time_ns(),
            python=".".join(map(str, sys.version_info[:3])),
            **self._header_fields,
        )
        first = frame(wire.Record(header=header).SerializeToString())
        segment = SegmentFile.create(journal, segment_name(self.writer, number), first)
        self._segment, self._number, self._limit = segment, number, self._segment_bytes
        self._opened = _monotonic()
        self._bodies.new_segment()
        return segment

    def _end_segment(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            self._bodies.new_segment()
            self._close_segment(segment)

    def _close_segment(self, segment: SegmentFile) -> None:
        if not segment.is_ours():
            self._losses.add_segment()
            self._complain("its open segment was removed")
        segment.close(_clean_end(), sync=self._fsync)
        if self._on_segment_end is not None:
            self._on_segment_end(segment.size)

    # --- beside it ---

    def _wait_for_disk(self) -> None:
        """Return when the disk has what this thread wrote; whoever comes first waits for all."""
        segment = self._segment
        if segment is None:
            return  # ended meanwhile, and synced then
        wanted = (self._number, segment.size)
        with self._sync_lock:
            if self._synced >= wanted:
                return
            reached = (self._number, segment.size)
            try:
                fd = os.dup(segment.fd)  # the segment may be ended by another thread while we wait
            except OSError:
                return  # ended just now, and synced then
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            self._synced = reached

    def _lose(self, records: Sequence[Written], problem: str) -> None:
        self._losses.add(records)
        self._complain(problem)

    def _complain(self, problem: str) -> None:
        if not self._complained:
            self._complained = True
            _log.warning(
                "agent replay could not write to %s (%s); the run goes on, what is lost is counted", self.lake, problem
            )

    def _after_fork(self) -> None:
        """Let go of the parent's segment: the child opens its own when it first writes."""
        inherited = self._segment
        self._start_afresh()
        if inherited is not None:
            inherited.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception as error:  # the interpreter may be half gone
            _log.debug("agent replay: journal not closed in order: %r", error)


class _Held:
    """`with _Held(journal) as held`: the journal's lock if it is to be had in time, and never inside an append."""

    __slots__ = ("_held", "_journal")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._held = False

    def __enter__(self) -> bool:
        journal = self._journal
        if journal._acquire(timeout=journal._lock_timeout_s):
            if journal._busy:
                journal._release()
            else:
                self._held = journal._busy = True
        return self._held

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        journal = self._journal
        if self._held:
            try:
                journal._release_busy()
            finally:
                journal._release()
        if isinstance(error, Exception):
            journal._lose((), f"{type(error).__name__}: {error}")
            return True
        return False


def _new_writer_name() -> str:
    seconds = time.strftime("%Y%m%dT%H%M%S", time.gmtime(_time_ns() // 1_000_000_000))
    return f"{seconds}-{os.getpid()}-{_urandom(4).hex()}"


def _clean_end() -> bytes:
    return frame(wire.Record(clean_end=wire.CleanEnd(time_ns=_time_ns())).SerializeToString())


def _ensure_folders(lake: Path) -> Path:
    """Make the lake's root and its journal folder, for the owner only. Returns the journal folder."""
    journal = lake / "journal"
    if not journal.is_dir():
        lake.mkdir(mode=0o700, parents=True, exist_ok=True)
        journal.mkdir(mode=0o700, exist_ok=True)
        ignore = lake / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="ascii")  # recordings hold customers' data: keep them out of commits
    return journal


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _close_all() -> None:
    for journal in list(_journals):
        journal.close()


def _forked() -> None:
    for journal in list(_journals):
        journal._after_fork()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

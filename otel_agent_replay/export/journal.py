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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from otel_agent_replay.export.segment_file import SegmentFile
from otel_agent_replay.model import EMPTY_DIGEST, LossReason, Payload
from otel_agent_replay.payload.prefix import BodyHistory
from otel_agent_replay.wire.frames import frame
from otel_agent_replay.wire.v1 import journal_pb2 as wire

FORMAT_VERSION = 1
READER_VERSION = 1
FIRST_RETRY_S = 0.25
LONGEST_RETRY_S = 30.0
_MOST_LOSS_KEYS = 512
_MOST_OFFERED = 256
_DELTA_FROM = 512  # bytes: looking for what a smaller body shares costs more than it saves
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_log = logging.getLogger("otel_agent_replay")
# Bound at import, before any interception.
_monotonic = time.monotonic
_time_ns = time.time_ns
_urandom = os.urandom


class _Offered(threading.local):
    """The bodies that this thread asked about since its last append, with what it was told."""

    def __init__(self) -> None:
        self.generation = 0
        self.bodies: list[tuple[Payload, wire.Record | None]] = []


class Journal:
    """Appends records to `<lake>/journal/<writer>-<n>.log`; one writer a process, one open segment at a time.

    `lake` is the root folder of the lake, made when the first record is written. `header_fields` go into every
    segment's header (`service`, `resource`, `recorder_version`, `quirks`). A segment that has grown to `segment_bytes`
    is followed by the next. `fsync` makes `append(..., durable=True)` wait for the disk, several threads sharing
    one wait. A forked child writes segments of its own. Nothing here raises.
    """

    def __init__(
        self,
        lake: Path,
        *,
        header_fields: Mapping[str, Any] | None = None,
        segment_bytes: int = 64 << 20,
        lock_timeout_s: float = 0.05,
        fsync: bool = False,
    ) -> None:
        self.lake = Path(lake)
        self.writer = _new_writer_name()
        self._header_fields = dict(header_fields or {})
        self._segment_bytes = segment_bytes
        self._lock_timeout_s = lock_timeout_s
        self._fsync = fsync
        self._offered = _Offered()
        self._losses: dict[tuple[bytes, str], int] = {}
        self._complained = False
        self._start_afresh()
        _journals.add(self)

    def _start_afresh(self) -> None:
        """Set what belongs to this process alone; a forked child does it again."""
        # Reentrant: a finalizer or signal handler may append while this thread is inside an append.
        self._lock = threading.RLock()
        self._loss_lock = threading.RLock()
        self._sync_lock = threading.Lock()
        self._segment: SegmentFile | None = None
        self._number = 0
        self._limit = self._segment_bytes
        self._written: set[bytes] = set()
        self._generation = getattr(self, "_generation", 0) + 1
        self._open_runs: set[bytes] = set()
        self._busy = False
        self._deferred: deque[tuple[Sequence[wire.Record], bytes, list[tuple[Payload, wire.Record | None]], int]] = (
            deque()
        )
        self._retry_at = 0.0
        self._retry_s = FIRST_RETRY_S
        self._synced = (0, 0)

    # --- what callers do ---

    def body(self, payload: Payload, history: BodyHistory | None) -> wire.Record | None:
        """Return the record of a payload's bytes, or None when this segment has them already (or nobody kept them).

        Pass what comes back to the next `append` of the same thread, together with the records that name the digest.
        """
        data = payload.data
        if data is None or payload.digest == EMPTY_DIGEST:
            return None
        offered = self._offered
        if len(offered.bodies) >= _MOST_OFFERED:
            offered.bodies.clear()
        if not offered.bodies:
            offered.generation = self._generation
        if payload.digest in self._written:
            offered.bodies.append((payload, None))
            return None
        record = _body_record(payload)
        body = record.body
        delta = None if history is None or len(data) < _DELTA_FROM else _delta(history, payload.digest, data)
        if delta is not None and delta[0] in self._written:
            body.base, body.prefix, body.suffix = delta
            body.data = data[body.prefix : len(data) - body.suffix]
        else:
            body.data = data
        offered.bodies.append((payload, record))
        return record

    def append(self, *records: wire.Record, durable: bool = False) -> bool:
        """Write the records, in order, in one write. Returns False when they were not written; they are counted then.

        With `durable` (and `fsync` set) it returns after the disk has them.
        """
        offered = self._offered
        bodies, generation = offered.bodies, offered.generation
        if bodies:
            offered.bodies = []
        problem: str | None = None
        try:
            data = b"".join([frame(record.SerializeToString()) for record in records])
            problem = self._commit(records, data, bodies, generation)
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
        if not self._open_runs:
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
                    self._write(b"")
                self._open_runs.clear()
                self._end_segment()

    @property
    def losses(self) -> int:
        """How many records were lost and are not yet written as losses."""
        return sum(self._losses.values())

    # --- under the lock ---

    def _commit(
        self,
        records: Sequence[wire.Record],
        data: bytes,
        bodies: list[tuple[Payload, wire.Record | None]],
        generation: int,
    ) -> str | None:
        """Write what `append` was given. Returns None, or why it was not written."""
        lock = self._lock
        if not lock.acquire(timeout=self._lock_timeout_s):
            return f"another thread held the journal for more than {self._lock_timeout_s} s"
        try:
            if self._busy:  # we are inside an append of this very thread; it writes this one too
                self._deferred.append((records, data, bodies, generation))
                return None
            self._busy = True
            try:
                return self._write(data, records, bodies, generation)
            finally:
                self._release_busy()
        finally:
            lock.release()

    def _release_busy(self) -> None:
        """Write what this thread appended from inside, then let it append again."""
        try:
            while self._deferred:
                records, data, bodies, generation = self._deferred.popleft()
                problem = self._write(data, records, bodies, generation)
                if problem is not None:
                    self._lose(records, problem)
        finally:
            self._busy = False

    def _write(
        self,
        data: bytes,
        records: Sequence[wire.Record] = (),
        bodies: Sequence[tuple[Payload, wire.Record | None]] = (),
        generation: int = 0,
    ) -> str | None:
        if self._retry_at and _monotonic() < self._retry_at:
            return "writing failed a moment ago"
        try:
            self._ready_segment()
            try:
                self._put(data, records, bodies, generation)
            except OSError as error:
                if error.errno in _DISK_FULL:
                    raise
                # This file takes no more (its size limit, its disk, its descriptor); another may.
                self._roll()
                self._put(data, records, bodies, generation)
        except OSError as error:
            self._retry_at = _monotonic() + self._retry_s
            self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)
            return f"{type(error).__name__}: {error}"
        if self._retry_at:
            self._retry_at, self._retry_s = 0.0, FIRST_RETRY_S
        return None

    def _put(
        self,
        data: bytes,
        records: Sequence[wire.Record],
        bodies: Sequence[tuple[Payload, wire.Record | None]],
        generation: int,
    ) -> None:
        segment = self._segment
        if segment is None:
            raise OSError(errno.EBADF, "no segment is open")
        if bodies and generation != self._generation:
            data = self._with_whole_bodies(records, bodies)
        if self._losses:
            with self._loss_lock:
                segment.write(_loss_frames(self._losses) + data)
                self._losses.clear()
        elif data:
            segment.write(data)
        for payload, record in bodies:
            if record is not None and any(record is given for given in records):
                self._written.add(payload.digest)

    def _with_whole_bodies(
        self, records: Sequence[wire.Record], bodies: Sequence[tuple[Payload, wire.Record | None]]
    ) -> bytes:
        """Return the frames for a segment that is younger than what `body` answered: it must hold every body itself."""
        offered = [record for _, record in bodies if record is not None]
        frames = []
        for payload, _ in bodies:
            if payload.digest not in self._written:
                record = _body_record(payload)
                record.body.data = payload.data or b""
                frames.append(frame(record.SerializeToString()))
        rest = [record for record in records if not any(record is body for body in offered)]
        return b"".join(frames + [frame(record.SerializeToString()) for record in rest])

    def _ready_segment(self) -> None:
        segment = self._segment
        if segment is None:
            self._open_segment()
        elif segment.broken:
            self._roll()
        elif segment.size >= self._limit:
            try:
                self._roll()
            except OSError:
                self._limit += self._segment_bytes // 8  # the old one still works; try again a little later

    def _roll(self) -> None:
        """Open the next segment, then end this one: while a run is open, some segment of its writer stays locked."""
        old = self._segment
        self._open_segment()
        if old is not None:
            old.close(_clean_end(), sync=self._fsync)

    def _open_segment(self) -> None:
        journal = _ensure_folders(self.lake)
        number = self._number + 1
        header = wire.Record(
            header=wire.SegmentHeader(
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
        )
        segment = SegmentFile.create(journal, segment_name(self.writer, number), frame(header.SerializeToString()))
        self._segment, self._number, self._limit = segment, number, self._segment_bytes
        self._written = set()
        self._generation += 1

    def _end_segment(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            self._written = set()
            self._generation += 1
            segment.close(_clean_end(), sync=self._fsync)

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
            fd = os.dup(segment.fd)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            self._synced = reached

    def _lose(self, records: Sequence[wire.Record], problem: str) -> None:
        with self._loss_lock:
            for record in records:
                what = record.WhichOneof("record") or "record"
                run_id: bytes = getattr(getattr(record, what, None), "run_id", b"")
                key = (run_id, what) if len(self._losses) < _MOST_LOSS_KEYS else (b"", what)
                self._losses[key] = self._losses.get(key, 0) + 1
        if not self._complained:
            self._complained = True
            _log.warning(
                "agent replay could not write to %s (%s); the run goes on, what is lost is counted", self.lake, problem
            )

    def _after_fork(self) -> None:
        """Let go of the parent's segment: the child opens its own when it first writes."""
        inherited = self._segment
        self.writer = _new_writer_name()
        self._losses = {}
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
        if journal._lock.acquire(timeout=journal._lock_timeout_s):
            if journal._busy:
                journal._lock.release()
            else:
                self._held = journal._busy = True
        return self._held

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        journal = self._journal
        if self._held:
            try:
                journal._release_busy()
            finally:
                journal._lock.release()
        if isinstance(error, Exception):
            journal._lose((), f"{type(error).__name__}: {error}")
            return True
        return False


def segment_name(writer: str, number: int) -> str:
    """Return a segment's name without suffix: the writer's segments sort in order of their numbers."""
    return f"{writer}-{number:06d}"


def _new_writer_name() -> str:
    seconds = time.strftime("%Y%m%dT%H%M%S", time.gmtime(_time_ns() // 1_000_000_000))
    return f"{seconds}-{os.getpid()}-{_urandom(4).hex()}"


def _body_record(payload: Payload) -> wire.Record:
    return wire.Record(body=wire.Body(digest=payload.digest, media_type=payload.media_type))


def _delta(history: BodyHistory, digest: bytes, data: bytes) -> tuple[bytes, int, int] | None:
    """Return what `data` shares with an earlier body, and remember it. None: write it whole."""
    try:
        delta = history.delta(data)
        history.remember(digest, data)
    except RuntimeError:  # another thread of the run changed the history meanwhile: only the saving is lost
        return None
    return delta


def _clean_end() -> bytes:
    return frame(wire.Record(clean_end=wire.CleanEnd(time_ns=_time_ns())).SerializeToString())


def _loss_frames(losses: Mapping[tuple[bytes, str], int]) -> bytes:
    now = _time_ns()
    return b"".join(
        frame(
            wire.Record(
                loss=wire.Loss(reason=LossReason.DROPPED.value, what=what, count=count, run_id=run_id, time_ns=now)
            ).SerializeToString()
        )
        for (run_id, what), count in losses.items()
    )


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

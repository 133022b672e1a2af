"""Accepted requests -> runs in the lake: the sealer of a receiver, in a process of its own.

A segment is removed only when every trace with a part in it has landed. What is landed twice, after a crash between the
two, counts once: landing sees to that.

    python -m otel_agent_replay_collector.sealing LAKE CONFIG_FILE [OPTION=VALUE ...]
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import logging
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agent_replay.errors import MaintenanceError
from otel_agent_replay.imports.dialects import LogRecord, joined
from otel_agent_replay.imports.landing import land
from otel_agent_replay.imports.plain import PlainLanded, plain_lander
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Loss, LossReason, Span
from otel_agent_replay.otlp.span_reader import SpanReader
from otel_agent_replay_collector.keeping import Policy
from otel_agent_replay_collector.options import CollectorOptions
from otel_agent_replay_collector.pending_traces import PendingTraces
from otel_agent_replay_collector.request_contents import records_in, traces_in
from otel_agent_replay_collector.request_file import (
    DAMAGED,
    STATUS_FILE,
    TRACES,
    Place,
    RequestSegment,
    closed_segments,
    requests_folder,
)

if TYPE_CHECKING:
    from otel_agent_replay.imports.plain.landing import PlainLander

_log = logging.getLogger("otel_agent_replay.collector")

_BATCH_ITEMS = 20_000
_MOST_OF_ONE_TRACE = 100_000
_LEAST_PLAIN = 1000
"""Spans from which plain ones are worth a file of their own."""

_MOST_PLAIN_BYTES = 96 << 20
"""Bytes of requests up to which they are read at once: so much for a batch is no plain spans."""

_PAUSE_S = 0.5
_OBJECTS_BETWEEN = 200_000
_SOURCE = "otlp"
_NOT_NOW = (OSError, MaintenanceError)
"""A lake that cannot be written, or is being compacted: trying again later helps."""
_LOCK_FILE = ".sealer.lock"


@dataclass(slots=True)
class SealedRequests:
    """What a sealer did since it began. `left_out_*` is what the policy did not keep, `failures` what stays on disk."""

    runs: int = 0
    spans: int = 0
    anomalies: int = 0
    left_out_runs: int = 0
    left_out_spans: int = 0
    unjoined_records: int = 0
    segments_removed: int = 0
    torn_bytes: int = 0
    damaged_bytes: int = 0
    failures: int = 0
    pending_traces: int = 0


@dataclass(slots=True)
class _Requests:
    """A segment that is being sealed, and how many of its requests are still needed."""

    segment: RequestSegment
    needed: int
    damaged: bool


class RequestSealer:
    """Seals the accepted requests of one lake. One at a time may: see `sealer_lock`."""

    def __init__(self, options: CollectorOptions) -> None:
        self._lake = options.folder
        self._policy = Policy(options.keep_rate, options.keep)
        self._pending = PendingTraces(
            quiet_s=options.quiet_s, longest_s=options.longest_s, most_items=_MOST_OF_ONE_TRACE
        )
        self._reader = SpanReader()
        self._plain = plain_lander(options.folder, _SOURCE)
        self._segments: dict[Path, _Requests] = {}
        self._places: dict[int, tuple[Path, Place]] = {}
        self._numbers = 0
        self.done = SealedRequests()

    def seal(self, *, all_of_them: bool = False, may_go_on: Callable[[], bool] = lambda: True) -> int:
        """Read what is new, land what is complete (or all), remove what is landed. Returns how many traces landed.

        `may_go_on` is asked before each batch. A trace that cannot be landed stays on disk, and the others go on.
        Raises OSError when the lake cannot be written, MaintenanceError while something else changes it.
        """
        for path in closed_segments(self._lake):
            if path not in self._segments:
                self._read(path)
        complete = self._pending.complete(time.time_ns(), all_of_them=all_of_them)
        landed = 0
        for batch in self._pending.batches(complete, _BATCH_ITEMS):
            if not may_go_on():
                break
            landed += self._try(batch)
        self.done.pending_traces = len(self._pending)
        return landed

    def _try(self, batch: Sequence[bytes]) -> int:
        """Land a batch, or each trace of it by itself where that fails. Returns how many landed."""
        waiting = self._without_plain(batch)
        try:
            if waiting:
                self._land(waiting)
        except _NOT_NOW:
            raise
        except Exception:
            if len(waiting) > 1:
                return len(batch) - len(waiting) + sum(self._try([trace_id]) for trace_id in waiting)
            (trace_id,) = waiting
            _log.exception("trace %s cannot be landed, and stays in %s", trace_id.hex(), requests_folder(self._lake))
            self.done.failures += 1
            self._pending.set_aside(trace_id)
            return len(batch) - 1
        return len(batch)

    def write_status(self) -> None:
        """Say in a file of the folder what was done, for the receiver's metrics."""
        path = requests_folder(self._lake) / STATUS_FILE
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(self.done)), encoding="ascii")
        temporary.replace(path)

    def _read(self, path: Path) -> None:
        segment = RequestSegment(path)
        scan = segment.scan()
        self.done.torn_bytes += scan.torn
        self.done.damaged_bytes += scan.damaged
        if scan.damaged:
            _log.error("%s is damaged: %d bytes of it are no requests; it is kept aside", path, scan.damaged)
            what = "bytes of a segment of requests"
            torn = Loss(LossReason.TORN, what, scan.damaged, path.name, time_ns=time.time_ns())
            self._lose([torn], [segment.id])
        self._segments[path] = _Requests(segment, len(scan.places), bool(scan.damaged))
        for place in scan.places:
            self._numbers += 1
            self._places[self._numbers] = (path, place)
            items = traces_in(segment.request(place), place.kind)
            self._pending.add(self._numbers, place.time_ns, items)
            if not items:
                self._free([self._numbers])
        if not scan.places:
            self._remove(path)

    def _without_plain(self, trace_ids: Sequence[bytes]) -> Sequence[bytes]:
        """Land what is plain of a large batch, thousands of spans at a time, and return the other traces."""
        if self._plain is None or self._pending.items_of(trace_ids) < _LEAST_PLAIN:
            return trace_ids
        try:
            plain = self._land_plain(self._plain, trace_ids)
        except _NOT_NOW:
            raise
        except Exception:
            _log.exception("%d traces cannot be landed as columns, and are landed one by one", len(trace_ids))
            return trace_ids
        taken = {*plain.kept, *plain.left_out}
        self._lose(_losses(len(plain.left_out), plain.left_out_spans, 0), self._segments_of(trace_ids))
        self.done.runs += len(plain.kept)
        self.done.spans += plain.span_count
        self.done.anomalies += plain.anomalies
        self.done.left_out_runs += len(plain.left_out)
        self.done.left_out_spans += plain.left_out_spans
        self._free(self._pending.landed(taken))
        return [trace_id for trace_id in trace_ids if trace_id not in taken]

    def _land_plain(self, lander: PlainLander, trace_ids: Sequence[bytes]) -> PlainLanded:
        requests: list[bytes] = []
        told_of: set[bytes] = set()
        places = [self._places[number] for number in self._pending.places_of(trace_ids)]
        if sum(place.length for _, place in places) > _MOST_PLAIN_BYTES:
            return PlainLanded()
        for path, place in places:
            data = self._segments[path].segment.request(place)
            if place.kind == TRACES:
                requests.append(data)
            else:
                told_of.update(traces_in(data, place.kind))  # their spans have events to come
        return lander.land(
            requests,
            frozenset(trace_ids) - told_of,
            segments=self._segments_of(trace_ids),
            least=_LEAST_PLAIN,
            keeps=None if self._policy.keeps_all else self._policy.keeps_plain,
        )

    def _land(self, trace_ids: Sequence[bytes]) -> None:
        spans, records, segments = self._contents(trace_ids)
        kept, left_out = self._chosen(spans)
        whole, unjoined = joined(kept, [record for trace_records in records.values() for record in trace_records])
        unjoined = [record for record in unjoined if record.trace_id not in left_out]
        if whole:
            landed = land(self._lake, whole, source=_SOURCE, segments=segments)
            self.done.runs += len(landed.traces)
            self.done.spans += landed.span_count
            self.done.anomalies += len(landed.anomalies)
        left_out_spans = sum(map(len, left_out.values()))
        self._lose(_losses(len(left_out), left_out_spans, len(unjoined)), segments)
        self.done.left_out_runs += len(left_out)
        self.done.left_out_spans += left_out_spans
        self.done.unjoined_records += len(unjoined)
        self._free(self._pending.landed(trace_ids))

    def _segments_of(self, trace_ids: Sequence[bytes]) -> list[str]:
        """Return the ids of the segments that hold parts of traces."""
        paths = {self._places[number][0]: None for number in self._pending.places_of(trace_ids)}
        return [self._segments[path].segment.id for path in paths]

    def _contents(
        self, trace_ids: Sequence[bytes]
    ) -> tuple[dict[bytes, list[Span]], dict[bytes, list[LogRecord]], list[str]]:
        wanted = frozenset(trace_ids)
        spans: dict[bytes, list[Span]] = {}
        records: dict[bytes, list[LogRecord]] = {}
        for number in self._pending.places_of(trace_ids):
            path, place = self._places[number]
            data = self._segments[path].segment.request(place)
            if place.kind == TRACES:
                for span in self._reader.spans(data, wanted):
                    spans.setdefault(span.trace_id, []).append(span)
            else:
                for record in records_in(data, wanted):
                    records.setdefault(record.trace_id, []).append(record)
        return spans, records, self._segments_of(trace_ids)

    def _chosen(self, spans: Mapping[bytes, list[Span]]) -> tuple[list[Span], dict[bytes, list[Span]]]:
        kept: list[Span] = []
        left_out: dict[bytes, list[Span]] = {}
        for trace_id, members in spans.items():
            if self._policy.keeps_all or self._policy.keeps(trace_id, members):
                kept += members
            else:
                left_out[trace_id] = members
        return kept, left_out

    def _lose(self, losses: Sequence[Loss], segments: Sequence[str]) -> None:
        if losses:
            write_runs(self._lake, (), segments=segments, losses=losses)

    def _free(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            path, _ = self._places.pop(number)
            requests = self._segments[path]
            requests.needed -= 1
            if not requests.needed:
                self._remove(path)

    def _remove(self, path: Path) -> None:
        requests = self._segments.pop(path)
        requests.segment.close()
        if requests.damaged:
            path.rename(path.with_suffix(DAMAGED))
        else:
            path.unlink()
        self.done.segments_removed += 1


def _losses(left_out: int, left_out_spans: int, unjoined: int) -> list[Loss]:
    """Return what a batch does not keep: runs with their spans, and log records."""
    now = time.time_ns()
    losses: list[Loss] = []
    if left_out:
        detail = f"left out by the policy of the receiver, with {left_out_spans} spans"
        losses.append(Loss(LossReason.SAMPLED, "run", left_out, detail, time_ns=now))
    if unjoined:
        detail = "they are no events of GenAI, or their spans did not come with them"
        losses.append(Loss(LossReason.NOT_COVERED, "log record", unjoined, detail, time_ns=now))
    return losses


@contextlib.contextmanager
def sealer_lock(lake: Path) -> Iterator[bool]:
    """Keep other sealers of requests out of a lake; False when one is at work. The folder must be there."""
    fd = os.open(requests_folder(lake) / _LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(fd)


def seal_requests(lake: Path, *, all_of_them: bool) -> SealedRequests | None:
    """Land what was accepted for a lake, complete or not (`all_of_them`); None: nothing was, or a sealer is at work.

    Raises OSError when the lake cannot be written, ConfigurationError.
    """
    if not requests_folder(lake).is_dir():
        return None
    options = CollectorOptions.load({"lake": lake})
    _look_for_circles_seldom()
    with sealer_lock(lake) as held:
        if not held:
            return None
        sealer = RequestSealer(options)
        sealer.seal(all_of_them=all_of_them)
        return sealer.done


def run(options: CollectorOptions) -> None:
    """Seal until standard input ends: whoever started this process holds its other side.

    Waits while another sealer is at work, like that of a receiver that was just killed.
    """
    requests_folder(options.folder).mkdir(parents=True, exist_ok=True)
    _look_for_circles_seldom()
    told = False
    while True:
        with sealer_lock(options.folder) as held:
            if held:
                _seal_on(RequestSealer(options))
                return
        if not told:
            _log.info("another sealer is at work in %s; this one waits", options.folder)
            told = True
        if _told_to_end(_PAUSE_S):
            return


def _seal_on(sealer: RequestSealer) -> None:
    def may_go_on() -> bool:
        with contextlib.suppress(OSError):
            sealer.write_status()
        return not _told_to_end(0)

    pause = _PAUSE_S
    while not _told_to_end(pause):
        pause = _PAUSE_S
        try:
            sealer.seal(may_go_on=may_go_on)
        except _NOT_NOW as error:
            sealer.done.failures += 1
            _log.error("what was received cannot be sealed now, and waits on disk: %s", error)
            pause = _PAUSE_S * 10
        with contextlib.suppress(OSError):
            sealer.write_status()


def _look_for_circles_seldom() -> None:
    """Have the garbage collector look for circles less often: spans have none, and it took a tenth of the time."""
    gc.set_threshold(_OBJECTS_BETWEEN)


def _told_to_end(seconds: float) -> bool:
    """Wait for so long whether standard input ends. An end that was seen is seen again."""
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(readable) and not os.read(sys.stdin.fileno(), 4096)


def main(arguments: Sequence[str]) -> None:
    """Run with the arguments of a command line."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s sealer: %(message)s")
    lake, file, *given = arguments
    options = dict(pair.partition("=")[::2] for pair in given) | {"lake": lake}
    run(CollectorOptions.load(options, file=Path(file) if file else None))


if __name__ == "__main__":
    main(sys.argv[1:])

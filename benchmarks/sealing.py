"""Sealing: what a receiver accepted, from its log on disk into the lake, in spans a second of one processor.

Spans of twelve attributes (`plain_spans.py`) are put into the log of accepted requests as the receiver puts them there;
timed is the sealer: requests read and decoded, spans grouped to traces, looked at, ordered, and written. What counts is
the time of the processor, all threads together: so a busy machine changes little, and "a core" is what it says.

Floor, in turn with it: the same requests decoded by protobuf, and the very rows that the sealer made, ready as Arrow
tables, written by the same Parquet writer. Peer, in turn too: the same sealer as it is without the extra `collector`, which
makes an object of each span, as it does of spans that are not plain.

The runs of `lake_corpus.py` (model calls, tools, their payloads) are written beside, from memory; their floor is the
writing of their rows and payloads, ready as Arrow tables.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
import pyarrow.parquet as pq
from lake_corpus import SPANS_OF_A_RUN, recorded_runs
from measure import Figure, report, spread
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otel_agent_replay_collector import sealing
from otel_agent_replay_collector.buffers import BufferPool
from otel_agent_replay_collector.request_file import TRACES
from otel_agent_replay_collector.request_log import Accepted, RequestLog
from otel_agent_replay_collector.sealing import seal_requests
from plain_spans import requests

from otel_agent_replay.lake import schema
from otel_agent_replay.lake.layout import PAYLOADS, SPANS, all_files
from otel_agent_replay.lake.parquet_file import ParquetOutput
from otel_agent_replay.lake.writer import write_runs

WANTED = 25_000


class Sender:
    """Whoever hands requests in, and waits until they are on disk."""

    def __init__(self) -> None:
        self._waits = 0
        self._done = threading.Condition()

    def committed(self, accepted: Sequence[Accepted], error: OSError | None) -> None:
        if error is not None:
            raise error
        for one in accepted:
            one.buffer.release()
        with self._done:
            self._waits -= len(accepted)
            self._done.notify()

    def send(self, log: RequestLog, buffers: BufferPool, request: bytes) -> None:
        buffer = buffers.take(len(request))
        buffer.body(len(request))[:] = request
        with self._done:
            self._waits += 1
        log.submit(Accepted(buffer, len(request), TRACES, 0, self))
        with self._done:
            self._done.wait_for(lambda: self._waits == 0)


def received(lake: Path, bodies: Sequence[bytes]) -> None:
    """Put requests into the lake's log of accepted requests."""
    log, sender, buffers = RequestLog(lake, segment_bytes=64 << 20, segment_s=600), Sender(), BufferPool(64 << 20)
    for body in bodies:
        sender.send(log, buffers, body)
    log.close()


def cpu(action: Callable[[], object]) -> float:
    """Return the seconds of processors that `action` takes, all threads together."""
    started = time.process_time()
    action()
    return time.process_time() - started


def tables_of(lake: Path, table: str, columns: pa.Schema) -> list[list[pa.Table]]:
    """Return the row groups of every file of a table, in memory."""
    files = [pq.ParquetFile(file.path) for file in all_files(lake, table)]
    return [
        [file.read_row_group(group).cast(columns).combine_chunks() for group in range(file.num_row_groups)]
        for file in files
    ]


def written(folder: Path, files: Sequence[Sequence[pa.Table]], columns: pa.Schema) -> None:
    """Write row groups as the lake's writer writes them."""
    for number, groups in enumerate(files):
        with ParquetOutput(
            folder / f"{number}.parquet", columns, schema.file_metadata(segments=(), quirks=())
        ) as output:
            for group in groups:
                output.write(group)
            output.publish()


def decoded(bodies: Sequence[bytes]) -> None:
    for body in bodies:
        ExportTraceServiceRequest.FromString(body)


def sealing_of(lake: Path, bodies: Sequence[bytes], spans: int) -> float:
    """Return the seconds of processors that sealing takes of requests, which a receiver has taken before."""
    received(lake, bodies)
    sealed = []
    seconds = cpu(lambda: sealed.append(seal_requests(lake, all_of_them=True)))
    if sealed[0].spans != spans or sealed[0].anomalies:
        raise AssertionError(f"not all {spans} spans were sealed as they are: {sealed[0]}")
    return seconds


def plain_figures(folder: Path, spans: int, rounds: int) -> list[Figure]:
    """Measure the sealer on plain spans, and its floor."""
    bodies = list(requests(spans))
    rates, ratios, gains = [], [], []
    for number in range(rounds + 1):
        lake, other = folder / f"plain-{number}", folder / f"objects-{number}"
        seconds = sealing_of(lake, bodies, spans)
        with mock.patch.object(sealing, "plain_lander", return_value=None):
            as_objects = sealing_of(other, bodies, spans)
        files = tables_of(lake, SPANS, schema.SPANS)
        floor = cpu(lambda files=files: (decoded(bodies), written(folder / "floor", files, schema.SPANS)))
        if number:  # the first one warms up
            rates.append(spans / seconds)
            ratios.append(seconds / floor)
            gains.append(as_objects / seconds)
        shutil.rmtree(lake)
        shutil.rmtree(other)
    middle, low, high = spread(rates)
    times, least, most = spread(ratios)
    gain, lowest, highest = spread(gains)
    detail = f"({spans:,} spans of {sum(map(len, bodies)) / spans:.0f} bytes; {1e6 / middle:.1f} us a span)"
    return [
        Figure("plain spans sealed a second of one processor", middle, WANTED, "/s", False, low, high, detail),
        Figure(
            "the same against decoding and writing alone",
            times,
            5,
            "x",
            low=least,
            high=most,
        ),
        Figure("the same spans as objects, against as columns", gain, 2, "x", False, lowest, highest),
    ]


def recorded_figure(folder: Path, runs: int, rounds: int) -> Figure:
    """Measure the writing of recorded runs, and its floor."""
    recorded = list(islice(recorded_runs(), runs))
    spans = runs * SPANS_OF_A_RUN
    rates, ratios = [], []
    for number in range(rounds + 1):
        lake = folder / f"recorded-{number}"
        seconds = cpu(lambda lake=lake: write_runs(lake, recorded, segments=["one"]))
        files = [(tables_of(lake, table, columns), columns) for table, columns in _TABLES.items()]
        floor = cpu(lambda files=files: [written(folder / "floor", one, columns) for one, columns in files])
        if number:
            rates.append(spans / seconds)
            ratios.append(seconds / floor)
        shutil.rmtree(lake)
    times, low, high = spread(ratios)
    detail = f"({spread(rates)[0]:,.0f} spans a second of one processor)"
    return Figure("recorded runs written, against their tables alone", times, 4, "x", low=low, high=high, detail=detail)


_TABLES = {SPANS: schema.SPANS, PAYLOADS: schema.PAYLOADS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        figures = plain_figures(folder, given.spans, given.rounds)
        return report("sealing", [*figures, recorded_figure(folder, given.runs, given.rounds)])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    raise SystemExit(main())

"""Bytes a span on disk: the lake beside OTLP as lines of JSON, gzipped, and Parquet with attributes as JSON text.

Two corpora: plain spans of twelve attributes (`plain_spans.py`), and recorded agent runs with all contents, where the peers
have them among the attributes, as OpenTelemetry's conventions put them there (`lake_corpus.py`, `json_text_layout.py`).

JSON lines hold 256 spans each, as `agent-replay export` writes them, alike the Collector's file exporter; gzip at its default
level. The
JSON-text layout has the columns of otlp2parquet and the lake's row groups, zstd at Arrow's default level, and at the
lake's. The lake's bytes are those of all its files, payloads and footers included, sealed at once. A lake that is sealed in
small pieces takes more until it is compacted: a file of one run is printed as `info`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
import pyarrow.parquet as pq
from json_text_layout import SCHEMA, row_of, with_contents
from lake_corpus import recorded_runs
from measure import Figure, report
from plain_spans import requests

from otel_agent_replay.export.otlp_files import write_spans
from otel_agent_replay.imports.landing import land
from otel_agent_replay.lake.writer import ROW_GROUP_ROWS, write_runs
from otel_agent_replay.model import Span
from otel_agent_replay.otlp.span_reader import SpanReader


def lines_of(spans: Sequence[Span], path: Path) -> int:
    """Write spans as gzipped lines of OTLP JSON and return the bytes."""
    write_spans(spans, path)
    return path.stat().st_size


def text_of(spans: Sequence[Span], path: Path, level: int | None = None) -> int:
    """Write spans in the JSON-text layout and return the bytes."""
    table = pa.Table.from_pylist([row_of(span) for span in spans], SCHEMA)
    pq.write_table(table, path, compression="zstd", compression_level=level, row_group_size=ROW_GROUP_ROWS)
    return path.stat().st_size


def size_of(lake: Path) -> int:
    return sum(path.stat().st_size for path in lake.rglob("*.parquet"))


def figures_of(what: str, spans: Sequence[Span], lake: Path, folder: Path, wanted: tuple[float, float]) -> list[Figure]:
    """Return the figures of one corpus, of which `lake` has all."""
    ours, count = size_of(lake), len(spans)
    lines = lines_of(spans, folder / f"{what}.jsonl.gz")
    text, same_level = text_of(spans, folder / f"{what}.parquet"), text_of(spans, folder / f"{what}-9.parquet", 9)
    print(f"info {what} spans: JSON text at the lake's own zstd level takes {same_level / count:.0f} bytes a span")
    return [
        Figure(
            f"{what} spans: the lake against gzipped lines of OTLP JSON",
            ours / lines,
            wanted[0],
            "x",
            detail=f"({ours / count:.0f} bytes a span, {lines / count:.0f})",
        ),
        Figure(
            f"{what} spans: the lake against JSON text in Parquet",
            ours / text,
            wanted[1],
            "x",
            detail=f"({ours / count:.0f} bytes a span, {text / count:.0f})",
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=51_200, help="plain spans")
    parser.add_argument("--runs", type=int, default=1000, help="recorded runs of 50 spans")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        reader = SpanReader()
        plain = [span for body in requests(given.spans) for span in reader.spans(body)]
        land(folder / "plain", plain, source="bench")
        runs = list(islice(recorded_runs(), given.runs))
        write_runs(folder / "recorded", runs, segments=["one"])
        whole = [replace(one.span, attributes=with_contents(run, one)) for run in runs for one in run.spans]
        figures = figures_of("plain", plain, folder / "plain", folder, (1, 1))
        figures += figures_of("recorded", whole, folder / "recorded", folder, (1, 1))
        write_runs(folder / "single", runs[:1], segments=["one"])
        print(f"info one run of {len(runs[0].spans)} spans by itself takes {size_of(folder / 'single'):,} bytes")
        return report("span_bytes", figures)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    raise SystemExit(main())

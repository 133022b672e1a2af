"""`agent-replay import FILE...`: other people's traces and trajectories -> runs of the lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import SCHEMA_VERSION, emit, emit_json, remark

if TYPE_CHECKING:
    from otel_agent_replay.imports.landing import Landed
    from otel_agent_replay.model import Anomaly, Span

_AT_ONCE = 250_000
"""Spans that are in memory together; a trace that goes on beyond them is completed by what lands next."""

_SHOWN = 20

_EPILOG = """\b
Formats (--from): auto tells them from their contents; gzip around any of them is undone.
  otlp-json   OTLP JSON: one document, one a line, the Collector's file exporter
  otlp        OTLP protobuf: one message, or several with their lengths
  tau-bench, tau2-bench, swe-agent, who-and-when, ljoukov-llm, inspect, chat
              trajectories of agents; chat: messages in OpenAI's form
  vcr         HTTP exchanges of VCR, nock and the test agent: raw bodies

\b
Importing the same file again changes nothing; spans that come later complete their run.
Exit codes: 0 imported (what is odd about the traces is told), 1 something was left out,
2 usage, 125 a file cannot be read at all.

\b
Example:
  agent-replay import traces.otlp.jsonl.gz
  agent-replay import --json spans.binpb | jq '.anomalies[].code'
"""


@click.command(name="import", epilog=_EPILOG)
@lake_option
@click.option("--from", "from_", default="auto", show_default=True, metavar="FORMAT", help="What the files are.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_(lake: Path, from_: str, files: tuple[Path, ...], as_json: bool) -> int:
    """Read FILEs of traces and trajectories of other tools, and keep them as runs to show, query and compare."""
    from otel_agent_replay.export.rules_file import redaction_of
    from otel_agent_replay.imports.files import read_file
    from otel_agent_replay.imports.landing import land
    from otel_agent_replay.imports.recording_landing import RecordingLander
    from otel_agent_replay.settings import Settings

    redaction = redaction_of(Settings.load({"lake": lake}))
    told = _Told()
    with closing(RecordingLander(lake, redaction)) as lander:
        for path in files:
            found = read_file(path, from_)
            for spans in _batches(found.spans):
                told.add(land(lake, spans, source=str(path), redaction=redaction, noted=found.anomalies))
            told.add(lander.add(found.recordings, path.stat().st_mtime_ns))
            told.anomalies += found.anomalies
            for note in found.notes:
                remark(f"note: {path}: {note}")
    told.print(as_json=as_json)
    return 1 if told.left_out else 0


def _batches(spans: Iterable[Span]) -> Iterator[list[Span]]:
    left = iter(spans)
    while batch := list(islice(left, _AT_ONCE)):
        yield batch


class _Told:
    """What was imported, over all files."""

    def __init__(self) -> None:
        self.span_count = 0
        self.anomalies: list[Anomaly] = []
        self.traces: dict[bytes, dict[str, Any]] = {}

    def add(self, landed: Landed) -> None:
        """Add one landing."""
        self.span_count += landed.span_count
        self.anomalies += landed.anomalies
        for trace in landed.traces:
            self.traces[trace.run_id] = {
                "run": trace.run_id.hex(),
                "trace_id": trace.trace_id.hex(),
                "span_count": trace.span_count,
                "roots": [span_id.hex() for span_id in trace.roots],
                "orphans": [span_id.hex() for span_id in trace.orphans],
                "max_depth": trace.max_depth,
            }

    @property
    def left_out(self) -> bool:
        """Whether anything is not in the lake now."""
        return any(anomaly.code.is_left_out for anomaly in self.anomalies)

    def print(self, *, as_json: bool) -> None:
        """Print what there is."""
        facts = [
            {
                "code": str(anomaly.code),
                "trace_id": anomaly.trace_id.hex(),
                "span_id": anomaly.span_id.hex(),
                "detail": anomaly.detail,
            }
            for anomaly in self.anomalies
        ]
        traces = list(self.traces.values())
        if as_json:
            head = {"schema": "agent-replay/import", "schema_version": SCHEMA_VERSION, "span_count": self.span_count}
            emit_json({**head, "traces": traces, "anomalies": facts})
            return
        shown = [{"run": one["run"], "trace": one["trace_id"], "spans": one["span_count"]} for one in traces[:_SHOWN]]
        emit(shown, as_json=False, title="runs")
        if len(traces) > _SHOWN:
            click.echo(f"... and {len(traces) - _SHOWN:,} more; `agent-replay runs` lists them")
        click.echo(f"{self.span_count:,} spans in {len(traces):,} runs")
        for code, count in sorted(Counter(str(anomaly.code) for anomaly in self.anomalies).items()):
            first = next(anomaly for anomaly in self.anomalies if anomaly.code == code)
            where = f" (span {first.span_id.hex()})" if first.span_id else ""
            remark(f"{code}: {count:,}, first{where}: {first.detail}")

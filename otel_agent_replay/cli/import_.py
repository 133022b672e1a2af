"""`agent-replay import FILE...`: other people's traces and trajectories -> runs of the lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import CANNOT_JUDGE, SCHEMA_VERSION, complain, emit, emit_json, remark
from otel_agent_replay.cli.progress import TallyLine
from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.files import READERS
from otel_agent_replay.report.amounts import counted

if TYPE_CHECKING:
    from otel_agent_replay.imports.files import TraceLabel
    from otel_agent_replay.imports.landing import Landed
    from otel_agent_replay.imports.recording_landing import RecordingLander
    from otel_agent_replay.model import Anomaly, Span

_AT_ONCE = 250_000
"""Spans that are in memory together; a trace that goes on beyond them is completed by what lands next."""

_SHOWN = 20

_OF_ARRIVAL = frozenset({"duplicate_span", "cut_id", "invalid_id", "unreadable"})
"""Codes that tell how spans came; the others tell what a trace is like, which later spans may change."""

_FORMATS = "\n".join(f"  {name:<14}{reader.what}" for name, reader in READERS.items())
_EPILOG = """\b
Formats (--from): auto tells them from their contents; gzip around any of them is undone.
{formats}

\b
Importing the same file again changes nothing; spans that come later complete their run.
Exit codes: 0 imported (what is odd about the traces is told), 1 something was left out,
2 usage, 125 a file cannot be read at all (the others are imported).

\b
Example:
  agent-replay import traces.otlp.jsonl.gz
  agent-replay import --json spans.binpb | jq '.anomalies[].code'
"""


@click.command(name="import", epilog=_EPILOG.format(formats=_FORMATS))
@lake_option
@click.option("--from", "from_", default="auto", show_default=True, metavar="FORMAT", help="What the files are.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def import_(lake: Path, from_: str, files: tuple[Path, ...], as_json: bool) -> int:
    """Read FILEs of traces and trajectories of other tools, and keep them as runs to show, query and compare."""
    from otel_agent_replay.imports.landing import land
    from otel_agent_replay.imports.recording_landing import RecordingLander
    from otel_agent_replay.imports.trace_labels import write_trace_labels
    from otel_agent_replay.redaction import redaction_at

    missing = next((path for path in files if not path.exists() or path.is_dir()), None)
    if missing is not None:
        raise click.UsageError(f"there is no file {str(missing)!r}")
    redaction = redaction_at(lake)
    told = _Told()
    with closing(RecordingLander(lake, redaction)) as lander:
        reading = _Reading(files, from_, lander, told)
        while batch := list(islice(reading.spans, _AT_ONCE)):
            told.add(land(lake, batch, source=reading.source_of, redaction=redaction, noted=reading.noted))
    told.noted += reading.noted
    for score in write_trace_labels(lake, reading.labels, told.run_ids, redaction):
        remark(f"note: {score.name} was left out: no spans of its trace {score.trace_id.hex()} came with it")
    told.print(as_json=as_json)
    for code, message in reading.failed:
        complain(code, message)
    return CANNOT_JUDGE if reading.failed else 1 if told.left_out else 0


class _Reading:
    """Files being read, one after the other; what lies in them as whole runs lands meanwhile.

    `noted` is what was wrong so far, `labels` what the files say of their traces, `failed` the files that could not be
    read (code and message).
    """

    def __init__(self, files: Sequence[Path], from_: str, lander: RecordingLander, told: _Told) -> None:
        self._from = from_
        self._lander = lander
        self._told = told
        self._sources: dict[bytes, str] = {}
        self._line = TallyLine("spans read")
        self.noted: list[Anomaly] = []
        self.labels: list[TraceLabel] = []
        self.failed: list[tuple[str, str]] = []
        self.spans = chain.from_iterable(map(self._spans_of, files))

    def source_of(self, trace_id: bytes) -> str:
        """Return the first file that told of a trace."""
        return self._sources.get(trace_id, "")

    def _spans_of(self, path: Path) -> Iterator[Span]:
        from otel_agent_replay.imports.files import read_file

        try:
            found = read_file(path, self._from)
            for span in found.spans:
                self._sources.setdefault(span.trace_id, str(path))
                self._line.add(1)
                yield span
                if found.anomalies:
                    self.noted += found.anomalies
                    found.anomalies.clear()
            self._told.add(self._lander.add(found.recordings, path.stat().st_mtime_ns))
            self.noted += found.anomalies
            self.labels += found.labels
            for note in found.notes:
                remark(f"note: {path}: {note}")
        except DamagedRecording as error:
            self.failed.append((error.code, str(error)))
        finally:
            self._line.end()


class _Told:
    """What was imported, over all files. A run that several landings completed is told as the last of them left it."""

    def __init__(self) -> None:
        self.traces: dict[tuple[bytes, bytes], dict[str, Any]] = {}
        self.noted: list[Anomaly] = []
        self._of_traces: dict[bytes, dict[Anomaly, None]] = {}  # in order, each once

    @property
    def anomalies(self) -> list[Anomaly]:
        """Everything that is odd."""
        return [*self.noted, *(one for told in self._of_traces.values() for one in told)]

    @property
    def run_ids(self) -> dict[bytes, bytes]:
        """Run ids by trace id."""
        return {trace_id: run_id for run_id, trace_id in self.traces}

    def add(self, landed: Landed) -> None:
        """Add one landing."""
        for trace in landed.traces:
            before = self._of_traces.get(trace.trace_id, {})
            self._of_traces[trace.trace_id] = {one: None for one in before if one.code in _OF_ARRIVAL}
            self.traces[trace.run_id, trace.trace_id] = {
                "run": trace.run_id.hex(),
                "trace_id": trace.trace_id.hex(),
                "span_count": trace.span_count,
                "roots": [span_id.hex() for span_id in trace.roots],
                "orphans": [span_id.hex() for span_id in trace.orphans],
                "max_depth": trace.max_depth,
            }
        for anomaly in landed.anomalies:
            self._of_traces.setdefault(anomaly.trace_id, {})[anomaly] = None

    @property
    def left_out(self) -> bool:
        """Whether anything is not in the lake now."""
        return any(one.code.is_left_out for one in self.anomalies)

    def print(self, *, as_json: bool) -> None:
        """Print what there is."""
        anomalies = self.anomalies
        traces = list(self.traces.values())
        span_count = sum(trace["span_count"] for trace in traces)
        if as_json:
            head = {"schema": "agent-replay/import", "schema_version": SCHEMA_VERSION, "span_count": span_count}
            emit_json({**head, "traces": traces, "anomalies": list(map(_facts, anomalies))})
            return
        shown = [{"run": one["run"], "trace": one["trace_id"], "spans": one["span_count"]} for one in traces[:_SHOWN]]
        emit(shown, as_json=False, title="runs")
        if len(traces) > _SHOWN:
            click.echo(f"... and {len(traces) - _SHOWN:,} more; `agent-replay runs` lists them")
        click.echo(f"{counted(span_count, 'span')} in {counted(len(traces), 'run')}")
        for code, count in sorted(Counter(str(anomaly.code) for anomaly in anomalies).items()):
            first = next(anomaly for anomaly in anomalies if anomaly.code == code)
            where = f" (span {first.span_id.hex()})" if first.span_id else ""
            remark(f"{code}: {count:,}, first{where}: {first.detail}")


def _facts(anomaly: Anomaly) -> dict[str, str]:
    return {
        "code": str(anomaly.code),
        "trace_id": anomaly.trace_id.hex(),
        "span_id": anomaly.span_id.hex(),
        "detail": anomaly.detail,
    }

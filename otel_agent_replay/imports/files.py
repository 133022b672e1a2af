"""Which format is this file, and what is in it: every reader of other people's files is registered here by name.

A reader gives spans, which are grouped into runs when they land, or recordings of whole runs. `auto` asks each reader
in turn whether the file looks like its own; the first that says yes reads it. Readers are imported when they are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from otel_agent_replay.errors import ConfigurationError, DamagedRecording
from otel_agent_replay.imports.opened_file import OpenedFile
from otel_agent_replay.imports.recording import Recording
from otel_agent_replay.model import Anomaly, AttributeValue, Span


@dataclass(frozen=True, slots=True)
class TraceLabel:
    """`who` says at `time_ns` (Unix nanoseconds) that `name` of a trace is `value`; `span_id`: of one span of it."""

    trace_id: bytes
    who: str
    time_ns: int
    name: str
    value: AttributeValue
    note: str = ""
    span_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Found:
    """What a reader found. `spans` and `recordings` may be read once; the lists are complete when they were read.

    `labels` are what the file says of traces beside their spans, `notes` sentences on what the format does not tell.
    """

    format: str
    spans: Iterable[Span] = ()
    recordings: Iterable[Recording] = ()
    anomalies: list[Anomaly] = field(default_factory=list)
    labels: list[TraceLabel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Reader(NamedTuple):
    """A reader: its module has `fits(file: OpenedFile) -> bool` and `read(file: OpenedFile) -> Found`.

    `module` may be `module:NAME`: then the object of that name has them.
    """

    module: str
    what: str


_TRAJECTORIES = "otel_agent_replay.imports.trajectories.reader"

READERS: Mapping[str, Reader] = {
    "otlp-json": Reader(
        "otel_agent_replay.imports.otlp_json", "OTLP JSON with `resourceSpans`: one document, or one a line"
    ),
    "otlp": Reader("otel_agent_replay.imports.otlp_protobuf", "OTLP protobuf: one message, or several with lengths"),
    "langfuse": Reader("otel_agent_replay.imports.langfuse", "an export of Langfuse: traces with their observations"),
    "jaeger": Reader("otel_agent_replay.imports.jaeger", "Jaeger's JSON, as its UI downloads it"),
    "sdk-json": Reader(
        "otel_agent_replay.imports.sdk_json", "spans as an SDK dumps them: JavaScript's, Python's console"
    ),
    "span-parquet": Reader("otel_agent_replay.imports.span_parquet", "Parquet of otlp2parquet or duckdb-otlp"),
    "tau-bench": Reader(f"{_TRAJECTORIES}:TAU_BENCH", "results of tau-bench"),
    "tau2-bench": Reader(f"{_TRAJECTORIES}:TAU2_BENCH", "simulations of tau2-bench"),
    "swe-agent": Reader(f"{_TRAJECTORIES}:SWE_AGENT", "a trajectory of SWE-agent (.traj)"),
    "who-and-when": Reader(f"{_TRAJECTORIES}:WHO_AND_WHEN", "a failure log of Who&When"),
    "ljoukov-llm": Reader(f"{_TRAJECTORIES}:LJOUKOV_LLM", "an agent run of ljoukov/llm's benchmark"),
    "inspect": Reader(f"{_TRAJECTORIES}:INSPECT", "a log of Inspect (.json, .eval)"),
    "vcr": Reader("otel_agent_replay.imports.cassette_reader", "HTTP exchanges: VCR, nock, the test agent"),
    "chat": Reader(f"{_TRAJECTORIES}:CHAT", "chat messages in OpenAI's form: a list, `messages`, one a line"),
}
"""Readers by name, in the order in which they are asked: what is told best from others comes first."""


class Spans(NamedTuple):
    """The spans of a file, all in memory, and what was wrong with them."""

    spans: list[Span]
    anomalies: list[Anomaly]


def read_spans(path: Path, from_: str = "auto") -> Spans:
    """Return the spans of a file. Raises DamagedRecording for a format that has none, or that nobody knows."""
    found = read_file(path, from_)
    spans = list(found.spans)
    if not spans and any(True for _ in found.recordings):
        raise DamagedRecording(
            f"{path} ({found.format}) holds runs, no spans: `agent-replay import` takes them into a lake"
        )
    return Spans(spans, found.anomalies)


def read_file(path: Path, from_: str = "auto") -> Found:
    """Return what is in a file; gzip around it is undone.

    Raises ConfigurationError for an unknown name, DamagedRecording when no reader knows the file or it is broken.
    """
    file = OpenedFile(path)
    if not file.head:
        raise DamagedRecording(f"{path} is empty: there is nothing in it to import")
    if from_ != "auto":
        if from_ not in READERS:
            raise ConfigurationError(f"no reader is called {from_!r}: auto, {', '.join(READERS)}")
        return _read(READERS[from_], file)
    for reader in READERS.values():
        if _loaded(reader).fits(file):
            return _read(reader, file)
    raise DamagedRecording(
        f"{path} is in no format that is known here; where it is one of those that `agent-replay import --help` lists, "
        "say which with --from"
    )


def _read(reader: Reader, file: OpenedFile) -> Found:
    found: Found = _loaded(reader).read(file)
    return found


def _loaded(reader: Reader) -> Any:
    module, _, name = reader.module.partition(":")
    loaded = import_module(module)
    return getattr(loaded, name) if name else loaded


def spans_of(found: Iterator[Span | Anomaly], anomalies: list[Anomaly]) -> Iterator[Span]:
    """Yield the spans, and put what was wrong into `anomalies`."""
    for one in found:
        if isinstance(one, Span):
            yield one
        else:
            anomalies.append(one)

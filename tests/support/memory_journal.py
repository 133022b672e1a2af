"""A journal in memory, and what a recorder wrote into it, by node."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import NoOpTracerProvider

from otel_agent_replay.boundary.runs import set_run_factory
from otel_agent_replay.capture.runs import RecordingRuns
from otel_agent_replay.capture.tracing import Tracing
from otel_agent_replay.export.answered_nodes import answered_nodes
from otel_agent_replay.model import CaptureLevel
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.v1 import journal_pb2 as wire


class MemoryJournal:
    """Implements `capture.runs.RunJournal`. `fails`: every append raises, as no real one does."""

    def __init__(self) -> None:
        self.records: list[wire.Record] = []
        self.appends = 0
        self.open_runs: set[bytes] = set()
        self.fails = False

    def append(self, *records) -> bool:
        self.appends += 1
        if self.fails:
            raise OSError("the journal is broken")
        self.records += [wire.Record.FromString(one) if isinstance(one, bytes) else one for one in records]
        return True

    def body(self, payload, history):
        return wire.Record(body=wire.Body(digest=payload.digest, data=payload.data, media_type=payload.media_type))

    def begin_run(self, run_id) -> None:
        self.open_runs.add(run_id)

    def end_run(self, run_id) -> None:
        self.open_runs.discard(run_id)

    # --- what was written ---

    def of(self, kind: str) -> list[Any]:
        """Return the records of one kind, in order."""
        return [getattr(record, kind) for record in self.records if record.WhichOneof("record") == kind]

    def nodes(self) -> list[tuple[wire.NodeBegun, wire.NodeEnded | None]]:
        """Return each node's begin (the last of several) with its end, in begin order."""
        begun = {node.span_id: node for node in self.of("node_begun")}
        ended = {node.span_id: node for node in self.of("node_ended")}
        for answered in self.of("answered"):
            for one, its_end in answered_nodes(answered):
                begun[one.span_id], ended[one.span_id] = one, its_end
        return [(node, ended.get(node.span_id)) for node in sorted(begun.values(), key=lambda node: node.sequence)]

    def node(self, name: str) -> tuple[wire.NodeBegun, wire.NodeEnded]:
        """Return the one node of that name."""
        (found,) = [pair for pair in self.nodes() if pair[0].name == name]
        return found

    def bytes_of(self, digest: bytes) -> bytes:
        """Return a payload's bytes, wherever they lie."""
        for begun, ended in self.nodes():
            if begun.request_digest == digest and begun.request_data:
                return begun.request_data
            if ended is not None and ended.result_digest == digest and ended.result_data:
                return ended.result_data
        return next(body.data for body in self.of("body") if body.digest == digest)

    def request(self, name: str) -> Any:
        """Return the arguments of the one node of that name."""
        return decode(self.bytes_of(self.node(name)[0].request_digest))

    def result(self, name: str) -> Any:
        """Return the value that it gave."""
        return decode(self.bytes_of(self.node(name)[1].result_digest))

    def attributes(self, name: str) -> dict[str, Any]:
        """Return the attributes of its begin."""
        return convert.attributes_from_wire(self.node(name)[0].attributes)

    def versions(self) -> dict[str, str]:
        """Return the versions of the one run, those of its end over those of its begin."""
        (begun,), (ended,) = self.of("run_begun"), self.of("run_ended")
        return {version.name: version.value for version in (*begun.versions, *ended.versions)}


@contextmanager
def recording(provider=None, *, level=CaptureLevel.REDACTED, inline=False, redaction=None):
    """Record what runs inside into a journal in memory; `provider` None: the service has no tracing."""
    journal = MemoryJournal()
    redaction = redaction or Redaction.default()
    runs = RecordingRuns(
        journal=journal,
        tracing=Tracing(provider or NoOpTracerProvider()),
        redaction=redaction.at,
        coverage=lambda: (),
        level=level,
        inline=inline,
    )
    set_run_factory(runs)
    try:
        yield journal
    finally:
        set_run_factory(None)

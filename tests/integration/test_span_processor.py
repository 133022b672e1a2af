"""The span processor and the exporter under the real OpenTelemetry SDK."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Place, current
from otel_agent_replay.boundary.policy import RECORD
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.export import processor as processor_module
from otel_agent_replay.export.exporter import LakeSpanExporter
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.processor import ReplaySpanProcessor
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import CaptureLevel, LossReason
from otel_agent_replay.payload.redaction import Redaction
from tests.support.journal_files import all_records, segment_paths
from tests.support.journal_runs import JournalRun
from tests.support.tape_session import MemoryObserver


class Service:
    """A service with tracing, our processor in it, and one run of an agent."""

    def __init__(self, lake: Path, **provider) -> None:
        self.lake = lake
        self.journal = Journal(lake)
        self.runs_of_ours: dict[tuple[int, int], tuple[bytes, str]] = {}
        self.processor = ReplaySpanProcessor(self.journal, run_of=lambda *span: self.runs_of_ours.get(span, (b"", "")))
        self.provider = TracerProvider(resource=Resource({"service.name": "shop", "zone": "b"}), **provider)
        self.provider.add_span_processor(self.processor)
        self.tracer = self.provider.get_tracer("their.library", "2.1", attributes={"k": "v"})
        self.ours = self.provider.get_tracer(semconv.SCOPE_NAME)

    @contextmanager
    def run(self):
        """Run the enclosed code inside a recorded run."""
        run = JournalRun(self.journal)
        root = Place.root("desk")
        session = Session(
            run_id=run.run_id,
            root=root,
            mode=RECORD,
            observer=MemoryObserver(),
            redaction=Redaction.default(key=b"k", level=CaptureLevel.FULL),
        )
        session.open()
        token = current.set((session, root))
        try:
            yield run
        finally:
            current.reset(token)
            session.close()
            run.finish()

    def sealed(self, run: JournalRun) -> dict:
        """Return the foreign spans of a run in the lake, by name."""
        self.journal.close()
        seal(self.lake)
        return {span.span.name: span.span for span in Lake(self.lake).load(run.run_id).spans if span.node is None}


@pytest.fixture
def service(tmp_path: Path):
    opened = Service(tmp_path / "lake")
    yield opened
    opened.provider.shutdown()
    opened.journal.close()


def test_a_span_inside_a_run_is_kept_with_it_in_full(service: Service) -> None:
    """Attributes of every type, events, links, status, scope and resource of a foreign span come out of the lake."""
    with service.run() as run:
        other = service.tracer.start_span("other")
        link = trace.Link(other.get_span_context(), {"why": "retry"})
        with service.tracer.start_as_current_span("SELECT", kind=trace.SpanKind.CLIENT, links=[link]) as span:
            span.set_attributes({"text": "é", "n": 7, "x": 1.5, "b": True, "many": ["a", "b"], "numbers": [1, 2]})
            span.add_event("row", {"n": 1}, timestamp=123)
            span.set_status(trace.Status(trace.StatusCode.ERROR, "deadlock"))
        other.end()
    found = service.sealed(run)
    select = found["SELECT"]
    assert set(found) == {"SELECT", "other"}
    assert select.attributes == {"text": "é", "n": 7, "x": 1.5, "b": True, "many": ("a", "b"), "numbers": (1, 2)}
    assert (select.kind, select.status_code, select.status_message) == (3, 2, "deadlock")
    assert [(event.name, event.time_ns, event.attributes) for event in select.events] == [("row", 123, {"n": 1})]
    assert select.links[0].span_id == other.get_span_context().span_id.to_bytes(8, "big")
    assert select.links[0].attributes == {"why": "retry"}
    assert (select.scope.name, select.scope.version, select.scope.attributes) == ("their.library", "2.1", {"k": "v"})
    assert select.resource.attributes == {"service.name": "shop", "zone": "b"}
    assert select.span_id == span.get_span_context().span_id.to_bytes(8, "big")
    assert (select.start_ns, select.end_ns) == (span.start_time, span.end_time)


def test_a_span_outside_every_run_is_nobodys(service: Service) -> None:
    """The processor writes nothing for spans outside a run."""
    with service.tracer.start_as_current_span("GET /"):
        pass
    assert not service.lake.exists()


def test_our_own_spans_are_not_kept_twice(service: Service) -> None:
    """A span of ours is in the journal as a node already; below it, a foreign span belongs to its run in any thread."""
    with service.run() as run:
        ours = service.ours.start_span("execute_tool refund", attributes={semconv.RUN_ID: run.run_id.hex()})
        context = trace.set_span_in_context(ours)
        service.runs_of_ours[ours.context.trace_id, ours.context.span_id] = (run.run_id, "")

    def elsewhere() -> None:  # no session is known here, only the parent
        service.tracer.start_span("SELECT", context).end()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    ours.end()
    service.journal.close()
    kept = [record.foreign for record in all_records(service.lake, "foreign")]
    assert [message.run_id for message in kept] == [run.run_id]
    assert b"SELECT" in kept[0].resource_spans
    assert not service.processor._runs


def test_more_attributes_than_the_limit(tmp_path: Path) -> None:
    """Of a span with more than 128 attributes the SDK's rest is kept, with the number it dropped."""
    service = Service(tmp_path / "lake", span_limits=SpanLimits(max_span_attributes=128))
    with service.run() as run, service.tracer.start_as_current_span("wide") as span:
        for number in range(200):
            span.set_attribute(f"key.{number}", number)
    wide = service.sealed(run)["wide"]
    assert len(wide.attributes) == 128
    assert wide.dropped_attributes == 72


def test_a_value_that_otlp_cannot_hold(service: Service) -> None:
    """An integer beyond 64 bits and a lone surrogate are kept as text instead of losing the attribute."""
    with service.run() as run, service.tracer.start_as_current_span("odd") as span:
        span.set_attribute("big", 2**70)
        span.set_attribute("broken", "a\ud800b")
    odd = service.sealed(run)["odd"]
    assert odd.attributes == {"big": str(2**70), "broken": "a\\ud800b"}


def test_an_unsampled_service_is_left_in_peace(tmp_path: Path) -> None:
    """When the service's sampler drops everything, the run is recorded all the same, without foreign spans."""
    service = Service(tmp_path / "lake", sampler=ALWAYS_OFF)
    with service.run() as run, service.tracer.start_as_current_span("SELECT"):
        run.tool()
    assert service.sealed(run) == {}
    assert [node.name for node in Lake(service.lake).load(run.run_id).nodes] == ["desk", "refund"]


class RecordOnly(Sampler):
    """Records spans that are not sampled."""

    def should_sample(self, *args, **kwargs):
        return SamplingResult(Decision.RECORD_ONLY)

    def get_description(self):
        return "RecordOnly"


def test_a_span_that_is_recorded_but_not_sampled_is_kept(tmp_path: Path) -> None:
    """Recording does not depend on the sampled flag, which is kept."""
    service = Service(tmp_path / "lake", sampler=RecordOnly())
    with service.run() as run, service.tracer.start_as_current_span("SELECT"):
        pass
    assert service.sealed(run)["SELECT"].flags & 1 == 0


def test_beside_a_batch_processor(service: Service) -> None:
    """Another processor sees the same spans as without ours."""
    exporter = InMemorySpanExporter()
    service.provider.add_span_processor(BatchSpanProcessor(exporter))
    with service.run() as run:
        for number in range(50):
            with service.tracer.start_as_current_span(f"span {number}"):
                pass
    service.provider.force_flush()
    names = {f"span {number}" for number in range(50)}
    assert {span.name for span in exporter.get_finished_spans()} == names
    assert set(service.sealed(run)) == names


def test_a_defect_of_ours_never_reaches_the_service(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """When keeping a span fails, the service's code goes on, it is said once, and the losses are counted."""

    def broken(*args, **kwargs):
        raise RuntimeError("a defect")

    with service.run() as run:
        with monkeypatch.context() as patch:
            patch.setattr(processor_module, "foreign_record", broken)
            patch.setattr(processor_module.ReplaySpanProcessor, "_is_ours", broken)
            with caplog.at_level(logging.ERROR, logger="otel_agent_replay"):
                for _ in range(3):
                    with service.tracer.start_as_current_span("SELECT"):
                        pass
        with service.tracer.start_as_current_span("healthy"):
            pass
    assert len(caplog.records) == 1
    assert set(service.sealed(run)) == {"healthy"}
    seal(service.lake)
    lost = [loss for path in (service.lake / "losses").rglob("*.parquet") for loss in _rows(path)]
    assert {(row["reason"], row["what"]) for row in lost} == {(LossReason.INTERNAL.value, "foreign span")}
    assert sum(row["count"] for row in lost) >= 3


def _rows(path: Path) -> list[dict]:
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pylist()


def test_the_end_of_a_local_root_is_told(service: Service) -> None:
    """`on_root_end` hears of each local root span, with its trace id, and its exceptions stay inside."""
    told = []

    def hear(trace_id: int) -> None:
        told.append(trace_id)
        raise RuntimeError("a defect")

    service.provider.add_span_processor(ReplaySpanProcessor(service.journal, on_root_end=hear))
    with service.tracer.start_as_current_span("root") as root, service.tracer.start_as_current_span("child"):
        pass
    assert told == [root.get_span_context().trace_id]


def test_spans_that_never_end_do_not_pile_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor's memory of open spans is bounded; the oldest are forgotten."""
    monkeypatch.setattr(processor_module, "_MOST_OPEN", 10)
    with service.run():
        left_open = [service.tracer.start_span(f"span {number}") for number in range(30)]
        assert len(service.processor._runs) == 10
    assert len(left_open) == 30


def test_the_header_says_who_emitted(service: Service) -> None:
    """The segment's header has the resource of the service's provider, for our own spans."""
    with service.run() as run:
        with service.tracer.start_as_current_span("SELECT"):
            pass
    service.journal.rotate()
    with service.run() as run:
        run.tool()
    service.journal.close()
    seal(service.lake)
    root = Lake(service.lake).load(run.run_id).spans[0].span
    assert root.resource.attributes == {"service.name": "shop", "zone": "b"}


# --- the exporter ---


def plain_service(lake: Path, **options):
    exporter = LakeSpanExporter(lake=lake, seal="off", **options)
    provider = TracerProvider(resource=Resource({"service.name": "plain"}))
    return exporter, provider


def test_the_exporter_is_an_entry_point() -> None:
    """A service finds the exporter by its name."""
    (entry,) = entry_points(group="opentelemetry_traces_exporter", name="agent_replay")
    assert entry.load() is LakeSpanExporter


def test_a_plain_services_spans_come_into_the_lake(tmp_path: Path) -> None:
    """Through a batch processor, every ended span of a service without agents is a row with no run."""
    exporter, provider = plain_service(tmp_path / "lake")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("web")
    for number in range(700):
        with tracer.start_as_current_span(f"GET /{number}"):
            pass
    provider.shutdown()
    seal(tmp_path / "lake")
    rows = [row for path in (tmp_path / "lake" / "spans").rglob("*.parquet") for row in _rows(path)]
    assert {row["name"] for row in rows} == {f"GET /{number}" for number in range(700)}
    assert {(row["run_id"], row["service"]) for row in rows} == {(None, "plain")}
    assert len(rows) == 700


def test_processor_and_exporter_together_keep_a_span_once(service: Service) -> None:
    """Where runs are recorded too, the exporter leaves their spans to the processor."""
    exporter = LakeSpanExporter(lake=service.lake, seal="off")
    service.provider.add_span_processor(SimpleSpanProcessor(exporter))
    with service.run() as run, service.tracer.start_as_current_span("SELECT"):
        service.ours.start_span("execute_tool", attributes={semconv.RUN_ID: run.run_id.hex()}).end()
    with service.tracer.start_as_current_span("outside"):
        pass
    exporter.shutdown()
    assert set(service.sealed(run)) == {"SELECT"}
    rows = [row for path in (service.lake / "spans").rglob("*.parquet") for row in _rows(path)]
    assert sorted(row["name"] for row in rows if row["kind"] is None) == ["SELECT", "outside"]


def test_a_flush_makes_what_was_exported_sealable(tmp_path: Path) -> None:
    """After force_flush a single exported span lies in a closed segment, while the process lives on."""
    exporter, provider = plain_service(tmp_path / "lake")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("web").start_as_current_span("GET /"):
        pass
    assert seal(tmp_path / "lake").spans == 0
    exporter.force_flush()
    assert seal(tmp_path / "lake").spans == 1
    provider.shutdown()


def test_a_batch_can_be_sealed_at_once(tmp_path: Path) -> None:
    """What a batch processor exported is sealed while the process lives on, with no flush of the exporter."""
    exporter, provider = plain_service(tmp_path / "lake")
    batches = BatchSpanProcessor(exporter)
    provider.add_span_processor(batches)
    for _ in range(3):
        provider.get_tracer("web").start_span("GET /").end()
    batches.force_flush()
    assert seal(tmp_path / "lake").spans == 3
    provider.shutdown()


def test_an_exporter_that_cannot_write_says_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An export to a place that cannot be written returns FAILURE and does not raise."""
    (tmp_path / "file").write_text("")
    exporter, provider = plain_service(tmp_path / "file" / "lake")
    span = provider.get_tracer("web").start_span("GET /")
    span.end()
    assert exporter.export([span]) is SpanExportResult.FAILURE
    exporter.shutdown()
    assert len(caplog.records) == 1


def test_an_unknown_option_is_named(tmp_path: Path) -> None:
    """The exporter takes options of Settings only."""
    with pytest.raises(ConfigurationError, match="colour"):
        LakeSpanExporter(lake=tmp_path, colour="red")
    assert segment_paths(tmp_path) == []

"""A sealer that puts plain spans into the lake as columns: the same rows as one by one, whatever lies beside them."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from otel_agent_replay_collector import sealing
from otel_agent_replay_collector.options import CollectorOptions
from otel_agent_replay_collector.sealing import RequestSealer

from otel_agent_replay.export.otlp_files import write_spans
from otel_agent_replay.imports.files import read_spans
from otel_agent_replay.imports.plain import PlainLanded
from otel_agent_replay.lake.layout import LOSSES, all_files
from tests.support.receiving import post, receiver, request_of, spans_of_request
from tests.support.recordings import data_folder
from tests.support.two_ways import land_as_objects, land_plain, requests_of, rows_of

AGENTS_TRACE, TOLD_TRACE = bytes([1] * 16), bytes([2] * 16)
PLAIN_SPANS = 1408


def mixed():
    """Many plain spans in several requests; two traces of an agent, one of them only as its last span says so."""
    whole = [request_of(PLAIN_SPANS // 2, seed, plain=True) for seed in range(2)]
    agents = request_of(8, 7, trace_id=AGENTS_TRACE)
    told = request_of(8, 8, trace_id=TOLD_TRACE, plain=True)
    failed = spans_of_request(whole[0])[100]
    failed.status.code = 2
    failed.status.message = "no such order"
    scattered = request_of(0)
    moved = whole[0].resource_spans[0].scope_spans[0].spans.pop()  # of one trace a part comes in another request
    scattered.resource_spans[0].scope_spans[0].spans.append(moved)
    return [*whole, agents, told, scattered]


def records():
    logs = ExportLogsServiceRequest()
    last = spans_of_request(request_of(8, 8, trace_id=TOLD_TRACE, plain=True))[-1]
    record = (
        logs.resource_logs.add()
        .scope_logs.add()
        .log_records.add(trace_id=TOLD_TRACE, span_id=last.span_id, time_unix_nano=5, event_name="gen_ai.choice")
    )
    record.body.string_value = "it is open"
    return logs


def received(lake):
    with receiver(lake) as made:
        for request in mixed():
            assert post(made.http.bound.port, request.SerializeToString())[0] == 200
        assert post(made.http.bound.port, records().SerializeToString(), path="/v1/logs")[0] == 200


def sealer(lake, **options):
    given = {name: str(value) for name, value in options.items()}
    return RequestSealer(CollectorOptions.load({"lake": str(lake), **given}, environment={}))


def as_objects(lake, monkeypatch, **options):
    """A sealer as it is where the extra `collector` is not installed."""
    with monkeypatch.context() as patched:
        patched.setattr(sealing, "plain_lander", lambda *_: None)
        return sealer(lake, **options)


@pytest.fixture
def ways(tmp_path):
    """Two lakes that received the same."""
    lakes = tmp_path / "columns", tmp_path / "objects"
    for lake in lakes:
        received(lake)
    return lakes


def what_landed(monkeypatch):
    """What was taken as plain, of each batch from now on."""
    from otel_agent_replay.imports.plain.landing import PlainLander

    landed, real = [], PlainLander.land

    def land(self, *arguments, **options):
        landed.append(real(self, *arguments, **options))
        return landed[-1]

    monkeypatch.setattr(PlainLander, "land", land)
    return landed


def lost(lake):
    """How many runs the policy left out, and with how many spans."""
    losses = pa.concat_tables([pq.read_table(file.path, partitioning=None) for file in all_files(lake, LOSSES)])
    told = [
        re.fullmatch(r"left out by the policy .* with (\d+) spans", detail) for detail in losses["detail"].to_pylist()
    ]
    return sum(losses["count"].to_pylist()), sum(int(one[1]) for one in told)


def test_a_mixed_batch_seals_to_the_same_rows_by_both_ways(ways, monkeypatch):
    """Plain traces, an agent's, and one that a log record tells of: nothing in the lake tells the ways apart."""
    landed = what_landed(monkeypatch)
    first, second = sealer(ways[0]), as_objects(ways[1], monkeypatch)
    assert first.seal(all_of_them=True) == second.seal(all_of_them=True)
    assert rows_of(ways[0]) == rows_of(ways[1])
    assert first.done == second.done
    assert [one.span_count for one in landed] == [PLAIN_SPANS]
    assert not {AGENTS_TRACE, TOLD_TRACE}.intersection(landed[0].kept)


def test_a_policy_keeps_and_loses_the_same_by_both_ways(ways, monkeypatch):
    """A share of the runs and all that failed are kept, the same ones; the rest is counted as lost."""
    landed = what_landed(monkeypatch)
    options = {"keep_rate": 0.4, "keep": "failed,flagged"}
    first, second = sealer(ways[0], **options), as_objects(ways[1], monkeypatch, **options)
    first.seal(all_of_them=True)
    second.seal(all_of_them=True)
    assert rows_of(ways[0])[0] == rows_of(ways[1])[0]
    assert lost(ways[0]) == lost(ways[1])
    assert first.done == second.done
    assert landed[0].kept
    assert landed[0].left_out


def test_what_landed_before_a_crash_is_not_doubled(tmp_path, monkeypatch):
    """A sealer that dies between landing and removing is followed by one that lands the same again."""
    received(tmp_path)
    kept = {path: path.read_bytes() for path in (tmp_path / "received").glob("*.requests")}
    landed = what_landed(monkeypatch)
    sealer(tmp_path).seal(all_of_them=True)
    once = rows_of(tmp_path)
    for path, data in kept.items():
        path.write_bytes(data)
    sealer(tmp_path).seal(all_of_them=True)
    assert rows_of(tmp_path) == once
    assert [len(one.kept) > 0 for one in landed] == [True, False]


def test_a_batch_that_fails_in_the_middle_lands_trace_by_trace_and_counts_once(tmp_path, monkeypatch):
    """The agent's trace cannot be landed: everything else is in the lake and counted, once."""
    received(tmp_path)
    real = sealing.land

    def land(lake, spans, **options):
        if any(span.trace_id == AGENTS_TRACE for span in spans):
            raise ValueError("a defect")
        return real(lake, spans, **options)

    monkeypatch.setattr(sealing, "land", land)
    working = sealer(tmp_path)
    working.seal(all_of_them=True)
    spans, _ = rows_of(tmp_path)
    assert len(spans) == len(set(spans)) == PLAIN_SPANS + 8
    assert (working.done.spans, working.done.failures) == (PLAIN_SPANS + 8, 1)


def test_what_comes_later_completes_a_run_that_landed_plain(tmp_path):
    """A span that comes after its trace has landed joins it: one run, every span."""
    requests = mixed()
    with receiver(tmp_path) as made:
        for request in requests[:-1]:
            assert post(made.http.bound.port, request.SerializeToString())[0] == 200
    working = sealer(tmp_path)
    working.seal(all_of_them=True)
    before = working.done.spans
    with receiver(tmp_path) as made:
        assert post(made.http.bound.port, requests[-1].SerializeToString())[0] == 200
    working.seal(all_of_them=True)
    spans, _ = rows_of(tmp_path)
    assert len(spans) == before + 1
    assert sum("'root': True" in row for row in spans) == PLAIN_SPANS // 8 + 2


def test_a_defect_of_the_quick_way_loses_nothing(ways, monkeypatch):
    """What cannot land as columns lands one by one, and all of it."""
    from otel_agent_replay.imports.plain import landing

    def broken(*_):
        raise ValueError("a defect")

    first, second = sealer(ways[0]), as_objects(ways[1], monkeypatch)
    monkeypatch.setattr(landing, "order_of", broken)
    assert first.seal(all_of_them=True) == second.seal(all_of_them=True)
    assert first.done == second.done
    assert rows_of(ways[0]) == rows_of(ways[1])


def test_few_spans_go_one_by_one(tmp_path):
    """A file of their own would cost more than it saves."""
    requests = [request_of(16, plain=True).SerializeToString()]
    assert land_plain(tmp_path / "few", requests, least=17) == PlainLanded()
    assert land_plain(tmp_path / "enough", requests, least=16).span_count == 16


def test_spans_with_more_attributes_than_fit_into_memory_go_one_by_one(tmp_path, monkeypatch):
    """However short they are on the wire: as columns each takes its place."""
    from otel_agent_replay.imports.plain import landing

    requests = [request_of(16, plain=True).SerializeToString()]
    monkeypatch.setattr(landing, "_MOST_ATTRIBUTES", 15)
    assert land_plain(tmp_path, requests) == PlainLanded()


FOLDER = data_folder()


@pytest.mark.real
@pytest.mark.skipif(FOLDER is None, reason="recordings of others are absent: set OTEL_AGENT_REPLAY_DATA")
def test_spans_that_others_published_land_the_same_by_both_ways(tmp_path):
    """All OTLP files together: rows, facts, digests and losses."""
    patterns = (
        "opentelemetry-proto/trace.json",
        "otlp2parquet/trace*",
        "duckdb-otlp/*trace*",
        "openinference/**/a*.json",
    )
    paths = sorted(path for pattern in patterns for path in FOLDER.glob(pattern) if "malformed" not in path.name)
    spans = [span for path in paths for span in read_spans(path).spans]
    write_spans(spans, tmp_path / "all.binpb")
    requests = requests_of(read_spans(tmp_path / "all.binpb").spans, 50)
    landed = land_plain(tmp_path / "columns", requests)
    land_as_objects(tmp_path / "objects", requests)
    assert rows_of(tmp_path / "columns") == rows_of(tmp_path / "objects")
    assert landed.span_count > 0

"""A receiver and its sealer as they run: killed in the middle, parts in any order, secrets planted everywhere."""

import gzip
import json
import threading

import pytest
from click.testing import CliRunner
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from otel_agent_replay_collector.options import CollectorOptions
from otel_agent_replay_collector.sealing import RequestSealer, seal_requests, sealer_lock

from otel_agent_replay.cli.main import main
from otel_agent_replay.export.otlp_files import write_spans
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import Kind, LossReason, digest_of
from otel_agent_replay.otlp.parts import messages_of
from otel_agent_replay.otlp.spans import resource_spans_of
from tests.support.canaries import found_in, found_in_folder
from tests.support.forged_records import RUN_ID, forged_spans
from tests.support.forged_records import SECRETS as FORGED
from tests.support.receiving import (
    CollectorProcess,
    call,
    kept_span_ids,
    post,
    receiver,
    request_of,
    spans_of_request,
    until,
)

TRACE = bytes(range(1, 17))


def sealer(lake, **options):
    given = {name: str(value) for name, value in options.items()}
    return RequestSealer(CollectorOptions.load({"lake": str(lake), **given}, environment={}))


def received(lake, *requests, path="/v1/traces"):
    """Send requests and have them in closed segments, each in one of its own."""
    for request in requests:
        with receiver(lake) as made:
            assert post(made.http.bound.port, request.SerializeToString(), path=path)[0] == 200


def span_ids(lake):
    """The ids of all spans in a lake."""
    return sorted(bytes.fromhex(span_id) for (span_id,) in rows(lake, "SELECT span_id FROM spans"))


def rows(lake, sql):
    with connect(lake) as connection:
        return connection.execute(sql).fetchall()


def ids(*requests):
    return sorted(span.span_id for request in requests for span in spans_of_request(request))


def test_a_trace_lands_when_it_is_quiet_and_what_comes_later_completes_it(tmp_path):
    """In two parts, the second one twice and long after: one run, every span once."""
    whole = request_of(8, trace_id=TRACE)
    parts = [type(whole)(), type(whole)()]
    for part, wanted in zip(parts, (slice(4, 8), slice(0, 4)), strict=True):  # the root comes last
        part.CopyFrom(whole)
        spans = part.resource_spans[0].scope_spans[0].spans
        chosen = list(spans)[wanted]
        del spans[:]
        spans.extend(chosen)
    received(tmp_path, parts[0])
    working = sealer(tmp_path, quiet_s=1000)
    assert working.seal() == 0
    assert working.done.pending_traces == 1
    working = sealer(tmp_path, quiet_s=0.001)
    until(working.seal)
    received(tmp_path, parts[1], parts[1])
    until(working.seal)
    assert span_ids(tmp_path) == ids(whole)
    assert len(Lake(tmp_path).runs()) == 1
    assert working.done.segments_removed == 3
    assert list((tmp_path / "received").glob("*.requests")) == []


def test_what_was_landed_before_a_crash_is_not_doubled(tmp_path):
    """A sealer that dies between landing and removing is followed by one that lands the same again."""
    requests = [request_of(40, seed) for seed in range(3)]
    received(tmp_path, *requests)
    kept = {path: path.read_bytes() for path in (tmp_path / "received").glob("*.requests")}
    assert sealer(tmp_path).seal(all_of_them=True) == 15
    for path, data in kept.items():
        path.write_bytes(data)
    assert sealer(tmp_path).seal(all_of_them=True) == 15
    assert span_ids(tmp_path) == ids(*requests)
    assert len(Lake(tmp_path).runs()) == 15


def test_a_policy_keeps_whole_runs_and_counts_the_rest_as_lost(tmp_path):
    """With a rate of 0, what failed is kept, and `losses` says how much is not."""
    request = request_of(80)
    failed = spans_of_request(request)[13]
    failed.status.code = 2
    received(tmp_path, request)
    working = sealer(tmp_path, keep_rate=0)
    working.seal(all_of_them=True)
    members = [span for span in spans_of_request(request) if span.trace_id == failed.trace_id]
    assert span_ids(tmp_path) == sorted(span.span_id for span in members)
    assert (working.done.left_out_runs, working.done.left_out_spans) == (9, 72)
    assert rows(tmp_path, "SELECT reason, what, count FROM losses") == [("sampled", "run", 9)]


def test_genai_log_records_join_their_spans_and_others_are_counted(tmp_path):
    """An event of a span that came is an event of it in the lake; what belongs to none is a loss, told."""
    request = request_of(2, trace_id=TRACE)
    span = spans_of_request(request)[1]
    logs = ExportLogsServiceRequest()
    records = logs.resource_logs.add().scope_logs.add().log_records
    event = records.add(trace_id=TRACE, span_id=span.span_id, time_unix_nano=5, event_name="gen_ai.choice")
    event.body.string_value = "it is open"
    records.add(trace_id=TRACE, span_id=b"x" * 8, event_name="gen_ai.choice")
    records.add(event_name="started")
    received(tmp_path, request)
    received(tmp_path, logs, path="/v1/logs")
    working = sealer(tmp_path)
    working.seal(all_of_them=True)
    lake = Lake(tmp_path)
    recorded = lake.load(lake.runs()[0].run.run_id)
    events = [event.name for item in recorded.spans for event in item.span.events]
    assert events == ["gen_ai.choice"]
    assert sum(count for (count,) in rows(tmp_path, "SELECT count FROM losses WHERE what = 'log record'")) == 2


def test_a_trace_that_cannot_be_landed_stays_and_holds_up_no_other(tmp_path, monkeypatch):
    """Its segment is kept for a sealer that can, everything else lands."""
    from otel_agent_replay_collector import sealing

    request = request_of(24)
    bad = spans_of_request(request)[9].trace_id
    received(tmp_path, request)
    real = sealing.land

    def land(lake, spans, **options):
        if bad in {span.trace_id for span in spans}:
            raise ValueError("a defect")
        return real(lake, spans, **options)

    monkeypatch.setattr(sealing, "land", land)
    working = sealer(tmp_path)
    assert working.seal(all_of_them=True) == 2
    assert (working.done.failures, working.done.segments_removed) == (1, 0)
    assert len(span_ids(tmp_path)) == 16
    monkeypatch.undo()
    assert sealer(tmp_path).seal(all_of_them=True) == 3
    assert span_ids(tmp_path) == ids(request)
    assert list((tmp_path / "received").glob("*.requests")) == []


def test_one_sealer_works_at_a_time(tmp_path):
    """Another one is told, and does nothing."""
    received(tmp_path, request_of(1))
    with sealer_lock(tmp_path) as held:
        assert held
        assert seal_requests(tmp_path, all_of_them=True) is None
    assert seal_requests(tmp_path, all_of_them=True).spans == 1
    assert seal_requests(tmp_path / "elsewhere", all_of_them=True) is None


def test_a_damaged_segment_is_kept_aside_and_told(tmp_path):
    """What can be read of it lands, what cannot is a loss, and the file stays for whoever looks into it."""
    with receiver(tmp_path) as made:
        for seed in range(3):
            assert post(made.http.bound.port, request_of(30, seed, text_bytes=3000).SerializeToString())[0] == 200
    (path,) = (tmp_path / "received").glob("*.requests")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    working = sealer(tmp_path)
    working.seal(all_of_them=True)
    assert len(span_ids(tmp_path)) == 60
    assert path.with_suffix(".damaged").exists()
    assert rows(tmp_path, "SELECT reason FROM losses") == [("torn",)]


# --- processes ---


def test_a_kill_in_the_middle_loses_nothing_acknowledged_and_doubles_nothing(tmp_path):
    """SIGKILL while four senders send by both protocols: every acknowledged span is in the lake afterwards, once."""
    acknowledged, lock = [], threading.Lock()
    for generation in range(2):
        process = CollectorProcess(
            tmp_path, "--quiet-s", "0.2", "--segment-s", "0.3", "--seal", ("on", "off")[generation]
        )
        ended = threading.Event()

        def send(number, process=process, ended=ended, generation=generation):
            for turn in range(10_000):
                if ended.is_set():
                    return
                request = request_of(20, seed=generation * 1_000_000 + number * 100_000 + turn, text_bytes=500)
                data = request.SerializeToString()
                try:
                    if number % 2:
                        call(process.grpc, data)
                    elif post(process.http, data)[0] != 200:
                        continue
                except Exception:  # it was killed
                    return
                with lock:
                    acknowledged.extend(ids(request))

        senders = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for sender in senders:
            sender.start()
        goal = len(acknowledged) + 2000
        until(lambda goal=goal: len(acknowledged) > goal)
        process.kill()
        ended.set()
        for sender in senders:
            sender.join()
    process = CollectorProcess(tmp_path, "--quiet-s", "0.2")
    until(lambda: not [*(tmp_path / "received").glob("*.requests"), *(tmp_path / "received").glob("*.open")])
    assert process.end() == 0
    found = span_ids(tmp_path)
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)


def test_the_command_tells_where_it_listens_seals_and_ends_in_order(tmp_path):
    """SIGTERM right after an acknowledgement: exit code 0, and what was acknowledged lands by `agent-replay seal`."""
    import subprocess
    import sys

    process = CollectorProcess(tmp_path, "--seal", "off")
    request = request_of(10)
    assert post(process.http, request.SerializeToString())[0] == 200
    assert process.end() == 0
    command = [sys.executable, "-m", "otel_agent_replay", "seal", "--lake", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["received"]["spans"] == 10
    assert span_ids(tmp_path) == ids(request)


# --- canaries ---

SECRETS = {
    "key": "sk-proj-Qm3Zk8vXt0LrJb5YcWn9DhPq2Gf7TaUe4SoIx1Rw6KzVy",
    "token": "ghp_a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2",
    "password": "correct-horse-battery-9",
    "in a URL": "opensesame-4711",
}


def planted():
    request = request_of(6)
    group = request.resource_spans[0]
    texts = {
        "note": f"use {SECRETS['key']}, not {SECRETS['token']}",
        "http.request.header.authorization": f"Bearer {SECRETS['password']}",
        "gen_ai.tool.call.arguments": json.dumps(
            {"password": SECRETS["password"], "x": json.dumps({"api_key": SECRETS["key"]})}
        ),
        "url.full": f"postgres://ann:{SECRETS['in a URL']}@db/x",
    }
    span = spans_of_request(request)[2]
    span.name = f"call with {SECRETS['token']}"
    span.status.message = f"key {SECRETS['key']} is wrong"
    event, link = span.events.add(name="e"), span.links.add()
    holders = (
        group.resource.attributes,
        group.scope_spans[0].scope.attributes,
        span.attributes,
        event.attributes,
        link.attributes,
    )
    for attributes in holders:
        for name, text in texts.items():
            attributes.add(key=name).value.string_value = text
        attributes.add(key="bytes").value.bytes_value = texts["note"].encode()
        attributes.add(key="list").value.array_value.values.add().string_value = texts["note"]
        attributes.add(key="map").value.kvlist_value.values.add(key="password").value.string_value = SECRETS["password"]
    return request


def planted_logs():
    logs = ExportLogsServiceRequest()
    record = logs.resource_logs.add().scope_logs.add().log_records.add(severity_text=SECRETS["token"])
    record.body.string_value = f"it said {SECRETS['key']}"
    record.attributes.add(key="password").value.string_value = SECRETS["password"]
    return logs


def as_json(request):
    document = json_format.MessageToDict(request)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId"):
            span[name] = span[name].encode().hex()[: 32 if name == "traceId" else 16]
    return json.dumps(document).replace("-", "\\u002d").encode()


@pytest.mark.parametrize("how", ["protobuf", "json", "gzip", "grpc", "logs"])
def test_no_secret_is_in_any_file_that_is_written(tmp_path, how):
    """Not in a segment, not in the lake, in no form, however it was sent."""
    with receiver(tmp_path, grpc="127.0.0.1:0") as made:
        port, data = made.http.bound.port, planted().SerializeToString()
        if how == "grpc":
            call(made.grpc.bound.port, data)
        elif how == "logs":
            assert post(port, planted_logs().SerializeToString(), path="/v1/logs")[0] == 200
        elif how == "json":
            assert post(port, as_json(planted()), content_type="application/json")[0] == 200
        elif how == "gzip":
            assert post(port, gzip.compress(data), headers=[("content-encoding", "gzip")])[0] == 200
        else:
            assert post(port, data)[0] == 200
    assert how == "logs" or len(kept_span_ids(tmp_path)) == 6
    assert found_in_folder(tmp_path, SECRETS) == {}
    sealer(tmp_path).seal(all_of_them=True)
    assert found_in_folder(tmp_path, SECRETS) == {}


@pytest.mark.parametrize("how", ["record", "pieces"])
def test_no_secret_comes_in_by_a_name_of_ours(tmp_path, how):
    """Who uses our recorder's attributes and masks nothing is masked; the run is whole, and its digests hold.

    In pieces of a span, while they wait to be joined, a secret is known by its shape alone, not by a field's name; and
    a mask may hide where fields end, so that the span is kept without its record.
    """
    told_by_name = {"password", "variable"} if how == "pieces" else set()
    request = TracesData()
    if how == "record":
        for span in forged_spans():
            request.resource_spans.append(resource_spans_of(span))
        sent = [request]
    else:
        sent = list(messages_of(forged_spans(padding="x" * 4_000), 8192))
        assert len(sent) > 3
    assert any(found_in(one.SerializeToString(), FORGED) for one in sent), "secrets were planted"
    with receiver(tmp_path) as made:
        for one in sent:
            assert post(made.http.bound.port, one.SerializeToString())[0] == 200
    known = {name: secret for name, secret in FORGED.items() if name not in told_by_name}
    assert found_in_folder(tmp_path, known) == {}
    sealer(tmp_path).seal(all_of_them=True)
    assert found_in_folder(tmp_path, FORGED) == {}
    assert len(span_ids(tmp_path)) >= 2
    if how == "pieces":
        return
    run = Lake(tmp_path).load(RUN_ID)
    (call_node,) = (node for node in run.nodes if node.kind is Kind.HTTP)
    for payload in (call_node.call.request, call_node.outcome.result):
        assert digest_of(run.payload(payload.digest)) == payload.digest
    assert b"[masked]" in run.payload(call_node.call.request.digest)
    assert not call_node.outcome.exact


def test_no_secret_is_imported_by_a_name_of_ours(tmp_path):
    """The same of a file that `agent-replay import` takes; the run says that something was masked."""
    write_spans(forged_spans(), tmp_path / "traces.jsonl")
    done = CliRunner().invoke(main, ["import", "--lake", str(tmp_path / "lake"), str(tmp_path / "traces.jsonl")])
    assert done.exit_code == 0, done.output
    assert found_in_folder(tmp_path / "lake", FORGED) == {}
    assert LossReason.REDACTED in {loss.reason for loss in Lake(tmp_path / "lake").load(RUN_ID).losses}

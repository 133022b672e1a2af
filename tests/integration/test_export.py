"""`agent-replay export`: runs as OTLP, and by `import` the same runs again, replayable exactly."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from otel_agent_replay.cli.main import main
from otel_agent_replay.errors import ExportRefused
from otel_agent_replay.export.otlp_http import OtlpHttpSender
from otel_agent_replay.export.sent_runs import runs_to_send, spans_to_send
from otel_agent_replay.imports.landing import land
from otel_agent_replay.imports.trace_structure import content_of
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import LossReason, RunStatus, Span
from otel_agent_replay.otlp.parts import PartJoiner, messages_of
from otel_agent_replay.otlp.runs import NOT_RECEIVED, run_of_own_spans, spans_of_run
from otel_agent_replay.otlp.spans import spans_of
from otel_agent_replay.replay.enclosed import Enclosure
from otel_agent_replay.replay.launch import replay_command
from otel_agent_replay.testing.provider import Reply, ScriptedProvider
from tests.support.agents import Script, assert_same

AGENT = """
    import sys, time, random, httpx
    import otel_agent_replay as replay

    @replay.tool(side_effect="read")
    def lookup(order):
        return {"order": order, "at": time.time(), "luck": random.random(), "text": "\\ud83d half", "page": "x" * 40000}

    @replay.agent(name="desk", version="7")
    def desk(url):
        found = lookup("17")
        with replay.step("ask"):
            with httpx.Client() as client:
                said = client.post(url, json={"model": "m", "messages": [{"role": "user", "content": found["page"]}]})
        replay.checkpoint("asked", {"order": "17"}, resumable=True)
        return said.json()["choices"][0]["message"]["content"] + str(found["luck"])

    print(desk(sys.argv[1]))
"""
ANSWER = {
    "id": "x", "object": "chat.completion", "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Record an agent in a child process once; return its script, arguments and sealed lake."""
    script = Script(tmp_path_factory.mktemp("desk"), AGENT)
    with ScriptedProvider([Reply.of_json(ANSWER)]) as provider:
        url = provider.url + "/v1/chat/completions"
        script.run(url)
    script.seal()
    (summary,) = Lake(script.lake).runs()
    return script, url, summary.run.run_id


def cli(*arguments: object):
    done = CliRunner().invoke(main, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.parametrize("name", ["run.json", "run.jsonl.gz", "run.binpb"])
def test_an_exported_run_is_the_same_run_elsewhere(recorded, tmp_path, name):
    """A run that goes out and comes in in another lake is equal in every fact, and its digests hold."""
    script, _, run_id = recorded
    cli("export", "--lake", script.lake, "--otlp", tmp_path / name, run_id.hex())
    cli("import", "--lake", tmp_path / "fresh", tmp_path / name)
    ours, theirs = Lake(script.lake).load(run_id), Lake(tmp_path / "fresh").load(run_id)
    assert theirs.run == ours.run
    assert theirs.spans == ours.spans
    assert theirs.manifest_digest == ours.manifest_digest
    assert theirs.kept == ours.kept
    cli("verify", "--lake", tmp_path / "fresh", run_id.hex())


def test_an_imported_run_of_ours_replays_exactly(recorded, tmp_path):
    """The lake that got it by OTLP replays it: same clock, chance and answers, the server gone."""
    script, url, run_id = recorded
    cli("export", "--lake", script.lake, "--otlp", tmp_path / "run.jsonl", run_id.hex()[:20])
    cli("import", "--lake", tmp_path / "fresh", tmp_path / "run.jsonl")
    verdict = replay_command(
        Lake(tmp_path / "fresh").load(run_id).run,
        [*script.argv, url],
        enclosure=Enclosure(tmp_path / "fresh", environment=script.environment, directory=script.folder),
    )
    assert_same(verdict)


def test_a_run_in_small_messages_comes_back_whole(recorded, tmp_path):
    """Spans beyond the size of a message are cut into pieces by bytes, in any order, and joined again."""
    script, _, run_id = recorded
    sent = list(spans_of_run(Lake(script.lake).stored_attempts(run_id)[0]))
    messages = list(messages_of(sent, 8192))
    assert len(messages) > 10
    assert all(message.ByteSize() <= 8192 for message in messages)
    pieces = [span for message in reversed(messages) for group in message.resource_spans for span in spans_of(group)]
    landed = land(tmp_path / "fresh", pieces, source="test")
    assert not landed.anomalies
    assert Lake(tmp_path / "fresh").load(run_id).spans == Lake(script.lake).load(run_id).spans


def test_a_piece_that_never_came_is_told(recorded, tmp_path):
    """Without one piece the span is left out, named, and the run says what is missing."""
    script, _, run_id = recorded
    messages = list(messages_of(spans_of_run(Lake(script.lake).stored_attempts(run_id)[0]), 8192))
    pieces = [span for message in messages for group in message.resource_spans for span in spans_of(group)]
    cut = next(at for at, span in enumerate(pieces) if "agent_replay.part" in span.attributes)
    landed = land(tmp_path / "fresh", pieces[:cut] + pieces[cut + 1 :], source="test")
    assert [str(one.code) for one in landed.anomalies] == ["unreadable"]
    (loss,) = (one for one in Lake(tmp_path / "fresh").load(run_id).losses if one.what == NOT_RECEIVED)
    assert (loss.reason, loss.count) == (LossReason.DROPPED, 1)
    land(tmp_path / "fresh", pieces, source="test")
    assert Lake(tmp_path / "fresh").load(run_id).spans == Lake(script.lake).load(run_id).spans
    assert not [one for one in Lake(tmp_path / "fresh").load(run_id).losses if one.what == NOT_RECEIVED]


def test_parts_of_our_run_that_come_apart_become_one(recorded, tmp_path):
    """Whichever spans come first, the root last or first, the run is whole in the end and there once."""
    script, _, run_id = recorded
    sent = list(spans_of_run(Lake(script.lake).stored_attempts(run_id)[0]))
    for place, cut in enumerate((sent[1:3], sent[:1], sent[3:], sent)):
        land(tmp_path / "fresh", cut, source="test")
        found = Lake(tmp_path / "fresh").runs()
        assert [one.run.run_id for one in found] == [run_id]
        assert (found[0].run.status is RunStatus.PENDING) is (place == 0)
    assert Lake(tmp_path / "fresh").load(run_id).spans == Lake(script.lake).load(run_id).spans
    assert Lake(tmp_path / "fresh").load(run_id).run == Lake(script.lake).load(run_id).run
    assert run_of_own_spans(reversed(sent)).run == Lake(script.lake).load(run_id).run


def test_large_values_of_others_pass_in_pieces(tmp_path):
    """A span of another instrumentation with a prompt of a megabyte is cut and joined like ours."""
    span = Span(b"\x07" * 16, b"\x07" * 8, "chat", 1, 2, attributes={"gen_ai.prompt": "y" * 1_000_000, "n": 7})
    joiner = PartJoiner()
    pieces = [
        piece for message in messages_of([span], 65536) for group in message.resource_spans for piece in spans_of(group)
    ]
    whole = [found for found in map(joiner.whole, pieces) if found is not None]
    assert len(pieces) > 15
    assert list(map(content_of, whole)) == [content_of(span)]
    with pytest.raises(ValueError, match="too small"):
        next(messages_of([span], 100))


# --- over HTTP ---


class Receiver:
    """An OTLP endpoint that answers as told, then takes everything."""

    def __init__(self, *answers: tuple[int, dict[str, str], bytes]) -> None:
        self.requests: list[tuple[dict[str, str], ExportTraceServiceRequest]] = []
        waiting = list(answers)
        received = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                message = ExportTraceServiceRequest.FromString(gzip.decompress(body))
                received.append((dict(self.headers), message))
                status, headers, answer = waiting.pop(0) if waiting else (200, {}, b"")
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_a_run_is_sent_to_an_endpoint(recorded, tmp_path, monkeypatch):
    """`--otlp URL` posts protobuf to /v1/traces with the headers given; what arrives is the run."""
    script, _, run_id = recorded
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b")
    with Receiver() as receiver:
        done = cli(
            "export", "--lake", script.lake, "--otlp", receiver.url, "--header", "x-key=k", "--json", run_id.hex()
        )
    said = json.loads(done.stdout)
    assert said["runs"] == [run_id.hex()]
    headers = receiver.requests[0][0]
    assert (headers["x-tenant"], headers["x-key"]) == ("a b", "k")
    spans = [one for _, message in receiver.requests for group in message.resource_spans for one in spans_of(group)]
    assert len(spans) == said["span_count"]
    assert run_of_own_spans(spans).spans == Lake(script.lake).load(run_id).spans


def test_a_busy_endpoint_is_asked_again_and_a_refusal_is_told():
    """503 and 429 are waited for as long as they say; 400 and partial success are errors with what was answered."""
    span = Span(b"\x07" * 16, b"\x07" * 8, "chat", 1, 2)
    message = next(messages_of([span]))
    waits: list[float] = []
    busy = [(503, {}, b""), (429, {"Retry-After": "3"}, b"")]
    with Receiver(*busy) as receiver:
        OtlpHttpSender(receiver.url + "/v1/traces", wait=waits.append).send(message)
    assert len(receiver.requests) == 3
    assert waits[1] == 3.0
    with Receiver((400, {}, b"bad tenant")) as receiver, pytest.raises(ExportRefused, match="bad tenant"):
        OtlpHttpSender(receiver.url, wait=waits.append).send(message)
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=1, error_message="too old")
    ).SerializeToString()
    with Receiver((200, {}, partial)) as receiver, pytest.raises(ExportRefused, match="all but 1 spans: too old"):
        OtlpHttpSender(receiver.url, wait=waits.append).send(message)


def test_an_endpoint_where_nobody_answers_is_given_up_in_seconds():
    """Who mistyped an address, or forgot to start the collector, is told so, and what the system said, at once."""
    message = next(messages_of([Span(b"\x07" * 16, b"\x07" * 8, "chat", 1, 2)]))
    waits: list[float] = []
    with pytest.raises(
        ExportRefused, match="nobody answers .* Connection refused; .*agent-replay collector"
    ) as refused:
        OtlpHttpSender("http://127.0.0.1:9", wait=waits.append).send(message)
    assert (waits, refused.value.may_try_again) == ([0.5, 1.0, 2.0], True)


def test_an_endpoint_that_has_answered_is_waited_for():
    """A receiver that is started anew while runs are sent gets its minute."""
    message = next(messages_of([Span(b"\x07" * 16, b"\x07" * 8, "chat", 1, 2)]))
    waits: list[float] = []
    with Receiver((200, {}, b"")) as receiver:
        sender = OtlpHttpSender(receiver.url, wait=waits.append)
        sender.send(message)
    with pytest.raises(ExportRefused, match="did not take the spans, 8 times asked"):
        sender.send(message)
    assert (len(waits), sum(waits)) == (7, 61.5)


@pytest.mark.parametrize("target", ["traces.txt", "ftp://127.0.0.1/traces.json"])
def test_a_target_that_is_neither_is_a_usage_error(tmp_path, target):
    """A name that is no address and no OTLP file ends with code 2 before anything is read."""
    done = CliRunner().invoke(main, ["export", "--lake", str(tmp_path), "--otlp", target, "0198"])
    assert done.exit_code == 2
    assert ".jsonl" in done.output


def test_a_file_that_cannot_be_written_is_a_usage_error(recorded, tmp_path):
    """It is named, with what the system says."""
    script, _, run_id = recorded
    target = str(tmp_path / "nowhere" / "run.jsonl")
    done = CliRunner().invoke(main, ["export", "--lake", str(script.lake), "--otlp", target, run_id.hex()])
    assert done.exit_code == 2
    assert f"cannot write '{target}': No such file" in done.output


def test_what_was_imported_goes_out_as_it_came(tmp_path):
    """Facts that the import found out are not on the spans that go out."""
    spans = [
        Span(b"\x07" * 16, b"\x01" * 8, "root", 10**18, 10**18 + 9),
        Span(b"\x07" * 16, b"\x02" * 8, "llm", 10**18 + 1, 10**18 + 3, b"\x01" * 8,
             attributes={"openinference.span.kind": "LLM", "llm.token_count.prompt": 3, "llm.model_name": "m"}),
    ]  # fmt: skip
    landed = land(tmp_path, spans, source="x.json")
    lake = Lake(tmp_path)
    assert lake.runs()[0].input_tokens == 3
    out = list(spans_to_send(lake, runs_to_send(lake, [landed.traces[0].run_id])))
    assert sorted(map(content_of, out)) == sorted(map(content_of, spans))


def test_a_file_is_whole_or_not_there(recorded, tmp_path, monkeypatch):
    """When reading a run fails in the middle, no half file is left."""
    script, _, run_id = recorded

    def broken(*_):
        yield Span(b"\x07" * 16, b"\x01" * 8, "a", 1, 2)
        raise OSError("disk gone")

    monkeypatch.setattr("otel_agent_replay.export.sent_runs.spans_of_run", broken)
    CliRunner().invoke(main, ["export", "--lake", str(script.lake), "--otlp", str(tmp_path / "a.jsonl"), run_id.hex()])
    assert not list(Path(tmp_path).iterdir())

"""What is kept of a request: the sender's bytes where they can stay, all else masked, repaired or refused."""

import gzip
import json
import zlib

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from otel_agent_replay_collector import fast_zlib
from otel_agent_replay_collector.access import Tokens
from otel_agent_replay_collector.admission import Admission
from otel_agent_replay_collector.refusal import Refused
from otel_agent_replay_collector.request_file import LOGS, TRACES
from otel_agent_replay_collector.scanner import HyperscanScanner, Re2Scanner

from otel_agent_replay.otlp.runs import spans_of_run
from otel_agent_replay.otlp.spans import resource_spans_of
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.payload.rules import rules_from
from tests.support.lake_runs import RunMaker
from tests.support.receiving import request_of, spans_of_request

MOST = 1 << 20
KEY = "sk-proj-abcdefghijklmnop0123456789"


@pytest.fixture(scope="module")
def admission():
    return Admission(most=MOST)


def kept(admission, data, kind=TRACES, *, is_json=False, gzipped=False):
    admitted = admission.thorough(data, kind, is_json=is_json, gzipped=gzipped)
    classes = {TRACES: ExportTraceServiceRequest, LOGS: ExportLogsServiceRequest}
    return admitted, classes[kind].FromString(data if admitted.data is None else admitted.data)


def test_a_clean_request_is_kept_as_it_came(admission):
    """Not a byte of it is changed, by either way of looking at it."""
    data = request_of(20).SerializeToString()
    quick = admission.at_once(memoryview(data), TRACES)
    assert (quick.items, quick.data) == (20, None)
    assert admission.thorough(data, TRACES, is_json=False, gzipped=False).data is None


def test_a_marker_that_means_nothing_changes_nothing(admission):
    """The quick way leaves it to the thorough one, which finds nothing to mask."""
    data = request_of(3, attributes={"question": 'where is my "token"= of thanks?'}).SerializeToString()
    assert admission.at_once(memoryview(data), TRACES) is None
    assert admission.thorough(data, TRACES, is_json=False, gzipped=False).data is None


def test_a_credential_is_masked_where_it_stands_and_nothing_else_is(admission):
    """One span of twenty held a key: the others are as they were."""
    request = request_of(20)
    spans_of_request(request)[7].attributes.add(key="note").value.string_value = f"use {KEY} for it"
    admitted, found = kept(admission, request.SerializeToString())
    assert admitted.masked
    assert KEY.encode() not in admitted.data
    changed = [
        one.span_id for one, two in zip(spans_of_request(request), spans_of_request(found), strict=True) if one != two
    ]
    assert changed == [spans_of_request(request)[7].span_id]


def test_a_secret_that_one_span_gives_away_is_masked_in_all(admission):
    """The password of a URL in one span stands, by itself, in another one."""
    request = request_of(9)
    spans = spans_of_request(request)
    spans[0].attributes.add(key="url.full").value.string_value = "https://ann:opensesame9@db.example.org/x"
    spans[8].attributes.add(key="note").value.string_value = "she said opensesame9 aloud"
    admitted, _ = kept(admission, request.SerializeToString())
    assert b"opensesame9" not in admitted.data


def test_what_our_own_recorder_sent_stays_byte_for_byte(admission):
    """Its digests were made after masking, and must still fit: masking again changes nothing."""
    recorder = Redaction.default()
    run = RunMaker()
    body = recorder.body(
        b'{"api_key": "hunter2hunter2", "messages": [{"content": "' + KEY.encode() + b'"}]}', "application/json"
    )
    run.model([{"role": "user", "content": body.decode()}], body)
    sent = list(spans_of_run(run.run()))
    request = TracesData()
    for span in sent:
        request.resource_spans.append(resource_spans_of(span))
    data = request.SerializeToString()
    assert admission.at_once(memoryview(data), TRACES) is None, "it is looked into"
    admitted = admission.thorough(data, TRACES, is_json=False, gzipped=False)
    assert (admitted.data, admitted.masked) == (None, False)


def test_rules_of_a_receiver_do_not_reach_what_our_own_recorder_sent():
    """A replay masks by the rules of its recording; by others its requests would not match."""
    admission = Admission(most=MOST, rules=rules_from([{"action": "mask", "preset": "email"}]))
    run = RunMaker()
    run.model([{"role": "user", "content": "ann@example.org"}], b'{"choices": []}')
    request = TracesData()
    for span in spans_of_run(run.run()):
        request.resource_spans.append(resource_spans_of(span))
    admitted = admission.thorough(request.SerializeToString(), TRACES, is_json=False, gzipped=False)
    assert admitted.data is None or b"ann@example.org" in admitted.data


def test_rules_of_the_users_apply_too():
    """With rules of one's own every request is looked into."""
    admission = Admission(most=MOST, rules=rules_from([{"action": "mask", "preset": "email"}]))
    data = request_of(2, attributes={"who": "ann@example.org"}).SerializeToString()
    assert admission.at_once(memoryview(data), TRACES) is None
    assert b"ann@example.org" not in admission.thorough(data, TRACES, is_json=False, gzipped=False).data


def test_fields_that_otlp_does_not_know_are_left_out_of_what_is_looked_into(admission):
    """Nobody can say what they hold."""
    data = request_of(1).SerializeToString() + b"\x7a" + bytes([len(KEY)]) + KEY.encode()
    assert KEY.encode() not in admission.thorough(data, TRACES, is_json=False, gzipped=False).data


@pytest.mark.parametrize("data", [b"nonsense", b"\x0a\xff\xff\xff\x7f", b"\xff" * 20])
def test_what_is_no_request_is_refused(admission, data):
    """With a code that tells the sender not to send it again."""
    assert admission.at_once(memoryview(data), TRACES) is None
    with pytest.raises(Refused) as refused:
        admission.thorough(data, TRACES, is_json=False, gzipped=False)
    assert (refused.value.code, refused.value.http, refused.value.retry_s) == (3, 400, None)


def test_a_broken_span_is_left_out_and_the_rest_kept(admission):
    """The sender is told how many were rejected."""
    whole = request_of(8)
    text = "A" * 40
    spans_of_request(whole)[3].attributes.add(key="bad").value.string_value = text
    data = whole.SerializeToString().replace(text.encode(), b"\xff" * 40)  # no UTF-8
    admitted, found = kept(admission, data)
    assert (admitted.items, admitted.rejected) == (7, 1)
    assert [span.name for span in spans_of_request(found)] == [f"step {number}" for number in range(8) if number != 3]
    assert admitted.answer().partial_success.rejected_spans == 1


def json_request(*spans):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


SPAN = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "name": "x",
    "kind": 2,
    "startTimeUnixNano": "7",
}


def test_json_is_kept_as_the_message_that_it_stands_for(admission):
    """Hexadecimal ids, numbers as texts, unknown fields passed over, half a surrogate pair escaped."""
    span = {**SPAN, "later": 1, "attributes": [{"key": "k", "value": {"stringValue": "cut \ud83d"}}]}
    _, found = kept(admission, json_request(span), is_json=True)
    (one,) = spans_of_request(found)
    assert (one.trace_id.hex(), one.span_id.hex(), one.kind) == (SPAN["traceId"], SPAN["spanId"], 2)
    assert one.start_time_unix_nano == 7
    assert one.attributes[0].value.string_value == "cut \\ud83d"


def test_of_json_a_bad_span_is_left_out_and_the_rest_kept(admission):
    """As with protobuf."""
    admitted, found = kept(admission, json_request(SPAN, {**SPAN, "startTimeUnixNano": "soon"}, 7), is_json=True)
    assert (admitted.rejected, len(spans_of_request(found))) == (2, 1)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'"x"', b"\xff", b'{"resourceSpans": 7}', b'{"resourceSpans": [7]}', b"[" * 100_000]
)
def test_what_is_no_json_request_is_refused(admission, data):
    """Also what is nested without end."""
    with pytest.raises(Refused) as refused:
        admission.thorough(data, TRACES, is_json=True, gzipped=False)
    assert refused.value.http == 400


def test_an_escape_hides_no_credential_in_json(admission):
    """A dash may be written by its number."""
    data = json_request({**SPAN, "name": KEY}).replace(b"-", b"\\u002d")
    admitted, _ = kept(admission, data, is_json=True)
    assert KEY.encode() not in admitted.data


@pytest.mark.parametrize("library", ["isal", "zlib"])
def test_gzip_is_unpacked_within_its_bound(admission, library, monkeypatch):
    """Also of several members; a bomb is refused when it has grown too large, and not kept; by either library."""
    if library == "zlib":
        monkeypatch.setattr(fast_zlib, "decompressor", zlib.decompressobj)
    data = request_of(20).SerializeToString()
    packed = gzip.compress(data[:100]) + gzip.compress(data[100:])
    _, found = kept(admission, packed, gzipped=True)
    assert found == ExportTraceServiceRequest.FromString(data)
    with pytest.raises(Refused) as refused:
        admission.thorough(gzip.compress(bytes(MOST * 50)), TRACES, is_json=False, gzipped=True)
    assert refused.value.http == 413
    for bad in (b"no gzip", packed[:-9], packed[:50]):
        with pytest.raises(Refused) as refused:
            admission.thorough(bad, TRACES, is_json=False, gzipped=True)
        assert refused.value.http == 400


def test_log_records_are_masked_too(admission):
    """Body, attributes and names."""
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(event_name="gen_ai.choice")
    record.body.kvlist_value.values.add(key="password").value.string_value = "hunter2hunter2"
    record.attributes.add(key="note").value.string_value = KEY
    admitted, _ = kept(admission, request.SerializeToString(), LOGS)
    assert b"hunter2" not in admitted.data
    assert KEY.encode() not in admitted.data


def test_both_scanners_say_the_same():
    """Of clean texts, of markers, of what only looks like one."""
    scanners = [HyperscanScanner(), Re2Scanner()]
    texts = [
        b"",
        b"plain",
        KEY.encode(),
        b'"PassWord":',
        b"a monkey",
        b"key\x12",
        b"Bearer " + b"x" * 20,
        b"\xff\xfekey",
        b"http://a@b",
    ]
    for text in texts:
        assert len({scanner.may_hold(text) for scanner in scanners}) == 1, text


def test_tokens_are_known_whole_and_by_their_scheme():
    """No prefix, no other scheme, no other case of the token; without tokens everybody may send."""
    tokens = Tokens(["first-token-of-two", "second-token-of-two"])
    assert tokens.allow(b"Bearer second-token-of-two")
    assert tokens.allow(b"bearer first-token-of-two")
    for bad in (
        b"",
        b"Bearer ",
        b"first-token-of-two",
        b"Basic first-token-of-two",
        b"Bearer first-token-of-tw",
        b"Bearer FIRST-token-of-two",
    ):
        assert not tokens.allow(bad)
    assert Tokens([]).allow(b"")

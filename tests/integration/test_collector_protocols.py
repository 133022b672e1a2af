"""A receiver by both protocols: what it acknowledges is on disk, what it refuses is told in the protocol's words."""

import gzip
import json
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_agent_replay.errors import ConfigurationError
from tests.support.certificates import certificates
from tests.support.receiving import (
    call,
    get,
    kept_requests,
    kept_span_ids,
    post,
    read_answer,
    receiver,
    request_of,
    spans_of_request,
    until,
)

BODY = request_of(5).SerializeToString()
IDS = [span.span_id for span in spans_of_request(ExportTraceServiceRequest.FromString(BODY))]
TOKEN = "a-token-of-some-length"
TOO_LONG = b"POST /v1/traces HTTP/1.1\r\ncontent-length: 99999999999\r\ncontent-type: application/json\r\n\r\n"


def status_of(answer):
    return status_pb2.Status.FromString(answer[2])


def retry_s(status):
    info = error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(info)
    return info.retry_delay.seconds + info.retry_delay.nanos / 1e9


# --- real SDKs ---


def exporters(made, what):
    if what == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return GrpcExporter(endpoint=f"http://127.0.0.1:{made.grpc.bound.port}", insecure=True)
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    compression = Compression.Gzip if what == "gzip" else Compression.NoCompression
    return OTLPSpanExporter(endpoint=f"http://127.0.0.1:{made.http.bound.port}/v1/traces", compression=compression)


@pytest.mark.parametrize("what", ["grpc", "http", "gzip"])
def test_the_sdk_of_opentelemetry_sends_to_it(tmp_path, what):
    """Every span of the Python SDK arrives once, by each of its exporters."""
    with receiver(tmp_path, grpc="127.0.0.1:0") as made:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(exporters(made, what)))
        tracer = provider.get_tracer("tests")
        sent = []
        for number in range(700):  # more than a batch
            with tracer.start_as_current_span(f"step {number}", attributes={"number": number}) as span:
                sent.append(span.get_span_context().span_id.to_bytes(8, "big"))
        provider.shutdown()
        signal = f'protocol="{"grpc" if what == "grpc" else "http"}",signal="traces"'
        assert made.tally.get("requests", signal) >= 2
    assert sorted(kept_span_ids(tmp_path)) == sorted(sent)


# --- HTTP ---


@pytest.mark.parametrize(("content_type", "empty"), [("application/x-protobuf", b""), ("application/json", b"{}")])
def test_a_request_is_on_disk_when_it_is_acknowledged(tmp_path, content_type, empty):
    """In both encodings the answer is of the same type as the request, and the request lies in a file."""
    from google.protobuf import json_format

    with receiver(tmp_path) as made:
        body = BODY
        if content_type == "application/json":
            document = json_format.MessageToDict(ExportTraceServiceRequest.FromString(BODY))
            body = json.dumps(document).encode()  # ids in base64, as protobuf's own JSON has them: taken, too
        status, headers, answer = post(made.http.bound.port, body, content_type=content_type)
        assert (status, headers["content-type"], answer) == (200, content_type, empty)
        segments = list((tmp_path / "received").glob("*.open"))
        assert IDS[0] in segments[0].read_bytes()
    assert kept_span_ids(tmp_path) == IDS


def test_a_connection_serves_many_requests_one_after_the_other_and_at_once(tmp_path):
    """Kept alive; also when the next request is sent before the first was answered, or in pieces."""
    head = f"POST /v1/traces HTTP/1.1\r\ncontent-type: application/x-protobuf\r\ncontent-length: {len(BODY)}\r\n\r\n"
    with receiver(tmp_path) as made, socket.create_connection(("127.0.0.1", made.http.bound.port)) as sock:
        sock.settimeout(20)
        for at in range(0, len(head), 7):
            sock.sendall(head.encode()[at : at + 7])
        sock.sendall(BODY[:100])
        sock.sendall(BODY[100:] + (head.encode() + BODY) * 2)
        answers = b""
        while answers.count(b"HTTP/1.1 200 OK") < 3:
            answers += sock.recv(4096)
    assert kept_span_ids(tmp_path) == IDS * 3


def test_a_body_in_chunks_is_taken(tmp_path):
    """As senders have it that do not know the length beforehand, also packed."""
    with receiver(tmp_path) as made:
        for body, more in ((BODY, ""), (gzip.compress(BODY), "content-encoding: gzip\r\n")):
            parts = [body[at : at + 99] for at in range(0, len(body), 99)]
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
            head = f"POST /v1/traces HTTP/1.1\r\ncontent-type: application/x-protobuf\r\n{more}"
            head += "transfer-encoding: chunked\r\n\r\n"
            status, _, _ = post(made.http.bound.port, chunks + b"0\r\n\r\n", raw_head=head.encode())
            assert status == 200
    assert kept_span_ids(tmp_path) == IDS * 2


def test_it_says_whether_to_go_on_before_a_large_body(tmp_path):
    """`Expect: 100-continue` is answered, and the body taken then."""
    with receiver(tmp_path) as made, socket.create_connection(("127.0.0.1", made.http.bound.port)) as sock:
        sock.settimeout(20)
        head = f"content-type: application/x-protobuf\r\ncontent-length: {len(BODY)}\r\nexpect: 100-continue\r\n\r\n"
        sock.sendall(f"POST /v1/traces HTTP/1.1\r\n{head}".encode())
        assert sock.recv(100).startswith(b"HTTP/1.1 100 ")
        sock.sendall(BODY)
        assert read_answer(sock)[0] == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"path": "/v1/metrics"}, 404),
        ({"content_type": "text/plain"}, 415),
        ({"headers": [("content-encoding", "br")]}, 415),
        ({"raw_head": b"NONSENSE\r\n\r\n"}, 400),
        ({"raw_head": b"PUT /v1/traces HTTP/1.1\r\ncontent-length: 0\r\n\r\n"}, 405),
        ({"raw_head": b"x" * 20_000}, 431),
        ({"raw_head": TOO_LONG}, 413),
    ],
)
def test_what_is_not_received_here_is_told(tmp_path, change, status):
    """With a status that is never to be tried again, and the connection's next user is served."""
    with receiver(tmp_path) as made:
        answer = post(made.http.bound.port, BODY, **change)
        assert answer[0] == status
        assert "retry-after" not in answer[1]
        assert post(made.http.bound.port, BODY)[0] == 200
    assert kept_span_ids(tmp_path) == IDS


def test_what_cannot_be_decoded_is_refused_with_a_status_in_its_own_encoding(tmp_path):
    """Code 3 (invalid argument), as protobuf and as JSON."""
    with receiver(tmp_path) as made:
        answer = post(made.http.bound.port, b"\xff\xff")
        assert (answer[0], status_of(answer).code) == (400, 3)
        answer = post(made.http.bound.port, b"{", content_type="application/json")
        assert (answer[0], json.loads(answer[2])["code"]) == (400, 3)
    assert kept_requests(tmp_path) == []


def test_a_bad_span_among_good_ones_is_a_partial_success(tmp_path):
    """The good ones are kept, and the answer counts the others."""
    body = BODY.replace(b"step 3", b"step \xff")
    with receiver(tmp_path, grpc="127.0.0.1:0") as made:
        status, _, answer = post(made.http.bound.port, body)
        partial = ExportTraceServiceResponse.FromString(answer).partial_success
        assert (status, partial.rejected_spans) == (200, 1)
        partial = ExportTraceServiceResponse.FromString(call(made.grpc.bound.port, body)).partial_success
        assert partial.rejected_spans == 1
        assert made.tally.get("rejected_items") == 2
    assert kept_span_ids(tmp_path) == [*IDS[:3], IDS[4]] * 2


# --- bounds ---


def test_senders_wait_when_too_much_waits_to_be_sealed(tmp_path):
    """By each protocol's own means, with a time to come again; it is not ready meanwhile, and takes more afterwards."""
    large = request_of(2000, text_bytes=1000).SerializeToString()
    with receiver(tmp_path, grpc="127.0.0.1:0", max_waiting_mb=2, retry_s=7, segment_s=0.01) as made:
        port = made.http.bound.port
        assert post(port, large)[0] == 200
        answer = until(lambda: (found := post(port, BODY))[0] == 429 and found)
        assert answer[1]["retry-after"] == "7"
        assert (status_of(answer).code, retry_s(status_of(answer))) == (8, 7)
        assert get(port, "/readyz")[0] == 503
        assert get(port, "/healthz")[0] == 200
        with pytest.raises(grpc.RpcError) as refused:
            call(made.grpc.bound.port, BODY)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
        assert retry_s(status_pb2.Status.FromString(details)) == 7
        for path in until(lambda: list((tmp_path / "received").glob("*.requests"))):
            path.unlink()
        until(lambda: post(port, BODY)[0] == 200)
        assert get(port, "/readyz")[0] == 200


def test_a_call_too_many_is_told_when_to_come_again(tmp_path, monkeypatch):
    """Beyond the calls that may be under way, one more is refused at once with RetryInfo; the others are served."""
    from otel_agent_replay_collector import grpc_front

    monkeypatch.setattr(grpc_front, "_MOST_AT_ONCE", 2)
    with receiver(tmp_path, grpc="127.0.0.1:0") as made:
        may_go_on = threading.Event()
        real = made.grpc.export
        monkeypatch.setattr(
            made.grpc, "export", lambda kind, data, context: (may_go_on.wait(), real(kind, data, context))[1]
        )
        with ThreadPoolExecutor(2) as senders:
            port = made.grpc.bound.port
            waiting = [senders.submit(call, port, BODY) for _ in range(2)]
            until(lambda: made.grpc.is_crowded)
            for _ in range(3):
                with pytest.raises(grpc.RpcError) as refused:
                    call(port, BODY)
                assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
                assert retry_s(status_pb2.Status.FromString(details)) == 1
            may_go_on.set()
            for one in waiting:
                one.result()
        assert made.tally.get("refused_requests", 'reason="calls"') == 3
        until(lambda: not made.grpc.is_crowded)
        call(port, BODY)
    assert kept_span_ids(tmp_path) == IDS * 3


def test_a_request_larger_than_it_may_be_is_refused_before_it_is_read(tmp_path):
    """Also when it only grows so large when it is unpacked; others' requests are served."""
    with receiver(tmp_path, grpc="127.0.0.1:0", max_request_mb=1) as made:
        port = made.http.bound.port
        bomb = gzip.compress(bytes(200 << 20), 1)
        assert post(port, bytes((1 << 20) + 1))[0] == 413
        assert post(port, bomb, headers=[("content-encoding", "gzip")])[0] == 413
        with pytest.raises(grpc.RpcError) as refused:
            call(made.grpc.bound.port, bytes(100 << 20), compression=grpc.Compression.Gzip)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as refused:
            call(made.grpc.bound.port, bytes(3 << 20))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # gRPC's own answer, before it is read
        assert post(port, BODY)[0] == 200
        call(made.grpc.bound.port, BODY, compression=grpc.Compression.Gzip)
    assert kept_span_ids(tmp_path) == IDS * 2


def test_while_the_disk_is_full_senders_are_told_to_come_again(tmp_path, monkeypatch):
    """503 and UNAVAILABLE with a time; nothing refused is kept, and it goes on by itself when there is room again."""
    from otel_agent_replay_collector import request_segment

    real, is_full = request_segment.os.pwrite, [True]

    def pwrite(fd, data, at):
        if is_full[0]:
            raise OSError(28, "No space left on device")
        return real(fd, data, at)

    monkeypatch.setattr(request_segment.os, "pwrite", pwrite)
    with receiver(tmp_path, grpc="127.0.0.1:0") as made:
        answer = post(made.http.bound.port, BODY)
        assert (answer[0], answer[1]["retry-after"], status_of(answer).code) == (503, "5", 14)
        with pytest.raises(grpc.RpcError) as refused:
            call(made.grpc.bound.port, BODY)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert get(made.http.bound.port, "/readyz")[0] == 503
        is_full[0] = False
        until(lambda: post(made.http.bound.port, BODY)[0] == 200)
        assert made.intake.pool.used == 0
    assert kept_span_ids(tmp_path) == IDS


def test_memory_and_connections_have_bounds(tmp_path):
    """Beyond them a sender is told to come again, and those who were first are served."""
    body = request_of(900, text_bytes=1000).SerializeToString()
    head = f"POST /v1/traces HTTP/1.1\r\ncontent-type: application/x-protobuf\r\ncontent-length: {len(body)}\r\n\r\n"
    with receiver(tmp_path, max_in_flight_mb=1, max_connections=2) as made:
        port = made.http.bound.port
        with socket.create_connection(("127.0.0.1", port), timeout=20) as first:
            first.sendall(head.encode() + body[:1000])
            until(lambda: made.intake.pool.used)
            answer = post(port, body)
            assert (answer[0], retry_s(status_of(answer))) == (429, 1)
            with socket.create_connection(("127.0.0.1", port), timeout=20) as second:
                until(lambda: made.http.connections == 2)
                with socket.create_connection(("127.0.0.1", port), timeout=20) as third:
                    assert read_answer(third)[0] == 429
                second.close()
            first.sendall(body[1000:])
            assert read_answer(first)[0] == 200
    assert len(kept_span_ids(tmp_path)) == 900


def test_slow_and_half_open_senders_are_closed_and_keep_nobody_waiting(tmp_path):
    """A head or a body that does not come, or comes drop by drop, ends with 408 or a closed connection."""
    head = b"POST /v1/traces HTTP/1.1\r\ncontent-type: application/x-protobuf\r\ncontent-length: 100000\r\n\r\n"
    with receiver(tmp_path, request_s=0.3, idle_s=0.6) as made:
        port = made.http.bound.port
        stuck = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(4)]
        for sock, sent in zip(stuck, (b"", b"POST /v1", head, head + b"x" * 500), strict=True):
            sock.sendall(sent)
        assert post(port, BODY)[0] == 200
        answers = []
        for sock in stuck:
            with sock:
                answers.append(sock.recv(100)[:12])
        assert answers == [b"", *[b"HTTP/1.1 408"] * 3]
        until(lambda: made.http.connections == 0)
        assert made.intake.pool.used == 0
    assert kept_span_ids(tmp_path) == IDS


def test_a_sender_that_goes_away_in_the_middle_leaves_nothing_behind(tmp_path):
    """No request, no memory, no connection; one that was whole is kept although nobody hears the answer."""
    head = f"POST /v1/traces HTTP/1.1\r\ncontent-type: application/x-protobuf\r\ncontent-length: {len(BODY)}\r\n\r\n"
    with receiver(tmp_path) as made:
        for part in (BODY[:50], BODY):
            with socket.create_connection(("127.0.0.1", made.http.bound.port)) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # close with a reset
                sock.sendall(head.encode() + part)
                if part is BODY:
                    until(lambda: made.tally.get("acknowledged_requests"))
        until(lambda: made.http.connections == 0)
        assert made.intake.pool.used == 0
    assert kept_span_ids(tmp_path) == IDS


def test_it_ends_in_order(tmp_path):
    """What was begun is finished, what comes then is refused, and everything acknowledged is in closed files."""
    with receiver(tmp_path, grpc="127.0.0.1:0") as made:
        assert post(made.http.bound.port, BODY)[0] == 200
        made.intake.ending = True
        answer = post(made.http.bound.port, BODY)
        assert (answer[0], answer[1]["retry-after"]) == (503, "1")
        with pytest.raises(grpc.RpcError) as refused:
            call(made.grpc.bound.port, BODY)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert kept_span_ids(tmp_path) == IDS
    assert list((tmp_path / "received").glob("*.open")) == []


# --- who may send ---


def test_senders_need_a_token_where_there_are_some(tmp_path):
    """By both protocols; health needs none."""
    file = tmp_path / "tokens"
    file.write_text(f"# of the desk\n{TOKEN}\n")
    with receiver(tmp_path / "lake", grpc="127.0.0.1:0", token_file=file) as made:
        port = made.http.bound.port
        answer = post(port, BODY)
        assert (answer[0], answer[1]["www-authenticate"], status_of(answer).code) == (401, "Bearer", 16)
        assert post(port, BODY, headers=[("authorization", f"Bearer {TOKEN}x")])[0] == 401
        assert post(port, BODY, headers=[("authorization", f"Bearer {TOKEN}")])[0] == 200
        assert get(port, "/healthz")[0] == 200
        with pytest.raises(grpc.RpcError) as refused:
            call(made.grpc.bound.port, BODY, metadata=[("authorization", "Bearer no")])
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        call(made.grpc.bound.port, BODY, metadata=[("authorization", f"Bearer {TOKEN}")])
    assert kept_span_ids(tmp_path / "lake") == IDS * 2


def test_short_tokens_and_files_without_one_are_refused(tmp_path):
    """Before anything is listened on."""
    file = tmp_path / "tokens"
    for text, said in (("short\n", "fewer than 16"), ("# none\n", "holds no token")):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=said), receiver(tmp_path / "lake", token_file=file):
            pass


def test_tls_and_certificates_of_senders(tmp_path):
    """Both protocols are served by TLS, and with a client authority only to those who have its certificate."""
    made_certificates = certificates(tmp_path / "keys")
    files = {
        "tls_certificate": made_certificates.server,
        "tls_key": made_certificates.server_key,
        "tls_client_ca": made_certificates.authority,
    }
    with receiver(tmp_path / "lake", grpc="127.0.0.1:0", http="127.0.0.1:0", **files) as made:
        context = ssl.create_default_context(cafile=made_certificates.authority)
        with socket.create_connection(("127.0.0.1", made.http.bound.port), timeout=20) as bare, pytest.raises(OSError):
            with context.wrap_socket(bare, server_hostname="localhost") as sock:
                post(0, BODY, sock=sock)
        context.load_cert_chain(made_certificates.client, made_certificates.client_key)
        with socket.create_connection(("127.0.0.1", made.http.bound.port), timeout=20) as bare:
            with context.wrap_socket(bare, server_hostname="localhost") as sock:
                assert post(0, BODY, sock=sock)[0] == 200
                large = request_of(2000, text_bytes=1000).SerializeToString()
                assert post(0, large, sock=sock)[0] == 200
        authority = made_certificates.authority.read_bytes()
        with pytest.raises(grpc.RpcError):
            call(made.grpc.bound.port, BODY, credentials=grpc.ssl_channel_credentials(authority))
        pair = made_certificates.client_key.read_bytes(), made_certificates.client.read_bytes()
        call(made.grpc.bound.port, BODY, credentials=grpc.ssl_channel_credentials(authority, *pair))
    assert len(kept_span_ids(tmp_path / "lake")) == 2 * len(IDS) + 2000


def test_an_address_that_is_taken_is_told(tmp_path):
    """By both protocols, as an error of configuration."""
    with receiver(tmp_path / "one", grpc="127.0.0.1:0") as made:
        for taken in ({"http": str(made.http.bound)}, {"grpc": str(made.grpc.bound)}):
            with pytest.raises(ConfigurationError, match="cannot listen on"), receiver(tmp_path / "two", **taken):
                pass


# --- what it says of itself ---


def test_its_metrics_tell_what_came_and_what_became_of_it(tmp_path):
    """In Prometheus' text form."""
    with receiver(tmp_path) as made:
        port = made.http.bound.port
        post(port, BODY)
        post(port, b"\xff")
        status, headers, body = get(port, "/metrics")
        lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert lines['agent_replay_collector_acknowledged_items_total{signal="traces"}'] == "5"
    assert lines['agent_replay_collector_refused_requests_total{reason="invalid"}'] == "1"
    assert lines["agent_replay_collector_received_bytes_total"] == str(len(BODY) + 1)
    assert float(lines["agent_replay_collector_waiting_bytes"]) > 0
    assert time.time() - float(lines["agent_replay_collector_start_time_seconds"]) < 600


def test_grpc_tells_its_health(tmp_path):
    """By the standard service, SERVING until it ends."""
    with receiver(tmp_path, http="off", grpc="127.0.0.1:0") as made:
        with grpc.insecure_channel(f"127.0.0.1:{made.grpc.bound.port}") as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            assert check(b"") == b"\x08\x01"
            made.intake.ending = True
            assert check(b"") == b"\x08\x02"

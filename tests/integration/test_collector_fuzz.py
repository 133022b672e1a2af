"""Whatever comes in: no crash, no hang, a clear status, and everybody else's requests are served."""

import random
import socket
import threading

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otel_agent_replay_collector.admission import Admission
from otel_agent_replay_collector.refusal import Refused
from otel_agent_replay_collector.request_file import LOGS, TRACES

from tests.support.fuzzing import body, mutated, storm
from tests.support.receiving import call, kept_span_ids, post, receiver, request_of, spans_of_request, until

STATUSES = {200, 400, 404, 405, 408, 413, 415, 429, 431, 501, 503}
GOOD = request_of(3, 99)
CONNECTIONS = 4 * settings.default.max_examples
"""A hundred and sixty in an ordinary run, thousands by `make fuzz`."""
ADMISSION = Admission(most=1 << 20)


@pytest.mark.parametrize("seed", range(2))
def test_hostile_connections_disturb_nobody(tmp_path, seed):
    """Between any two of them a good request is acknowledged, and all good ones are on disk afterwards."""
    with receiver(tmp_path, max_request_mb=4, request_s=2) as made:
        port = made.http.bound.port

        def good(number):
            if number % 5 == 0:
                assert post(port, GOOD.SerializeToString())[0] == 200

        answers = storm(port, seed, CONNECTIONS, good)
        statuses = {int(answer[9:12]) for answer in answers if answer}
        assert statuses <= STATUSES
        assert {200, 400} <= statuses
        until(lambda: made.http.connections == 0)
        assert made.intake.pool.used == 0
    good_id = spans_of_request(GOOD)[0].span_id
    assert kept_span_ids(tmp_path).count(good_id) == CONNECTIONS // 5


def test_hostile_calls_disturb_nobody(tmp_path):
    """The same by gRPC: any bytes, packed or not, while others send."""
    draw = random.Random(5)
    with receiver(tmp_path, http="off", grpc="127.0.0.1:0", max_request_mb=4) as made:
        port, codes, good = made.grpc.bound.port, set(), []
        ended = threading.Event()

        def send_good():
            while not ended.is_set():
                call(port, GOOD.SerializeToString())
                good.append(1)

        sender = threading.Thread(target=send_good)
        sender.start()
        for _ in range(CONNECTIONS // 3):
            data = body(draw)[0]
            with socket.create_connection(("127.0.0.1", port), timeout=20) as bare:  # no gRPC at all, or its beginning
                bare.sendall(
                    draw.choice([b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]) + draw.randbytes(draw.randrange(200))
                )
            try:
                call(port, data, compression=draw.choice([None, grpc.Compression.Gzip, grpc.Compression.Deflate]))
            except grpc.RpcError as error:
                codes.add(error.code().name)
        ended.set()
        sender.join()
        assert codes <= {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
        assert made.intake.pool.used == 0
    assert kept_span_ids(tmp_path).count(spans_of_request(GOOD)[0].span_id) == len(good)


@settings(deadline=None)
@given(data=st.binary(max_size=300), kind=st.sampled_from([TRACES, LOGS]), is_json=st.booleans(), gzipped=st.booleans())
def test_any_bytes_are_admitted_or_refused(data, kind, is_json, gzipped):
    """Nothing else happens."""
    admitted_or_refused(data, kind, is_json=is_json, gzipped=gzipped)


@settings(deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_what_is_left_of_a_broken_request_can_be_read_again(seed):
    """Whatever is admitted of it is a whole message with as many spans as are told."""
    draw = random.Random(seed)
    data = mutated(draw, request_of(6, seed, text_bytes=100).SerializeToString())
    admitted = admitted_or_refused(data, TRACES, is_json=False, gzipped=False)
    if admitted is not None:
        message = ExportTraceServiceRequest.FromString(data if admitted.data is None else admitted.data)
        assert len(spans_of_request(message)) == admitted.items


def admitted_or_refused(data, kind, *, is_json, gzipped):
    try:
        return ADMISSION.thorough(data, kind, is_json=is_json, gzipped=gzipped)
    except Refused as refused:
        assert refused.http in (400, 413)
        return None

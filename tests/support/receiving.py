"""A receiver under test: in this process on free ports, or as the command in one of its own, and what is sent to it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otel_agent_replay_collector.options import CollectorOptions
from otel_agent_replay_collector.request_file import RequestSegment, closed_segments
from otel_agent_replay_collector.service import Receiver

TRACES_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def request_of(count, seed=0, *, trace_id=None, attributes=None, text_bytes=0, plain=False):
    """A request with `count` spans, seeded; each trace has up to eight of them unless one is given.

    They are calls of a model, or with `plain` no agent's.
    """
    draw = random.Random(seed)
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "desk"
    scoped = group.scope_spans.add()
    scoped.scope.name = "tests"
    for number in range(count):
        if number % 8 == 0:
            trace, root = trace_id or draw.randbytes(16), b""
        span = scoped.spans.add(trace_id=trace, span_id=draw.randbytes(8), parent_span_id=root, name=f"step {number}")
        root = root or span.span_id
        span.start_time_unix_nano = 1_760_000_000_000_000_000 + seed * 1_000_000 + number
        span.end_time_unix_nano = span.start_time_unix_nano + 1_000 * (9 - number % 8)  # children within their parent
        told = {} if plain else {"gen_ai.operation.name": "chat"}
        for key, value in {**told, "number": str(number), **(attributes or {})}.items():
            span.attributes.add(key=key).value.string_value = value
        if text_bytes:
            span.attributes.add(key="text").value.string_value = "word " * (text_bytes // 5)
    return request


def spans_of_request(request):
    return [span for group in request.resource_spans for scoped in group.scope_spans for span in scoped.spans]


@contextlib.contextmanager
def receiver(lake, *, http="127.0.0.1:0", grpc="off", **options):
    """A receiver in this process, without a sealer."""
    given = {name: str(value) for name, value in options.items()}
    made = Receiver(CollectorOptions.load({"lake": str(lake), "http": http, "grpc": grpc, **given}, environment={}))
    made.start()
    try:
        yield made
    finally:
        made.stop()


def post(port, body, *, path="/v1/traces", content_type="application/x-protobuf", headers=(), raw_head=None, sock=None):
    """One request. Returns (status, headers, body)."""
    with contextlib.ExitStack() as stack:
        if sock is None:
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        head = (
            raw_head
            or (
                f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
                + "".join(f"{name}: {value}\r\n" for name, value in headers)
                + "\r\n"
            ).encode()
        )
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # an answer may come before all is sent
            sock.sendall(head + body)
        return read_answer(sock)


def get(port, path):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nhost: here\r\n\r\n".encode())
        return read_answer(sock)


def read_answer(sock):
    """Read one answer from a socket."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            raise ConnectionError(f"closed after {data!r}")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    while len(body) < int(headers["content-length"]):
        body += sock.recv(65536)
    return int(lines[0].split()[1]), headers, body


def call(port, body, *, metadata=(), compression=None, credentials=None):
    """One gRPC call on raw bytes. Raises grpc.RpcError."""
    options = (("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
    address = f"localhost:{port}" if credentials else f"127.0.0.1:{port}"
    channel = (
        grpc.secure_channel(address, credentials, options) if credentials else grpc.insecure_channel(address, options)
    )
    with channel:
        return channel.unary_unary(TRACES_METHOD)(body, timeout=20, metadata=metadata, compression=compression)


def kept_requests(lake):
    """The bytes of all requests in the closed segments of a lake."""
    found = []
    for path in closed_segments(Path(lake)):
        segment = RequestSegment(path)
        scan = segment.scan()
        found += [segment.request(place) for place in scan.places]
        segment.close()
    return found


def kept_span_ids(lake):
    requests = [ExportTraceServiceRequest.FromString(data) for data in kept_requests(lake)]
    return [span.span_id for request in requests for span in spans_of_request(request)]


class CollectorProcess:
    """`agent-replay collector` in a process of its own; `http` and `grpc` are its ports."""

    def __init__(self, lake, *arguments):
        command = [sys.executable, "-m", "otel_agent_replay", "collector", "--lake", str(lake), "--json"]
        command += ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", *arguments]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("AGENT_REPLAY_", "OTEL_"))
        }
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        self.told = json.loads(self.process.stdout.readline())
        self.http = int(self.told["http"].rpartition(":")[2])
        self.grpc = int(self.told["grpc"].rpartition(":")[2]) if self.told["grpc"] else 0

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        """End it in order and return its exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        self.process.stdout.close()
        return code


def until(condition, seconds=60.0):
    """Ask again and again until something is so."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not become so in time"
        time.sleep(0.02)

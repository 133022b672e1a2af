"""Spans acknowledged and durable a second of processor, over loopback, beside rotel, which stores nothing.

The corpus: spans of 2.5 KB with twelve attributes (one of them a prompt), 512 to a request, not compressed. Subject:
`agent-replay collector` in a process of its own, every request checked, looked through for credentials and written to disk with
fsync before it is acknowledged. Peer: rotel's agent (Rust) with its blackhole exporter. Both are sent to in turn by the same
client in this process, over HTTP (4 connections) and gRPC (4 channels). What a server uses of the processors is read from
/proc, all of its threads; the clock's figures stand beside, and say little while others use the machine.

At the end what was acknowledged is counted in the files. Without rotel (`pip install rotel`) the ratios are left out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "collector"))

import grpc
from measure import Figure, report, spread
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otel_agent_replay_collector.request_file import RequestSegment, closed_segments

SPANS = 512
SPAN_BYTES = 2500
CONNECTIONS = 4
WINDOW_S = float(os.environ.get("INGEST_WINDOW_S", "1.5"))
ROUNDS = int(os.environ.get("INGEST_ROUNDS", "8"))
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
WORDS = (
    "the agent asked whether a customer could change her booking to a later flight and the desk said that fares differ by "
    "route season cabin so please wait while I look at what is still open for Tuesday evening from Zurich via Vienna"
).split()
BARE = (
    "import sys; sys.modules['hyperscan'] = sys.modules['isal'] = None; "
    "from otel_agent_replay.cli.main import main; main(sys.argv[1:])"
)


def message(words: int, draw: random.Random, role: str) -> str:
    text = " ".join(draw.choices(WORDS, k=words))
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def corpus() -> bytes:
    """One request."""
    draw = random.Random(7)
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "desk"
    scoped = group.scope_spans.add()
    scoped.scope.name = "opentelemetry.instrumentation.openai"
    for number in range(SPANS):
        span = scoped.spans.add(trace_id=draw.randbytes(16), span_id=draw.randbytes(8), name="chat gpt-5", kind=3)
        span.start_time_unix_nano = 1_760_000_000_000_000_000 + number
        span.end_time_unix_nano = span.start_time_unix_nano + 1_000_000_000
        texts = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5",
            "gen_ai.response.model": "gpt-5-2026-01-01",
            "gen_ai.response.id": f"chatcmpl-{draw.randrange(10**9)}",
            "gen_ai.conversation.id": f"conv-{draw.randrange(10**6)}",
            "server.address": "api.openai.com",
            "gen_ai.output.messages": message(12, draw, "assistant"),
        }
        for key, value in texts.items():
            span.attributes.add(key=key).value.string_value = value
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = draw.randrange(5000)
        span.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = draw.randrange(900)
        span.attributes.add(key="gen_ai.request.temperature").value.double_value = 0.2
        prompt = message(400, draw, "user")
        room = SPAN_BYTES - span.ByteSize() - 40
        span.attributes.add(key="gen_ai.input.messages").value.string_value = prompt[:room]
    return request.SerializeToString()


BODY = corpus()


# --- servers ---


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Server:
    """A server under load: its process and ports."""

    def __init__(self, process: subprocess.Popen, http: int, grpc_port: int, lake: Path | None = None) -> None:
        self.process, self.http, self.grpc, self.lake = process, http, grpc_port, lake

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def make_room(self) -> None:
        """Remove what was written, in place of a sealer."""
        if self.lake is not None:
            for path in closed_segments(self.lake):
                path.unlink()


@contextlib.contextmanager
def started(command: list[str], http: int, grpc_port: int, lake: Path | None = None) -> Iterator[Server]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for port in (http, grpc_port):
            deadline = time.monotonic() + 60
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                if time.monotonic() > deadline or process.poll() is not None:
                    raise SystemExit(f"{command[0]} did not start")
                time.sleep(0.05)
        yield Server(process, http, grpc_port, lake)
    finally:
        process.terminate()
        process.wait(60)


def ours(lake: Path, program: list[str]) -> contextlib.AbstractContextManager[Server]:
    http, grpc_port = free_port(), free_port()
    command = [
        sys.executable,
        *program,
        "collector",
        "--lake",
        str(lake),
        "--seal",
        "off",
        "--max-waiting-mb",
        "1000000",
    ]
    command += ["--http", f"127.0.0.1:{http}", "--grpc", f"127.0.0.1:{grpc_port}"]
    return started(command, http, grpc_port, lake)


def rotel() -> contextlib.AbstractContextManager[Server | None]:
    found = importlib.util.find_spec("rotel")
    if found is None or found.origin is None:
        print("rotel is not installed: no ratios")
        return contextlib.nullcontext()
    http, grpc_port = free_port(), free_port()
    command = [str(Path(found.origin).parent / "rotel-agent"), "start", "--exporter", "blackhole"]
    command += ["--otlp-http-endpoint", f"127.0.0.1:{http}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc_port}"]
    return started(command, http, grpc_port)


# --- the client ---


def send_http(port: int, seconds: float) -> int:
    """Send for so long over several connections, each with one request at a time; return what was acknowledged."""
    head = (
        b"POST /v1/traces HTTP/1.1\r\nhost: here\r\ncontent-type: application/x-protobuf\r\ncontent-length: %d\r\n\r\n"
    )
    sent = memoryview(head % len(BODY) + BODY)
    selector = selectors.DefaultSelector()
    progress: dict[socket.socket, list] = {}
    for _ in range(CONNECTIONS):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setblocking(False)
        progress[sock] = [0, b""]
        selector.register(sock, selectors.EVENT_WRITE)
    acknowledged, end = 0, time.monotonic() + seconds
    owed = CONNECTIONS
    while owed:
        for key, events in selector.select(1):
            sock = key.fileobj
            state = progress[sock]
            if events & selectors.EVENT_WRITE:
                with contextlib.suppress(BlockingIOError):
                    state[0] += sock.send(sent[state[0] :])
                if state[0] == len(sent):
                    selector.modify(sock, selectors.EVENT_READ)
                continue
            state[1] += sock.recv(65536)
            if b"\r\n\r\n" not in state[1]:
                continue
            if not state[1].startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"refused: {state[1][:200]!r}")
            acknowledged += 1
            state[:] = [0, b""]
            if time.monotonic() < end:
                selector.modify(sock, selectors.EVENT_WRITE)
            else:
                selector.unregister(sock)
                sock.close()
                owed -= 1
    return acknowledged * SPANS


def send_grpc(port: int, seconds: float) -> int:
    counts = [0] * CONNECTIONS
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary(METHOD)
            while time.monotonic() < end:
                call(BODY)
                counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) * SPANS


def measured(server: Server, send: Callable[[int, float], int], port: int) -> tuple[float, float, int]:
    """Return spans a second of processor and of the clock, and how many."""
    cpu, clock = server.cpu_s(), time.monotonic()
    spans = send(port, WINDOW_S)
    clock = time.monotonic() - clock
    cpu = server.cpu_s() - cpu
    return spans / cpu, spans / clock, spans


def in_turn(
    subject: Server, peer: Server | None, bare: Server, send: Callable[[int, float], int], attribute: str
) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in ("cpu", "clock", "peer cpu", "peer clock", "bare cpu")}
    for number in range(ROUNDS + 1):
        for name, server in (("", subject), ("peer ", peer), ("bare ", bare)):
            if server is None or (name == "bare " and number % 4 != 1):
                continue
            cpu, clock, _ = measured(server, send, getattr(server, attribute))
            server.make_room()
            if number:
                rates.setdefault(f"{name}cpu", []).append(cpu)
                rates.setdefault(f"{name}clock", []).append(clock)
    return rates


def figures_of(name: str, rates: dict[str, list[float]], wanted: float) -> list[Figure]:
    mine, _, _ = spread(rates["cpu"])
    clock, _, _ = spread(rates["clock"])
    print(f"info {name}: {mine:,.0f} spans a second of processor, {clock:,.0f} by the clock, acknowledged and durable")
    print(f"info {name}: {rates['bare cpu'][0]:,.0f} a second of processor without the extra `collector`")
    if not rates["peer cpu"]:
        return []
    peer, _, _ = spread(rates["peer cpu"])
    peer_clock, _, _ = spread(rates["peer clock"])
    print(f"info {name}: rotel, storing nothing: {peer:,.0f} a second of processor, {peer_clock:,.0f} by the clock")
    by_clock, _, _ = spread([a / b for a, b in zip(rates["clock"], rates["peer clock"], strict=True)])
    middle, low, high = spread([a / b for a, b in zip(rates["cpu"], rates["peer cpu"], strict=True)])
    claim = f"spans acknowledged and durable a second of processor over {name}, beside rotel's blackhole"
    return [
        Figure(claim, middle, wanted, "x", at_most=False, low=low, high=high, detail=f"by the clock {by_clock:.2f}x")
    ]


def lost_on_disk(server: Server) -> int:
    """Return how many of the spans that were acknowledged in one more window are not on disk."""
    server.make_room()
    acknowledged = send_http(server.http, WINDOW_S)
    server.process.terminate()
    server.process.wait(60)
    found = 0
    for path in closed_segments(server.lake):
        segment = RequestSegment(path)
        found += sum(place.items for place in segment.scan().places)
        segment.close()
    return acknowledged - found


def main() -> int:
    print(f"a request has {SPANS} spans of {len(BODY) / SPANS:,.0f} bytes")
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="."))
    try:
        with ours(folder / "one", ["-m", "otel_agent_replay"]) as subject, ours(folder / "two", ["-c", BARE]) as bare:
            with rotel() as peer:
                figures = figures_of("HTTP", in_turn(subject, peer, bare, send_http, "http"), 1.0)
                figures += figures_of("gRPC", in_turn(subject, peer, bare, send_grpc, "grpc"), 1 / 3)
            figures.append(Figure("acknowledged spans that are not on disk", lost_on_disk(subject), 0, "spans"))
        return report("ingest", figures)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    raise SystemExit(main())

"""Added time on the caller's thread for a recorded model call through the openai client, over a loopback server.

What is compared, in one process, in turn, on the same client class against the same server (a process of its own):

- bare: the untouched client.
- recorded: the whole recorder; both ends durable in the journal, secrets masked, digests made.
- recorder-tee, the floor of the claim: what the simplest recorder that can be replayed must do at the same transport.
  It keeps the request's and the response's head, both bodies and the chunk boundaries with their times, as one JSON
  line a call (bodies in base64), and flushes the line. No redaction, no digests, no ids, and nothing before the end:
  a process that dies in a call leaves no trace of it.
- raw tee, for information: appends the request's bytes and the response's bytes to a file. What it writes cannot be
  told apart again.

Times are the caller's thread's CPU time, so that neither the server nor the machine's other users count; the added
time is the difference of the fastest twentieths of many calls, taken in turn. The figure is the ratio of two of them.
"""

from __future__ import annotations

import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import httpx2
import openai
from measure import Figure, report
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_agent_replay as replay

CALLS = 10
PLAIN = b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there, how can I help?"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}'
MESSAGES = [
    {"role": "system", "content": "You are a helpful agent. " * 12},
    {"role": "user", "content": "What is new? " * 8},
]
HEADERS = (  # as a provider sends them
    ("date", "Tue, 18 Nov 2025 10:00:00 GMT"),
    ("x-request-id", "req_0123456789abcdef0123456789abcdef"),
    ("openai-organization", "user-1"),
    ("openai-processing-ms", "412"),
    ("openai-version", "2020-10-01"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-limit-tokens", "2000000"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-remaining-tokens", "1999700"),
    ("x-ratelimit-reset-requests", "6ms"),
    ("strict-transport-security", "max-age=31536000; includeSubDomains; preload"),
    ("server", "cloudflare"),
)
_clock = (time.thread_time,)  # in a tuple: names of the module are rebound by the recorder


def stream_body(chunks: int) -> list[bytes]:
    event = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word %d "},"finish_reason":null}]}\n\n'
    pieces = [event % number for number in range(chunks - 2)]
    pieces.append(
        b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    )
    pieces.append(b"data: [DONE]\n\n")
    return pieces


def serve() -> None:
    """Be the server: a stream for a request that wants one, else the plain answer. Ends with standard input."""
    from otel_agent_replay.testing.provider import EVENT_HEADERS, JSON_HEADERS, Reply, ScriptedProvider

    pieces = stream_body(28)
    cuts = [sum(map(len, pieces[:number])) for number in range(1, len(pieces))]
    stream = Reply(b"".join(pieces), headers=(*EVENT_HEADERS, *HEADERS), framing="chunked", cuts=cuts)
    plain = Reply(PLAIN, headers=(*JSON_HEADERS, *HEADERS))
    with ScriptedProvider(lambda request: stream if b'"stream":true' in request.body else plain) as provider:
        print(provider.url, flush=True)
        sys.stdin.read()


class RecorderTee(httpx2.BaseTransport):
    """The floor; see the module's docstring."""

    def __init__(self, path: Path) -> None:
        self.inner = httpx2.HTTPTransport()
        self.file = path.open("a", encoding="ascii")

    def handle_request(self, request):
        began = time.time()
        kept = {
            "began": began,
            "method": request.method,
            "url": str(request.url),
            "request_headers": _text(request.headers.raw),
            "request": base64.b64encode(request.read()).decode(),
        }
        response = self.inner.handle_request(request)
        kept["status"] = response.status_code
        kept["response_headers"] = _text(response.headers.raw)
        response.stream = _KeptStream(response.stream, kept, self.file)
        return response

    def close(self):
        self.inner.close()


class _KeptStream(httpx2.SyncByteStream):
    def __init__(self, inner, kept, file):
        self.inner, self.kept, self.file = inner, kept, file
        self.chunks, self.times = [], []

    def __iter__(self):
        for chunk in self.inner:
            self.chunks.append(chunk)
            self.times.append(time.time())
            yield chunk

    def close(self):
        self.inner.close()
        kept = self.kept
        kept["chunks"] = [[len(chunk), at - kept["began"]] for chunk, at in zip(self.chunks, self.times)]
        kept["response"] = base64.b64encode(b"".join(self.chunks)).decode()
        self.file.write(json.dumps(kept) + "\n")
        self.file.flush()


class RawTee(httpx2.BaseTransport):
    """For information: raw bytes of each exchange to an append-only file."""

    def __init__(self, path: Path) -> None:
        self.inner = httpx2.HTTPTransport()
        self.fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def handle_request(self, request):
        os.write(self.fd, request.read())
        response = self.inner.handle_request(request)
        response.stream = _RawStream(response.stream, self.fd)
        return response

    def close(self):
        self.inner.close()


class _RawStream(httpx2.SyncByteStream):
    def __init__(self, inner, fd):
        self.inner, self.fd = inner, fd
        self.chunks = []

    def __iter__(self):
        for chunk in self.inner:
            self.chunks.append(chunk)
            yield chunk

    def close(self):  # the client leaves a stream at its last event, before the end of the body
        self.inner.close()
        os.write(self.fd, b"".join(self.chunks))


def _text(raw) -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in raw]


def client_over(url: str, transport: httpx2.BaseTransport) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url=url, max_retries=0, http_client=httpx2.Client(transport=transport))


def call(client: openai.OpenAI, *, stream: bool) -> float:
    """Make one call and read its answer; return the thread's seconds."""
    clock = _clock[0]
    started = clock()
    answer = client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)
    if stream:
        for _chunk in answer:
            pass
    return clock() - started


def compared(url: str, folder: Path, *, stream: bool, rounds: int = 100) -> dict[str, list[float]]:
    """Return the seconds of each call, by what was measured."""
    bare = client_over(url, httpx2.HTTPTransport())
    subjects = {
        "bare": lambda: [call(bare, stream=stream) for _ in range(CALLS)],
        "recorder-tee": _calling(client_over(url, RecorderTee(folder / "tee.jsonl")), stream),
        "raw tee": _calling(client_over(url, RawTee(folder / "tee.bin")), stream),
        "recorded": replay.agent(lambda: [call(bare, stream=stream) for _ in range(CALLS)], name="bench"),
    }
    names = list(subjects)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 4):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            seconds = subjects[name]()
            if number >= 4:
                found[name] += seconds
    return found


def _calling(client: openai.OpenAI, stream: bool):
    return lambda: [call(client, stream=stream) for _ in range(CALLS)]


def low(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[0]


def figures_of(url: str, folder: Path, label: str) -> list[Figure]:
    figures = []
    for what, stream, limit in (("plain call", False, 2.0), ("28-chunk stream", True, 2.5)):
        found = compared(url, folder, stream=stream)
        bare = low(found["bare"])
        added = {name: low(values) - bare for name, values in found.items()}
        middles = {name: statistics.median(values) - statistics.median(found["bare"]) for name, values in found.items()}
        floor = added["recorder-tee"]
        detail = f"({1000 * added['recorded']:.3f} ms against {1000 * floor:.3f} ms; raw tee {1000 * added['raw tee']:.3f} ms; the bare call {1000 * bare:.3f} ms; by medians {middles['recorded'] / middles['recorder-tee']:.2f} x)"
        figures.append(
            Figure(
                f"added time of a recorded {what} against a recorder-tee, {label}",
                added["recorded"] / floor,
                limit,
                "x",
                detail=detail,
            )
        )
    return figures


def first_chunk_delay(url: str) -> float:
    """Return how much later the first chunk of a stream reaches the consumer when it is recorded, in milliseconds."""
    bare = client_over(url, httpx2.HTTPTransport())
    clock = _clock[0]

    def first() -> float:
        started = clock()
        stream = bare.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        next(iter(stream))
        elapsed = clock() - started
        for _ in stream:
            pass
        return elapsed

    recorded = replay.agent(first, name="bench")
    pairs = [(recorded(), first()) for _ in range(200)]
    return 1000 * (low([one for one, _ in pairs]) - low([other for _, other in pairs]))


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        url = server.stdout.readline().strip() + "/v1"
        replay.configure(lake=folder / "lake", seal="off")
        figures = figures_of(url, folder, "no tracing in the service")
        figures.append(
            Figure(
                "first chunk of a stream comes later by",
                first_chunk_delay(url),
                0.2,
                "ms",
                detail="(no tracing in the service)",
            )
        )
        replay.shutdown()
        trace.set_tracer_provider(TracerProvider())
        replay.configure(lake=folder / "lake", seal="off")
        figures += figures_of(url, folder, "with a tracer provider, our span included")
        return report("record_model_call", figures)
    finally:
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve()
    else:
        raise SystemExit(main())

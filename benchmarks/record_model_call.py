"""Added time on the caller's thread for a recorded model call through the openai client, over a loopback server.

What is compared, in one process, in turn, on the same client class against the same server (a process of its own):

- bare: the untouched client; its transport is what the library's own was before our hook came, and so are the tees'.
- hook alone: the client with our hook in its transport, outside runs. The peers put themselves around that one: what
  they add is counted from here.
- recorded: the whole recorder; both ends durable in the journal, secrets masked, digests made.
- recorder-tee, the floor of the claim: what the simplest recorder that can be replayed must do at the same transport.
  It keeps the request's and the response's head, both bodies and the chunk boundaries with their times, as one JSON
  line a call (bodies in base64), and flushes the line. No redaction, no digests, no ids, and nothing before the end:
  a process that dies in a call leaves no trace of it.
- recorder-tee and span, the floor of a service with tracing, beside the other: the same tee, and around the call a
  bare OpenTelemetry span with the very attributes that ours has, given in the same two mappings, in a provider of its
  own without our processor. A service with tracing pays as much for any span that says as much.
- raw tee, for information: appends the request's bytes and the response's bytes to a file. What it writes cannot be
  told apart again.
- cassetter and vcrpy, the peers: the same calls in a cassette of their own a block, as their users record (all calls
  let through, defaults for the rest). Both join a stream's chunks, keep no times, and write nothing before the block's
  end: a process that dies in it leaves no trace. The client parses one chunk where it would parse 28, which is less
  than without a recorder: so a stream is compared with the client's own time in it.

What a recorder pays at the begin and the end of a block (a peer's cassette written, a run of ours opened and closed) is
spread over its calls and counted against the peers; it is printed apart too, and not counted against the tees.

Times are the caller's thread's CPU time, so that neither the server nor the machine's other users count; the added
time is the difference of the fastest twentieths of many calls, taken in turn. The figure is the ratio of two of them.
Beside it stands the same of medians on the wall clock.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import cassetter
import httpx2
import openai
import vcr
from measure import Figure, report
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind

import otel_agent_replay as replay

CALLS = 10
PLAIN_AGAINST = {"cassetter": 1.0, "vcrpy": 0.5}  # how much of what a peer adds we may add
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
_clocks = (time.thread_time, time.perf_counter)  # in a tuple: names of the module are rebound by the recorder


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


class Untouched(httpx2.HTTPTransport):
    """The library's transport without our hook in it, which takes some 15 us outside runs too."""

    handle_request = httpx2.HTTPTransport.handle_request  # this module is loaded before there are hooks


class RecorderTee(httpx2.BaseTransport):
    """The floor; see the module's docstring."""

    def __init__(self, path: Path) -> None:
        self.inner = Untouched()
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


@dataclass
class SpanFacts(SpanProcessor):
    """The attributes of the last span that ended, as it was started with them and as they were set later."""

    started: dict[str, object] = field(default_factory=dict)
    set_later: dict[str, object] = field(default_factory=dict)

    def on_start(self, span, parent_context=None):
        self.started = dict(span.attributes)

    def on_end(self, span):
        self.set_later = {name: value for name, value in span.attributes.items() if name not in self.started}


class SpanTee(RecorderTee):
    """The floor with tracing; see the module's docstring."""

    def __init__(self, path: Path, facts: SpanFacts) -> None:
        super().__init__(path)
        self.facts = facts
        self.tracer = TracerProvider().get_tracer("bench")

    def handle_request(self, request):
        span = self.tracer.start_span("chat m", kind=SpanKind.CLIENT, attributes=self.facts.started)
        response = super().handle_request(
            request
        )  # not made the current one: a model call in a span opens a run of ours
        response.stream = _SpanStream(response.stream, span, self.facts.set_later)
        return response


class _SpanStream(httpx2.SyncByteStream):
    def __init__(self, inner, span, facts):
        self.inner, self.span, self.facts = inner, span, facts

    def __iter__(self):
        return iter(self.inner)

    def close(self):
        self.inner.close()
        self.span.set_attributes(self.facts)
        self.span.end()


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
        self.inner = Untouched()
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


@dataclass
class Timed:
    """Seconds of each call, and of each block beside its calls, a call: on the thread's CPU and on the wall clock."""

    calls: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    around: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))


def call(client: openai.OpenAI, *, stream: bool) -> tuple[float, float]:
    """Make one call and read its answer; return the thread's seconds and those of the wall clock."""
    cpu, wall = _clocks
    started, began = cpu(), wall()
    answer = client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)
    if stream:
        for _chunk in answer:
            pass
    return cpu() - started, wall() - began


def block(client: openai.OpenAI, stream: bool) -> list[tuple[float, float]]:
    return [call(client, stream=stream) for _ in range(CALLS)]


def in_cassette(use: Callable[[str], object], folder: Path, client: openai.OpenAI, stream: bool) -> Callable:
    """Return an action that makes a block of calls in a new cassette."""
    folder.mkdir(exist_ok=True)

    @contextmanager
    def fresh() -> Iterator[None]:
        path = folder / "block.yaml"
        with use(str(path)):
            yield
        if path.stat().st_size < CALLS * 100:
            raise SystemExit(f"{path} does not hold the calls")
        path.unlink()

    def action() -> list[tuple[float, float]]:
        with fresh():
            return block(client, stream)

    return action


def span_facts(url: str, folder: Path, *, stream: bool) -> SpanFacts:
    """Return the attributes of the span of such a recorded call."""
    facts, provider = SpanFacts(), TracerProvider()
    provider.add_span_processor(facts)
    replay.configure(lake=folder / "facts", seal="off", tracer_provider=provider)
    found: list[SpanFacts] = []

    def agent() -> None:
        call(client_over(url, httpx2.HTTPTransport()), stream=stream)
        found.append(replace(facts))

    replay.agent(agent, name="bench")()
    replay.shutdown()
    if len(found[0].started) < 8 or len(found[0].set_later) < 4:
        raise SystemExit(f"these are not the attributes of a model call's span: {found[0]}")
    return found[0]


def compared(url: str, folder: Path, *, stream: bool, facts: SpanFacts | None, rounds: int = 100) -> dict[str, Timed]:
    """Return the seconds of each call, by what was measured; with `facts` also those of the floor with tracing."""
    bare, hooked = client_over(url, Untouched()), client_over(url, httpx2.HTTPTransport())
    tee, raw = client_over(url, RecorderTee(folder / "tee.jsonl")), client_over(url, RawTee(folder / "tee.bin"))
    subjects = {
        "bare": lambda: block(bare, stream),
        "hook alone": lambda: block(hooked, stream),
        "recorder-tee": lambda: block(tee, stream),
        "raw tee": lambda: block(raw, stream),
        "recorded": replay.agent(lambda: block(hooked, stream), name="bench"),
        "cassetter": in_cassette(
            lambda path: cassetter.use_cassette(path, record_mode="all"), folder / "cassetter", hooked, stream
        ),
        "vcrpy": in_cassette(lambda path: vcr.use_cassette(path, record_mode="all"), folder / "vcrpy", hooked, stream),
    }
    if facts is not None:
        spans = client_over(url, SpanTee(folder / "tee.jsonl", facts))
        subjects["recorder-tee and span"] = lambda: block(spans, stream)
    names = list(subjects)
    found = {name: Timed() for name in names}
    cpu, wall = _clocks
    for number in range(rounds + 4):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            started, began = cpu(), wall()
            seconds = subjects[name]()
            whole = (cpu() - started, wall() - began)
            if number < 4:
                continue
            for clock in (0, 1):
                each = [one[clock] for one in seconds]
                found[name].calls[clock].extend(each)
                found[name].around[clock].append((whole[clock] - sum(each)) / CALLS)
    return found


class Added:
    """What each recorder adds to a call, in milliseconds: the thread's CPU time, or medians of the wall clock."""

    def __init__(self, found: dict[str, Timed], *, wall: bool) -> None:
        least = statistics.median if wall else low
        self.bare = 1000 * least(found["bare"].calls[wall])
        around = 1000 * least(found["bare"].around[wall])
        hooked = 1000 * least(found["hook alone"].calls[wall])
        self.calls = {
            name: 1000 * least(one.calls[wall]) - (hooked if name in PLAIN_AGAINST else self.bare)
            for name, one in found.items()
        }
        self.ends = {name: 1000 * least(one.around[wall]) - around for name, one in found.items()}

    def whole(self, name: str) -> float:
        return self.calls[name] + self.ends[name]

    def parts(self, name: str) -> str:
        return f"{self.calls[name]:.3f} + {self.ends[name]:.3f} ms"


def low(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[0]


def figures_of(url: str, folder: Path, label: str, facts: tuple[SpanFacts | None, SpanFacts | None]) -> list[Figure]:
    figures = []
    for what, stream, most, most_ms in (("plain call", False, 2.0, 0.4), ("28-chunk stream", True, 2.5, 0.5)):
        on_span = facts[stream]
        found = compared(url, folder, stream=stream, facts=on_span)
        cpu, wall = Added(found, wall=False), Added(found, wall=True)
        ours = cpu.calls["recorded"]
        figures.append(
            Figure(
                f"added time of a recorded {what}, {label}",
                ours,
                most_ms,
                "ms",
                detail=f"(the bare call {cpu.bare:.3f} ms; our hook alone {cpu.calls['hook alone']:.3f} ms; wall clock {wall.calls['recorded']:.3f} ms; its share of the run's begin and end {cpu.ends['recorded']:.3f} ms)",
            )
        )
        floor = cpu.calls["recorder-tee"]
        figures.append(
            Figure(
                f"added time of a recorded {what} against a recorder-tee, {label}",
                ours / floor,
                most,
                "x",
                detail=f"({ours:.3f} ms against {floor:.3f} ms; raw tee {cpu.calls['raw tee']:.3f} ms; wall clock {wall.calls['recorded'] / wall.calls['recorder-tee']:.2f} x)",
            )
        )
        if on_span is not None:
            floor = cpu.calls["recorder-tee and span"]
            on_wall = wall.calls["recorded"] / wall.calls["recorder-tee and span"]
            count = len(on_span.started) + len(on_span.set_later)
            figures.append(
                Figure(
                    f"added time of a recorded {what} against a recorder-tee and a bare span of as many attributes, {label}",
                    ours / floor,
                    most,
                    "x",
                    detail=f"({ours:.3f} ms against {floor:.3f} ms, {count} attributes; wall clock {on_wall:.2f} x)",
                )
            )
        figures += [against(peer, what, label, cpu, wall, stream=stream) for peer in PLAIN_AGAINST]
    return figures


def against(peer: str, what: str, label: str, cpu: Added, wall: Added, *, stream: bool) -> Figure:
    """Judge what is added to a plain call; of a stream, whose chunks the peers join for the client, the whole call."""
    detail = (
        f"({cpu.parts('recorded')} against {cpu.parts(peer)}, calls + begin and end of a block of {CALLS}; "
        f"wall clock {wall.parts('recorded')} against {wall.parts(peer)}"
    )
    if stream:
        value, on_wall = ((one.bare + one.whole("recorded")) / (one.bare + one.whole(peer)) for one in (cpu, wall))
        claim, most = f"a recorded {what}, the client included, against {peer}, {label}", 1.2
        detail += f"; by the wall clock {on_wall:.2f} x)"
    else:
        value, on_wall = (one.whole("recorded") / one.whole(peer) for one in (cpu, wall))
        claim, most = f"added time of a recorded {what} against {peer}, {label}", PLAIN_AGAINST[peer]
        detail += f"; calls alone {cpu.calls['recorded'] / cpu.calls[peer]:.2f} x, by the wall clock {on_wall:.2f} x)"
    return Figure(claim, value, most, "x", detail=detail)


def first_chunk_delay(url: str) -> float:
    """Return how much later the first chunk of a stream reaches the consumer when it is recorded, in milliseconds."""
    bare, hooked = client_over(url, Untouched()), client_over(url, httpx2.HTTPTransport())
    clock = _clocks[0]

    def first(client: openai.OpenAI) -> float:
        started = clock()
        stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        next(iter(stream))
        elapsed = clock() - started
        for _ in stream:
            pass
        return elapsed

    recorded = replay.agent(first, name="bench")
    pairs = [(recorded(hooked), first(bare)) for _ in range(200)]
    return 1000 * (low([one for one, _ in pairs]) - low([other for _, other in pairs]))


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        url = server.stdout.readline().strip() + "/v1"
        facts = (span_facts(url, folder, stream=False), span_facts(url, folder, stream=True))
        replay.configure(lake=folder / "lake", seal="off")
        figures = figures_of(url, folder, "no tracing in the service", (None, None))
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
        figures += figures_of(url, folder, "with a tracer provider, our span included", facts)
        return report("record_model_call", figures)
    finally:
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve()
    else:
        raise SystemExit(main())

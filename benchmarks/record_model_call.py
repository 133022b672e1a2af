"""Added time on the caller's thread for a recorded model call through the openai client.

Floor: a bare byte tee at the same transport (httpx2's HTTPTransport), which appends the raw request and response
bytes of each call to a file. Subject: the whole recorder. The added time is against the untouched client, and the
figure is the ratio of the two added times.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import httpx2
import openai
from measure import Figure, report, spread, timed

import otel_agent_replay as replay

CALLS = 60
PLAIN = b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there, how can I help?"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}'
MESSAGES = [
    {"role": "system", "content": "You are a helpful agent. " * 12},
    {"role": "user", "content": "What is new? " * 8},
]


def stream_body(chunks: int) -> list[bytes]:
    event = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word %d "},"finish_reason":null}]}\n\n'
    pieces = [event % number for number in range(chunks - 2)]
    pieces.append(
        b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    )
    pieces.append(b"data: [DONE]\n\n")
    return pieces


class Canned(httpx2.HTTPTransport):
    """An HTTPTransport whose network is canned bytes: the same class the recorder hooks, no socket noise."""

    def __init__(self, pieces: list[bytes], content_type: str) -> None:
        super().__init__()
        self._pool = _Pool(pieces, content_type)


class _Pool:
    def __init__(self, pieces, content_type):
        self.pieces, self.content_type = pieces, content_type

    def handle_request(self, request):
        import httpcore2

        return httpcore2.Response(
            200, headers=[(b"content-type", self.content_type.encode())], content=iter(self.pieces)
        )

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


class Tee(httpx2.BaseTransport):
    """The floor: raw bytes of each exchange to an append-only file, nothing else."""

    def __init__(self, inner, path):
        self.inner = inner
        self.fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def handle_request(self, request):
        body = request.read()
        head = repr((request.method, str(request.url), request.headers.raw)).encode()
        os.write(self.fd, head + body)
        response = self.inner.handle_request(request)
        response.stream = _TeeStream(response.stream, self.fd)
        return response

    def close(self):
        self.inner.close()


class _TeeStream(httpx2.SyncByteStream):
    def __init__(self, inner, fd):
        self.inner, self.fd = inner, fd

    def __iter__(self):
        chunks = []
        for chunk in self.inner:
            chunks.append(chunk)
            yield chunk
        os.write(self.fd, b"".join(chunks))

    def close(self):
        self.inner.close()


def client_over(transport) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="k", base_url="http://model.invalid/v1", max_retries=0, http_client=httpx2.Client(transport=transport)
    )


def calls(client: openai.OpenAI, *, stream: bool, count: int = CALLS) -> None:
    for _ in range(count):
        answer = client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)
        if stream:
            for _chunk in answer:
                pass


def measure(stream: bool, pieces: list[bytes], content_type: str, folder: Path):
    bare = client_over(Canned(pieces, content_type))
    teed = client_over(Tee(Canned(pieces, content_type), folder / "tee.bin"))
    agent = replay.agent(lambda: calls(bare, stream=stream), name="bench")
    rows = []
    for number in range(14):
        order = [
            ("bare", lambda: calls(bare, stream=stream)),
            ("tee", lambda: calls(teed, stream=stream)),
            ("recorded", agent),
        ]
        order = order[number % 3 :] + order[: number % 3]
        row = {name: timed(action) for name, action in order}
        if number >= 2:
            rows.append(row)
    added = [(row["recorded"] - row["bare"]) / CALLS for row in rows]
    floor = statistics.median((row["tee"] - row["bare"]) / CALLS for row in rows)
    return [value / floor for value in added], statistics.median(added), floor


def first_chunk_delay(folder: Path) -> float:
    """Return how much later the first chunk of a stream reaches the consumer when it is recorded, in milliseconds."""
    pieces = stream_body(28)
    bare = client_over(Canned(pieces, "text/event-stream"))

    def first() -> float:
        import time

        started = time.perf_counter()
        stream = bare.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        next(iter(stream))
        elapsed = time.perf_counter() - started
        for _ in stream:
            pass
        return elapsed

    recorded = replay.agent(first, name="bench")
    differences = [recorded() - first() for _ in range(200)]
    return 1000 * statistics.median(differences)


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    replay.configure(lake=folder / "lake", seal="off")
    figures = []
    for label, stream, pieces, kind, limit in (
        ("plain call", False, [PLAIN], "application/json", 2.0),
        ("28-chunk stream", True, stream_body(28), "text/event-stream", 2.5),
    ):
        ratios, added, floor = measure(stream, pieces, kind, folder)
        middle, low, high = spread(ratios)
        figures.append(
            Figure(
                f"added time of a recorded {label} against a bare byte tee",
                middle,
                limit,
                "x",
                low=low,
                high=high,
                detail=f"({1000 * added:.3f} ms against {1000 * floor:.3f} ms)",
            )
        )
    figures.append(Figure("first chunk of a stream comes later by", first_chunk_delay(folder), 0.2, "ms"))
    return report("record_model_call", figures)


if __name__ == "__main__":
    raise SystemExit(main())

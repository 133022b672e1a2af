"""Our reduction of recorded streams beside the provider SDKs' own stream parsers, in MB/s over the same bytes.

The peers are `openai.Stream`, `anthropic.Stream` (for Claude on Bedrock Invoke with its own decoder of AWS frames), and
botocore's `EventStream` for Bedrock Converse: given a response that holds the body already (no socket, no client, no retry),
iterated to the end, the events counted and dropped. That is their parse from bytes to event objects and nothing more; they
fold nothing, and check no arguments. Ours goes the whole way: bytes to events to the folded message, tool
arguments checked, problems named. Both get the body in the same pieces of 4 KiB.

The corpus is every recorded stream that both sides read without an error, read from OTEL_AGENT_REPLAY_DATA or
`../shared/data`; where that is absent, streams made here, and the figure says so. A round reads a small corpus as often
as makes a megabyte, so that what is timed is reading and not the first milliseconds after a collection of garbage.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import botocore.eventstream
import botocore.parsers
import botocore.session
import httpx2
import openai
from anthropic.types import RawMessageStreamEvent
from measure import Figure, paired, report, spread
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent

from otel_agent_replay.imports import read_exchanges
from otel_agent_replay.protocols import PROTOCOLS, Protocol, reduce_chunks
from otel_agent_replay.protocols.event_stream import MEDIA_TYPE as FRAMES
from otel_agent_replay.protocols.event_stream import written_frame
from otel_agent_replay.replay.protocol import protocol_of

PIECE = 4096
ROUNDS = 11
ROUND_BYTES = 1 << 20
TIMES_MB_S = 3.0

openai_client = openai.OpenAI(api_key="none", max_retries=0)
anthropic_client = anthropic.Anthropic(api_key="none", max_retries=0)
claude_on_bedrock = anthropic.AnthropicBedrock(aws_region="us-east-1", aws_access_key="none", aws_secret_key="none")


class Pieces(httpx2.SyncByteStream):
    """A body in pieces, as a response reads it."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)


def response(pieces: list[bytes]) -> httpx2.Response:
    request = httpx2.Request("POST", "http://127.0.0.1/")
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces(pieces), request=request)


class Raw:
    """A body in pieces, as botocore reads it."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def stream(self) -> Iterator[bytes]:
        return iter(self._pieces)

    def close(self) -> None:
        pass


bedrock = botocore.session.get_session().get_service_model("bedrock-runtime")
bedrock_parser = botocore.parsers.create_parser(bedrock.metadata["protocol"])


def bedrock_events(pieces: list[bytes]) -> Any:
    shape = bedrock.operation_model("ConverseStream").get_event_stream_output()
    return botocore.eventstream.EventStream(Raw(pieces), shape, bedrock_parser._event_stream_parser, "ConverseStream")


PEERS: dict[str, Callable[[list[bytes]], Any]] = {
    "openai.chat_completions": lambda pieces: openai.Stream(
        cast_to=ChatCompletionChunk, response=response(pieces), client=openai_client
    ),
    "openai.responses": lambda pieces: openai.Stream(
        cast_to=ResponseStreamEvent, response=response(pieces), client=openai_client
    ),
    "anthropic.messages": lambda pieces: anthropic.Stream(
        cast_to=RawMessageStreamEvent, response=response(pieces), client=anthropic_client
    ),
    "aws.bedrock_converse": bedrock_events,
    "aws.bedrock_invoke": lambda pieces: anthropic.Stream(
        cast_to=RawMessageStreamEvent, response=response(pieces), client=claude_on_bedrock
    ),
}
MEDIA_TYPES = {"aws.bedrock_converse": FRAMES, "aws.bedrock_invoke": FRAMES}


def cut(body: bytes) -> list[bytes]:
    return [body[at : at + PIECE] for at in range(0, len(body), PIECE)]


def counted(make: Callable[[list[bytes]], Any], pieces: list[bytes]) -> int:
    return sum(1 for _ in make(pieces))


def recorded() -> dict[str, list[bytes]]:
    """Streams by protocol, each read by its SDK without an error."""
    named = os.environ.get("OTEL_AGENT_REPLAY_DATA")
    root = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    index = root / "INDEX.tsv"
    found: dict[str, list[bytes]] = {name: [] for name in PEERS}
    if not index.is_file():
        return found
    for line in index.read_text(encoding="utf-8").splitlines()[1:]:
        for exchange in read_exchanges(root / line.split("\t")[0]):
            protocol = protocol_of(exchange)
            if protocol is None or protocol.name not in PEERS or exchange.status != 200:
                continue
            if protocol.framing(exchange.body[:64], exchange.media_type) is None:
                continue
            try:
                if counted(PEERS[protocol.name], cut(exchange.body)):
                    found[protocol.name].append(exchange.body)
            except Exception:  # what the SDK cannot read cannot be timed
                continue
    return found


def made() -> dict[str, list[bytes]]:
    """A stream of each protocol, where there are no recordings."""
    deltas = [f"word{number} " for number in range(400)]
    chat = [
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]} for text in deltas
    ]
    responses = [{"type": "response.output_text.delta", "output_index": 0, "delta": text} for text in deltas]
    messages = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in deltas
    ]

    def framed(events: list[dict[str, Any]]) -> bytes:
        lines = [(b"event: %s\n" % event["type"].encode() if "type" in event else b"", event) for event in events]
        return b"".join(name + b"data: " + json.dumps(event).encode() + b"\n\n" for name, event in lines)

    def frames(name: str, values: list[dict[str, Any]]) -> bytes:
        headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
        return b"".join(written_frame(headers, json.dumps(value).encode()) for value in values)

    invoked = [{"bytes": base64.b64encode(json.dumps(event).encode()).decode()} for event in messages]
    converse = [{"contentBlockIndex": 0, "delta": {"text": text}} for text in deltas]
    return {
        "openai.chat_completions": [framed(chat)],
        "openai.responses": [framed(responses)],
        "anthropic.messages": [framed(messages)],
        "aws.bedrock_converse": [frames("contentBlockDelta", converse)],
        "aws.bedrock_invoke": [frames("chunk", invoked)],
    }


def figure(name: str, protocol: Protocol, bodies: list[bytes], corpus: str) -> Figure:
    pieces = [cut(body) for body in bodies]
    size = sum(map(len, bodies))

    passes = max(1, ROUND_BYTES // size)

    def ours() -> None:
        for chunks in pieces * passes:
            reduce_chunks(protocol, chunks, MEDIA_TYPES.get(name, "text/event-stream"), 200)

    def theirs() -> None:
        for chunks in pieces * passes:
            counted(PEERS[name], chunks)

    pairs = paired(ours, theirs, rounds=ROUNDS)
    ratio, low, high = spread([peer / mine for mine, peer in pairs])
    ours_s, theirs_s = (spread([pair[side] for pair in pairs])[0] / passes for side in (0, 1))
    return Figure(
        f"{name}: our whole reduction as many times as fast as the SDK's event objects alone",
        ratio,
        TIMES_MB_S,
        "x",
        at_most=False,
        low=low,
        high=high,
        detail=f"{len(bodies)} {corpus} streams, {size / 1e6:.2f} MB: {size / ours_s / 1e6:.1f} against "
        f"{size / theirs_s / 1e6:.1f} MB/s",
    )


def main() -> int:
    """Measure each protocol whose SDK has a stream parser."""
    warnings.simplefilter("ignore")
    bodies, corpus = recorded(), "recorded"
    if not all(bodies.values()):
        bodies, corpus = made(), "made up"
    figures = [figure(name, PROTOCOLS[name], bodies[name], corpus) for name in PEERS]
    return report("protocol_reduction", figures)


if __name__ == "__main__":
    sys.exit(main())

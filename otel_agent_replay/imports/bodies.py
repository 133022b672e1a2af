"""A response body in a file of its own -> exchanges: raw bytes, or the packings that people keep them in.

Raw: server-sent events, JSON, JSON lines, an AWS event stream. Packed: gzip, hexadecimal text, and event payloads one a
line, of which the framing was taken off; they are framed again, and the exchange says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.packed import GZIP, is_hex, unzipped
from otel_agent_replay.model import WireExchange
from otel_agent_replay.protocols import framed_by_lines, recognise_object
from otel_agent_replay.protocols.event_stream import MEDIA_TYPE as EVENT_STREAM
from otel_agent_replay.protocols.event_stream import looks_like_event_stream, written_frame
from otel_agent_replay.protocols.json_text import parse, parse_object
from otel_agent_replay.protocols.sse import looks_like_sse

_SSE = "text/event-stream"
_LAST_EVENTS = ("message_stop", "response.completed", "response.incomplete", "response.failed")


def plain_bytes(data: bytes, source: str) -> bytes:
    """What a file holds, without gzip or hexadecimal around it. Raises DamagedRecording for a broken packing."""
    if data.startswith(GZIP):
        data, whole = unzipped(data, source)
        if not whole:
            raise DamagedRecording(f"{source} begins as gzip and cannot be unpacked: it ends in the middle")
        return data
    if data[:1] not in b"{[" and data.isascii() and is_hex(data.decode("ascii")):
        return bytes.fromhex("".join(data.decode("ascii").split()))
    return data


def read_body(body: bytes, source: str) -> Iterator[WireExchange]:
    """The exchange that a bare body is; several, where a file of payloads holds several answers."""
    if looks_like_event_stream(body):
        yield WireExchange(source, body, EVENT_STREAM)
    elif looks_like_sse(body):
        yield WireExchange(source, body, _SSE)
    elif parse(body) is not None:
        yield WireExchange(source, body, "application/json")
    else:
        lines = [line.strip() for line in body.split(b"\n") if line.strip()]
        objects = [parse_object(line) for line in lines]
        read = [value for value in objects if value is not None]
        if 2 * len(read) <= len(lines):  # a broken line among good ones is a broken event, not another kind of file
            yield WireExchange(source, body)
        elif framed_by_lines(read[0]):
            yield WireExchange(source, body, "application/x-ndjson")
        else:
            yield from _framed_again(lines, objects, source)


def _framed_again(lines: list[bytes], objects: list[dict[str, Any] | None], source: str) -> Iterator[WireExchange]:
    answers: list[list[int]] = [[]]
    for number, value in enumerate(objects):
        answers[-1].append(number)
        if value is not None and value.get("type") in _LAST_EVENTS:
            answers.append([])
    answers = [numbers for numbers in answers if numbers]
    for place, numbers in enumerate(answers):
        in_frames = _is_converse(objects[numbers[0]])
        write = _as_frame if in_frames else _as_event
        yield WireExchange(
            source=source if len(answers) == 1 else f"{source}#{place}",
            body=b"".join(write(lines[number], objects[number]) for number in numbers),
            media_type=EVENT_STREAM if in_frames else _SSE,
            notes=(f"the file holds event payloads; they were framed again as {'AWS frames' if in_frames else 'SSE'}",),
        )


def _is_converse(value: dict[str, Any] | None) -> bool:
    return value is not None and len(value) == 1 and recognise_object("", value) == "aws.bedrock_converse"


def _as_event(line: bytes, value: dict[str, Any] | None) -> bytes:
    kind = None if value is None else value.get("type")
    name = b"event: %s\n" % kind.encode() if isinstance(kind, str) and kind.isprintable() else b""
    return name + b"data: " + line + b"\n\n"


def _as_frame(line: bytes, value: dict[str, Any] | None) -> bytes:
    if value is None or len(value) != 1:
        return written_frame({":message-type": "event", ":event-type": "unknown"}, line)
    kind = next(iter(value))
    inner = line[line.index(b":", len(json.dumps(kind))) + 1 : -1].strip()
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return written_frame(headers, inner)

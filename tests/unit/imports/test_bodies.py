"""Bare bodies: told from their bytes, whatever their file is called."""

from __future__ import annotations

import gzip
import json

import pytest

from otel_agent_replay.imports import is_bare, read_exchanges
from otel_agent_replay.protocols import recognise_answer
from otel_agent_replay.protocols.event_stream import frames_of, written_frame

CHUNK = '{"object":"chat.completion.chunk","choices":[{"delta":{"content":"hé"},"finish_reason":"stop"}]}'
SSE = f"data: {CHUNK}\n\n".encode()
FRAMES = written_frame({":event-type": "messageStart", ":message-type": "event"}, b'{"role":"assistant"}')


def read(tmp_path, data, name="body.bin"):
    path = tmp_path / name
    path.write_bytes(data)
    exchanges = read_exchanges(path)
    return path, exchanges


@pytest.mark.parametrize(
    ("data", "body", "media_type"),
    [
        (SSE, SSE, "text/event-stream"),
        (b"\xef\xbb\xbf" + SSE, b"\xef\xbb\xbf" + SSE, "text/event-stream"),
        (gzip.compress(SSE), SSE, "text/event-stream"),
        (SSE.hex().encode(), SSE, "text/event-stream"),
        (FRAMES, FRAMES, "application/vnd.amazon.eventstream"),
        (FRAMES.hex().upper().encode() + b"\n", FRAMES, "application/vnd.amazon.eventstream"),
        (b' {"choices": []}\n', b' {"choices": []}\n', "application/json"),
        (b'[{"candidates": []}]', b'[{"candidates": []}]', "application/json"),
        (b"<html>no</html>", b"<html>no</html>", ""),
    ],
)
def test_a_bare_body_is_itself(data, body, media_type, tmp_path):
    """Gzip and hex are taken off, nothing else is changed, and the bytes say what it is."""
    path, exchanges = read(tmp_path, data)
    assert [(one.body, one.media_type, one.status, one.request) for one in exchanges] == [(body, media_type, 200, None)]
    assert is_bare(path, exchanges)


def test_lines_that_a_provider_sends_stay_lines(tmp_path):
    """JSON lines of a provider that frames by lines are the body, byte for byte."""
    line = b'{"model":"m","created_at":"2026","message":{"role":"assistant","content":"a"},"done":false}\n'
    _, exchanges = read(tmp_path, line * 2, "answer.jsonl")
    assert [(one.body, one.media_type, one.notes) for one in exchanges] == [(line * 2, "application/x-ndjson", ())]


def test_payloads_are_framed_again_and_say_so(tmp_path):
    """Event payloads, one a line, become the events that they were, and the exchange says that this was done."""
    lines = [CHUNK, CHUNK]
    _, (exchange,) = read(tmp_path, "\n".join(lines).encode(), "a.chunks.txt")
    assert exchange.body == SSE * 2
    assert "framed again as SSE" in exchange.notes[0]
    assert recognise_answer(exchange.body).name == "openai.chat_completions"


def test_payloads_of_several_answers_are_several_exchanges(tmp_path):
    """A file of payloads is cut after each answer's last event; named events keep their names."""
    events = [{"type": "message_start", "message": {"id": "m"}}, {"type": "message_stop"}]
    text = "\n".join(json.dumps(event) for event in events * 2)
    path, exchanges = read(tmp_path, text.encode(), "a.chunks.txt")
    assert [one.source for one in exchanges] == [f"{path}#0", f"{path}#1"]
    assert all(one.body.startswith(b"event: message_start\ndata: {") for one in exchanges)
    assert not is_bare(path, exchanges)


def test_payloads_of_binary_events_become_frames(tmp_path):
    """Payloads that came in AWS frames are framed so again, the payload's text being unchanged."""
    inner = '{"contentBlockIndex": 0, "delta": {"text": "a:b"}}'
    lines = ['{"messageStart": {"role":"assistant"}}', f'{{"contentBlockDelta": {inner}}}']
    _, (exchange,) = read(tmp_path, "\n".join(lines).encode(), "a.chunks.txt")
    frames = list(frames_of(exchange.body))
    assert [frame.text(":event-type") for frame in frames] == ["messageStart", "contentBlockDelta"]
    assert frames[1].payload.decode() == inner
    assert not any(frame.problem for frame in frames)

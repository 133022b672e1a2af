"""Hypothesis strategies for provider streams, each with what it must fold to."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

FRAGMENT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
FRAGMENTS = st.lists(FRAGMENT, max_size=5)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


class StreamBody(NamedTuple):
    """A stream of the protocol `name`, the text and the raw arguments of each call that it carries."""

    name: str
    body: bytes
    text: str
    arguments: list[str]
    media_type: str = "text/event-stream"


def framed(events: list[dict[str, Any]], *, named: bool, end: bytes, ascii_only: bool) -> bytes:
    body = b""
    for event in events:
        if named:
            body += b"event: " + event["type"].encode() + end
        body += b"data: " + json.dumps(event, ensure_ascii=ascii_only).encode() + end + end
    return body


@st.composite
def _content(draw: Any) -> tuple[list[str], list[list[str]]]:
    return draw(FRAGMENTS), draw(st.lists(FRAGMENTS, max_size=3))


@st.composite
def chat_stream(draw: Any) -> StreamBody:
    texts, calls = draw(_content())
    deltas: list[dict[str, Any]] = [{"content": text} for text in texts]
    pieces = [
        {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
        for index, call in enumerate(calls)
        for piece in call
    ]
    opened = [
        {"tool_calls": [{"index": index, "id": f"call_{index}", "function": {"name": "f", "arguments": ""}}]}
        for index in range(len(calls))
    ]
    order = draw(st.permutations(range(len(pieces))))
    # Fragments of one call keep their order, those of different calls mix.
    queues = {
        index: [piece for piece in pieces if piece["tool_calls"][0]["index"] == index] for index in range(len(calls))
    }
    mixed = [queues[pieces[place]["tool_calls"][0]["index"]].pop(0) for place in order]
    chunks = [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas + opened + mixed]
    chunks.append({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    end, plain = draw(ENDS), draw(st.booleans())
    body = framed(chunks, named=False, end=end, ascii_only=plain) + b"data: [DONE]" + end + end
    return StreamBody("openai.chat_completions", body, "".join(texts), ["".join(call) for call in calls])


@st.composite
def responses_stream(draw: Any) -> StreamBody:
    texts, calls = draw(_content())
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r", "status": "in_progress"}}]
    events.append({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}})
    events += [
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text} for text in texts
    ]
    for index, call in enumerate(calls, 1):
        item = {"type": "function_call", "call_id": f"call_{index}", "name": "f", "arguments": ""}
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        kind = "response.function_call_arguments.delta"
        events += [{"type": kind, "output_index": index, "delta": piece} for piece in call]
    events.append({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}})
    body = framed(events, named=True, end=draw(ENDS), ascii_only=draw(st.booleans()))
    return StreamBody("openai.responses", body, "".join(texts), ["".join(call) for call in calls])


@st.composite
def anthropic_stream(draw: Any) -> StreamBody:
    texts, calls = draw(_content())
    message = {"id": "m", "model": "claude", "role": "assistant", "content": [], "usage": {"input_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    kind = "content_block_delta"
    events += [{"type": kind, "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts]
    for index, call in enumerate(calls, 1):
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": "f", "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": kind, "index": index, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in call
        ]
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}})
    events.append({"type": "message_stop"})
    body = framed(events, named=True, end=draw(ENDS), ascii_only=draw(st.booleans()))
    return StreamBody("anthropic.messages", body, "".join(texts), ["".join(call) for call in calls])


@st.composite
def cohere_stream(draw: Any) -> StreamBody:
    texts, calls = draw(_content())
    events: list[dict[str, Any]] = [{"id": "c", "type": "message-start", "delta": {"message": {"role": "assistant"}}}]
    start = {"message": {"content": {"type": "text", "text": ""}}}
    events.append({"type": "content-start", "index": 0, "delta": start})
    events += [
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": text}}}} for text in texts
    ]
    for index, call in enumerate(calls):
        begun = {"id": f"f_{index}", "type": "function", "function": {"name": "f", "arguments": ""}}
        events.append({"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": begun}}})
        events += [
            {"type": "tool-call-delta", "index": index,
             "delta": {"message": {"tool_calls": {"function": {"arguments": piece}}}}}
            for piece in call
        ]  # fmt: skip
    usage = {"billed_units": {"input_tokens": 1, "output_tokens": 2}, "tokens": {"input_tokens": 9}}
    events.append({"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}})
    body = framed(events, named=True, end=draw(ENDS), ascii_only=draw(st.booleans()))
    return StreamBody("cohere.chat", body, "".join(texts), ["".join(call) for call in calls])


@st.composite
def completions_stream(draw: Any) -> StreamBody:
    texts = draw(FRAGMENTS)
    chunks = [{"id": "c", "model": "m", "choices": [{"index": 0, "text": text}]} for text in texts]
    chunks.append({"id": "c", "model": "m", "choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
    end = draw(ENDS)
    body = framed(chunks, named=False, end=end, ascii_only=draw(st.booleans())) + b"data: [DONE]" + end + end
    return StreamBody("openai.completions", body, "".join(texts), [])


ARGUMENTS = st.builds(
    json.dumps,
    st.dictionaries(FRAGMENT, FRAGMENT | st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    ensure_ascii=st.booleans(),
    separators=st.sampled_from([(",", ":"), (", ", " : ")]),
)


@st.composite
def ollama_stream(draw: Any) -> StreamBody:
    """Lines of `/api/chat`. Arguments are objects, whose spelling is kept."""
    texts, calls = draw(FRAGMENTS), draw(st.lists(ARGUMENTS, max_size=3))
    lines = [
        json.dumps({"model": "m", "message": {"role": "assistant", "content": text}, "done": False}) for text in texts
    ]
    before = (
        '{"model":"m","done":false,"message":{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":'
    )
    lines += [before + call + "}}]}}" for call in calls]
    lines.append('{"model":"m","message":{},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":4}')
    end = draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    body = "".join(line + end for line in lines).encode()
    return StreamBody("ollama.chat", body, "".join(texts), calls, "application/x-ndjson")


@st.composite
def cohere_v1_stream(draw: Any) -> StreamBody:
    texts, calls = draw(FRAGMENTS), draw(st.lists(ARGUMENTS, max_size=2))
    lines = ['{"event_type":"stream-start","generation_id":"g"}']
    lines += [json.dumps({"event_type": "text-generation", "text": text}) for text in texts]
    made = ",".join('{"name":"f","parameters":' + call + "}" for call in calls)
    end = '{"event_type":"stream-end","finish_reason":"COMPLETE","response":{"generation_id":"g","text":'
    lines.append(end + json.dumps("".join(texts)) + ',"tool_calls":[' + made + "]}}")
    body = "".join(line + "\n" for line in lines).encode()
    return StreamBody("cohere.chat_v1", body, "".join(texts), calls, "application/stream+json")


def any_event_stream() -> st.SearchStrategy[StreamBody]:
    """A stream that is framed as server-sent events."""
    return st.one_of(chat_stream(), responses_stream(), anthropic_stream(), cohere_stream(), completions_stream())


def any_stream() -> st.SearchStrategy[StreamBody]:
    return st.one_of(any_event_stream(), ollama_stream(), cohere_v1_stream())

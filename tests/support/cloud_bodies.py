"""Hypothesis strategies for the streams of Google and Amazon, each with what it must fold to."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from otel_agent_replay.protocols.event_stream import MEDIA_TYPE
from tests.support.bedrock_bodies import chunk, converse_stream
from tests.support.protocol_bodies import ENDS, FRAGMENT, FRAGMENTS, StreamBody, framed

ARGUMENTS = st.builds(
    json.dumps,
    st.dictionaries(FRAGMENT, FRAGMENT | st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    ensure_ascii=st.booleans(),
    separators=st.sampled_from([(",", ":"), (", ", " : ")]),
)


@st.composite
def converse_events(draw: Any) -> tuple[list[tuple[str, Any]], str, list[str]]:
    texts, calls = draw(FRAGMENTS), draw(st.lists(FRAGMENTS, max_size=3))
    events: list[tuple[str, Any]] = [("messageStart", {"role": "assistant"})]
    events += [("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}) for text in texts]
    pieces = []
    for index, call in enumerate(calls, 1):
        start = {"toolUse": {"toolUseId": f"t{index}", "name": "f"}}
        events.append(("contentBlockStart", {"contentBlockIndex": index, "start": start}))
        pieces += [(index, piece) for piece in call]
    # Fragments of one call keep their order, those of different calls mix.
    order = draw(st.permutations([index for index, _ in pieces]))
    queues = {index: [piece for one, piece in pieces if one == index] for index, _ in pieces}
    for index in order:
        delta = {"toolUse": {"input": queues[index].pop(0)}}
        events.append(("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}))
    events.append(("messageStop", {"stopReason": "end_turn"}))
    events.append(("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2}}))
    return events, "".join(texts), ["".join(call) for call in calls]


@st.composite
def converse_body(draw: Any) -> StreamBody:
    events, text, calls = draw(converse_events())
    return StreamBody("aws.bedrock_converse", converse_stream(*events), text, calls, MEDIA_TYPE)


@st.composite
def nova_body(draw: Any) -> StreamBody:
    """The same events by InvokeModel: each packed by itself."""
    events, text, calls = draw(converse_events())
    body = b"".join(chunk({name: value}) for name, value in events)
    return StreamBody("aws.bedrock_invoke", body, text, calls, MEDIA_TYPE)


@st.composite
def llama_body(draw: Any) -> StreamBody:
    texts = draw(FRAGMENTS)
    body = b"".join(chunk({"generation": text, "stop_reason": None}) for text in texts)
    body += chunk({"generation": "", "stop_reason": "stop", "prompt_token_count": 3, "generation_token_count": 4})
    return StreamBody("aws.bedrock_invoke", body, "".join(texts), [], MEDIA_TYPE)


@st.composite
def gemini_body(draw: Any) -> StreamBody:
    """Events or an array; each call is whole, and its arguments keep their spelling."""
    texts, calls = draw(FRAGMENTS), draw(st.lists(ARGUMENTS, max_size=3))
    parts = [json.dumps({"text": text}, ensure_ascii=draw(st.booleans())) for text in texts]
    parts += ['{"functionCall": {"name": "f", "args": ' + call + "}}" for call in calls]
    chunks = ['{"candidates": [{"content": {"role": "model", "parts": [' + part + "]}}]}" for part in parts]
    chunks.append(
        '{"candidates": [{"finishReason": "STOP"}], "responseId": "r", "modelVersion": "m", '
        '"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}}'
    )
    if draw(st.booleans()):
        body, media_type = "[" + draw(st.sampled_from([",", "\n,\r\n"])).join(chunks) + "]\n", "application/json"
    else:
        end = draw(ENDS).decode()
        body, media_type = "".join(f"data: {one}{end}{end}" for one in chunks), "text/event-stream"
    return StreamBody("google.generate_content", body.encode(), "".join(texts), calls, media_type)


@st.composite
def interaction_body(draw: Any) -> StreamBody:
    texts, calls = draw(FRAGMENTS), draw(st.lists(FRAGMENTS, max_size=2))
    made: list[dict[str, Any]] = [
        {"type": "interaction.created", "interaction": {"id": "i", "status": "in_progress", "model": "m"}},
        {"type": "step.start", "index": 0, "step": {"type": "model_output"}},
    ]
    made += [{"type": "step.delta", "index": 0, "delta": {"type": "text", "text": text}} for text in texts]
    for index, call in enumerate(calls, 1):
        step = {"type": "function_call", "id": f"c{index}", "name": "f", "arguments": {}}
        made.append({"type": "step.start", "index": index, "step": step})
        made += [
            {"type": "step.delta", "index": index, "delta": {"type": "arguments_delta", "arguments": piece}}
            for piece in call
        ]
    usage = {"total_input_tokens": 1, "total_output_tokens": 2}
    last = {"id": "i", "status": "completed", "model": "m", "usage": usage}
    made.append({"type": "interaction.completed", "interaction": last})
    body = framed(made, named=True, end=draw(ENDS), ascii_only=draw(st.booleans()))
    # The events name themselves under another name than `framed` reads it from.
    return StreamBody(
        "google.interactions",
        body.replace(b'"type": "interaction.', b'"event_type": "interaction.').replace(
            b'"type": "step.', b'"event_type": "step.'
        ),
        "".join(texts),
        ["".join(call) or "{}" for call in calls],  # where no piece came, what the start of the step said
    )


def any_cloud_stream() -> st.SearchStrategy[StreamBody]:
    return st.one_of(converse_body(), nova_body(), llama_body(), gemini_body(), interaction_body())

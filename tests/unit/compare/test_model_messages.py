"""Requests without what providers draw anew: ids by their order, opaque tokens aside, tools' own values untouched."""

from __future__ import annotations

import pytest

from otel_agent_replay.compare.model_messages import settled_request

BEDROCK = {
    "messages": [
        {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "AB"}}},
            {"toolUse": {"toolUseId": "tooluse_9f", "name": "f", "input": {"id": "order 7"}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "tooluse_9f", "content": [{"text": "ok"}]}}]},
    ]
}  # fmt: skip
GEMINI = {
    "contents": [
        {"role": "model", "parts": [
            {"functionCall": {"id": "x1", "name": "f", "args": {"id": "order 7"}}, "thoughtSignature": "AB"}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "x1", "name": "f", "response": {"id": "order 7"}}}]},
    ]
}  # fmt: skip
INTERACTION = {
    "previous_interaction_id": "v1_a",
    "input": [
        {"type": "function_call", "id": "c1", "name": "f", "arguments": {"id": "order 7"}},
        {"type": "function_result", "call_id": "c1", "result": "ok"},
    ],
}


@pytest.mark.parametrize(
    ("request_body", "ids"),
    [(BEDROCK, ["AB", "tooluse_9f"]), (GEMINI, ["x1", "AB"]), (INTERACTION, ["v1_a", "c1"])],
    ids=["bedrock", "gemini", "interactions"],
)
def test_ids_keep_their_links_and_arguments_their_content(request_body, ids):
    """A call and its result still belong together; an `id` among a tool's values is content and stays."""
    settled, seen = settled_request(request_body)
    assert sorted(seen) == sorted(ids)
    text = repr(settled)
    assert not any(one in text.replace("order", "") for one in ids)
    linked = [one for one in ids if one not in ("AB", "v1_a")]
    assert text.count("order 7") == repr(request_body).count("order 7")
    assert text.count(f"'id {seen.index(linked[0]) + 1}'") == 2


def test_arguments_that_are_text_come_back_as_values():
    """Spelling of a call's arguments is no difference, also where the call is named by its type."""
    call = {"type": "function_call", "call_id": "c", "arguments": '{"a":  1}'}
    settled, _ = settled_request({"input": [call]})
    assert settled["input"][0]["arguments"] == {"a": 1}

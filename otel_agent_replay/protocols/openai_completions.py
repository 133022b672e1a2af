"""OpenAI Completions (`/completions`, one text in, one out), as OpenAI, vLLM, llama.cpp, Together and Writer speak it.

An answer is read as a Chat Completions one whose choices hold text. Writer's streams are `{"value": "..."}` and have
no end mark: nothing tells whether such a stream is whole, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Folded, Message, RequestMessages
from otel_agent_replay.protocols.glance import glancing, sse_glance
from otel_agent_replay.protocols.json_text import as_count, as_object, as_objects, mend_all, parse_object
from otel_agent_replay.protocols.openai_chat_fold import ChatReducer
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.provider_error import error_of_body, malformed
from otel_agent_replay.protocols.stream import sse_framing

_MARKERS = (b'"finish_reason":"', b'"finish_reason": "', b'"usage":{', b'"usage": {', b'"error":')
NO_END_MARK = "the stream has no end mark: nothing tells whether it is whole"


class CompletionReducer:
    """Takes the objects of one answer in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int, *, streamed: bool = True) -> None:
        self._chat = ChatReducer(status, streamed=streamed)
        self._bare = False

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take a `text_completion`, a piece of one, Writer's `{"value"}` or an error object."""
        if "value" in value and "choices" not in value:
            self._bare = True
            choices = [{"index": 0, "delta": {"content": value["value"]}}]
        else:
            choices = [_as_chat(choice) for choice in as_objects(value.get("choices"))]
        self._chat.add(name, {**value, "choices": choices})

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold."""
        unmarked = self._bare and not ended and not problems
        said = (*problems, NO_END_MARK) if unmarked else problems
        return self._chat.result(ended=ended or unmarked, problems=said)


def _as_chat(choice: dict[str, Any]) -> dict[str, Any]:
    if "text" not in choice:
        return choice  # a completion of code (Mistral's `fim`) is answered with messages
    return {**choice, "delta": {"content": choice["text"]}, "message": None}


def _fold(body: bytes, status: int) -> Folded:
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    answer = parse_object(body)
    if answer is None:
        return malformed(body, status, "completion")
    reducer = CompletionReducer(status, streamed=False)
    reducer.add("message", answer)
    return reducer.result(ended=True)


def _request_facts(body: bytes) -> Facts:
    outer = parse_object(body) or {}
    found = facts.request_facts(outer, limits=("max_tokens",), stops="stop")
    choices = as_count(outer.get("n"))
    if choices is not None and choices != 1:
        found[semconv.REQUEST_CHOICE_COUNT] = choices
    return found


def _messages(body: bytes) -> RequestMessages:
    """Every prompt is a message of its own: the server answers each of them."""
    request = as_object(mend_all(parse_object(body) or {}))
    prompt = request.get("prompt")
    if not isinstance(prompt, list) or all(isinstance(item, int) for item in prompt):
        prompt = [prompt]
    return RequestMessages(messages=[_message(one) for one in prompt if one])


def _message(prompt: Any) -> Message:
    part = {"type": "text", "content": prompt} if isinstance(prompt, str) else {"type": "token_ids", "content": prompt}
    return {"role": "user", "parts": [part]}


OPENAI_COMPLETIONS = Protocol(
    name="openai.completions",
    operation="text_completion",
    own_provider="openai",
    facts_of_request=facts.at_deployment(_request_facts),
    request_messages=_messages,
    framing=sse_framing,
    facts_of_answer=glancing(sse_glance(_MARKERS)),
    reducer=CompletionReducer,
    fold_whole=_fold,
)

"""Hugging Face text generation (`/generate`, `/generate_stream`, the root of an endpoint): one text in, one out.

A stream has a token an event and the whole text in its last one; without details nothing tells why it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Folded, ProviderError, RequestMessages, Usage
from otel_agent_replay.protocols.glance import glancing, sse_glance
from otel_agent_replay.protocols.json_text import as_count, as_object, as_text, mend_all, parse, parse_object
from otel_agent_replay.protocols.one_message import one_message
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of, error_of_body, malformed
from otel_agent_replay.protocols.stream import sse_framing
from otel_agent_replay.protocols.text import TextPieces, join

_MARKERS = (b'"generated_text":"', b'"generated_text": "', b'"error"')


class GenerationReducer:
    """Takes the objects of one answer in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.tokens = TextPieces()
        self.end: dict[str, Any] | None = None
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one token, the end of a stream or an error."""
        del name
        token = as_object(value.get("token"))
        if not token.get("special"):
            self.tokens.add(token.get("text"))
        if isinstance(value.get("generated_text"), str):
            self.end = value
        if value.get("error"):
            found = value["error"]
            described = {"type": value.get("error_type"), "message": found} if isinstance(found, str) else found
            self.error = self.error or error_of(described, self.status)

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold. Only the whole text ends a stream."""
        del ended
        self.problems.extend(problems)
        details = as_object((self.end or {}).get("details"))
        error = self.error
        if error is None and self.end is None:
            error = ProviderError(TRUNCATED)
        text = join(self.tokens, "text", self.problems) if self.end is None else self.end["generated_text"]
        given, made = as_count(details.get("input_length")), as_count(details.get("generated_tokens"))
        return one_message(
            text=text,
            finish_reason=as_text(details.get("finish_reason")),
            usage=None if given is None and made is None else Usage(input_tokens=given, output_tokens=made),
            error=error,
            problems=self.problems,
        )


def _fold(body: bytes, status: int) -> Folded:
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    answer = parse(body)
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, dict) or not ("generated_text" in answer or "error" in answer):
        return malformed(body, status, "generated text")
    reducer = GenerationReducer(status)
    reducer.add("message", answer)
    return reducer.result(ended=True)


def _request_facts(body: bytes) -> Facts:
    outer = parse_object(body) or {}
    settings = {**as_object(outer.get("parameters")), "stream": outer.get("stream"), "model": outer.get("model")}
    return facts.request_facts(settings, limits=("max_new_tokens",), stops="stop")


def _messages(body: bytes) -> RequestMessages:
    given = as_text(as_object(mend_all(parse_object(body) or {})).get("inputs"))
    return RequestMessages(messages=[{"role": "user", "parts": [{"type": "text", "content": given}]}] if given else [])


HUGGINGFACE_GENERATION = Protocol(
    name="huggingface.text_generation",
    operation="text_completion",
    own_provider="huggingface",
    facts_of_request=facts.at_deployment(_request_facts),
    request_messages=_messages,
    framing=sse_framing,
    facts_of_answer=glancing(sse_glance(_MARKERS)),
    reducer=GenerationReducer,
    fold_whole=_fold,
)

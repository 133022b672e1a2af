"""Anthropic's API before Messages (`/v1/complete`): one text in, one out. Retired, but recordings of it are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_agent_replay.protocols import facts
from otel_agent_replay.protocols.folded import Folded, ProviderError, RequestMessages
from otel_agent_replay.protocols.glance import glancing, sse_glance
from otel_agent_replay.protocols.json_text import as_object, as_text, mend_all, parse_object
from otel_agent_replay.protocols.one_message import one_message
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of, error_of_body, malformed
from otel_agent_replay.protocols.stream import sse_framing
from otel_agent_replay.protocols.text import TextPieces, join

_MARKERS = (b'"stop_reason":"', b'"stop_reason": "', b'"error"')


class CompleteReducer:
    """Takes the objects of one answer in order; `result` folds what came. `status` is the answer's HTTP status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.text = TextPieces()
        self.named: dict[str, Any] = {}
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one piece, or the whole answer, which is one piece."""
        kind = value.get("type") or name
        if kind == "error" or value.get("error"):
            self.error = self.error or error_of(value.get("error") or value, self.status)
        elif kind == "completion" or "completion" in value:
            self.text.add(value.get("completion"))
            for key in ("id", "model", "stop_reason"):
                if as_text(value.get(key)):
                    self.named.setdefault(key, value[key])
        elif kind != "ping":
            self.problems.append(f"unknown event type {kind!r}")

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold. Only a stop reason ends an answer."""
        del ended
        self.problems.extend(problems)
        reason = as_text(self.named.get("stop_reason"))
        error = self.error
        if error is None and reason is None:
            error = ProviderError(TRUNCATED)
        return one_message(
            text=join(self.text, "text", self.problems),
            finish_reason=reason,
            error=error,
            response_id=self.named.get("id"),
            model=self.named.get("model"),
            problems=self.problems,
        )


def _fold(body: bytes, status: int) -> Folded:
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    answer = parse_object(body)
    if answer is None or not ("completion" in answer or "error" in answer):
        return malformed(body, status, "completion")
    reducer = CompleteReducer(status)
    reducer.add("completion", answer)
    return reducer.result(ended=True)


def _request_facts(body: bytes) -> Facts:
    outer = parse_object(body) or {}
    return facts.request_facts(outer, limits=("max_tokens_to_sample",), stops="stop_sequences")


def _messages(body: bytes) -> RequestMessages:
    """The prompt holds all turns in one text, which is what the model was given."""
    given = as_text(as_object(mend_all(parse_object(body) or {})).get("prompt"))
    return RequestMessages(messages=[{"role": "user", "parts": [{"type": "text", "content": given}]}] if given else [])


ANTHROPIC_COMPLETE = Protocol(
    name="anthropic.complete",
    operation="text_completion",
    own_provider="anthropic",
    facts_of_request=facts.at_deployment(_request_facts),
    request_messages=_messages,
    framing=sse_framing,
    facts_of_answer=glancing(sse_glance(_MARKERS)),
    reducer=CompleteReducer,
    fold_whole=_fold,
)

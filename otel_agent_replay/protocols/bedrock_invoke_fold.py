"""InvokeModel answers, streamed or not: each maker's own answer, told by its shape and folded as that.

A stream's frames hold base64 of JSON (`chunk`); its first object decides: Anthropic Messages, Amazon Nova (as
Converse), OpenAI-like (`choices`: gpt-oss, Qwen, Jamba, newer Mistral models), else a text model.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from otel_agent_replay.protocols.anthropic_fold import MessageReducer, fold_anthropic
from otel_agent_replay.protocols.aws_stream import MESSAGE_TYPE, stream_error
from otel_agent_replay.protocols.bedrock_converse_fold import EVENTS, ConverseReducer, fold_converse
from otel_agent_replay.protocols.bedrock_invoke_text import METRICS, TextReducer, is_text_answer
from otel_agent_replay.protocols.folded import Folded, ProviderError, without_surrogates
from otel_agent_replay.protocols.json_text import as_text, has_surrogate_escape, parse_object
from otel_agent_replay.protocols.openai_chat_fold import ChatReducer, fold_chat
from otel_agent_replay.protocols.provider_error import MALFORMED, TRUNCATED, error_of_body, malformed
from otel_agent_replay.protocols.stream import EventReducer

CHUNK: Final = "chunk"
"""The name of the events that carry the model's own objects."""

_GUARDRAIL: Final = "amazon-bedrock-guardrailAction"


class InvokeReducer:
    """Takes the frames of one stream in order; `result` folds what came. `wanted` leaves out texts it says no to."""

    def __init__(self, status: int, wanted: Callable[[bytes], bool] | None = None) -> None:
        self.status = status
        self.error: ProviderError | None = None
        self.problems: list[str] = []
        self._wanted = wanted
        self._inner: EventReducer | None = None
        self._ended = False
        self._surrogates = False

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one frame's object, or one of the model's own where the framing has no frames."""
        if MESSAGE_TYPE in value:
            self.error = self.error or stream_error(name, value, self.status)
        elif name == CHUNK and "bytes" in value:
            self._chunk(value["bytes"])
        elif name in (CHUNK, "message"):
            self._add(value)
        else:
            self.problems.append(f"unknown event type {name!r}")

    def _chunk(self, encoded: Any) -> None:
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            data = b""
        if self._wanted is not None and self._inner is not None and not self._wanted(data):
            return
        self._surrogates = self._surrogates or has_surrogate_escape(data)
        try:
            value = parse_object(data.decode("utf-8"))
        except UnicodeDecodeError:
            value = None
        if value is None:
            problem = f"a chunk holds no base64 of a JSON object: {str(encoded)[:60]!r}"
            self.problems.append(problem)
            self.error = self.error or ProviderError(MALFORMED, problem, None, self.status)
        else:
            self._add(value)

    def _add(self, value: dict[str, Any]) -> None:
        if self._inner is None:
            self._inner = _reducer_for(value, self.status)
        self._ended = self._ended or METRICS in value or value.get(_GUARDRAIL) == "INTERVENED"
        self._inner.add("message", value)

    @property
    def cached_apart(self) -> bool:
        """Whether the model's input tokens leave the cached ones out: only OpenAI-like ones put them in."""
        return not isinstance(self._inner, ChatReducer)

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold; what a frame said went wrong is the error, whatever the model's own objects say."""
        found = tuple(dict.fromkeys((*self.problems, *problems)))
        if self._inner is None:
            return Folded(complete=False, error=self.error or ProviderError(TRUNCATED), problems=found)
        folded = self._inner.result(ended=ended or self._ended, problems=found)
        if self._surrogates:
            folded = without_surrogates(folded)
        return folded if self.error is None else replace(folded, complete=False, error=self.error)


def _reducer_for(first: dict[str, Any], status: int) -> EventReducer:
    if "choices" in first:
        return ChatReducer(status)
    if EVENTS & first.keys():
        return ConverseReducer(status)
    return MessageReducer(status) if as_text(first.get("type")) else TextReducer(status)


def fold_invoke(body: bytes, status: int) -> Folded:
    """Fold an InvokeModel answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=error_of_body(body, status))
    answer = parse_object(body)
    if answer is None:
        return malformed(body, status, "model's answer")
    if "choices" in answer:
        return fold_chat(body, status)
    if "output" in answer:
        return fold_converse(body, status)
    if as_text(answer.get("type")) and not is_text_answer(answer):
        return fold_anthropic(body, status)
    reducer = TextReducer(status)
    reducer.add("message", answer)
    return reducer.result(ended=True)

"""The shapes in which a provider's exchange leaves this package: one answer folded, one request read.

Pure data. Who fills them: the `*_fold` and `*_messages` modules of each protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from otel_agent_replay.protocols.json_text import compact, mend, mend_all, parse

Part = dict[str, Any]
"""One part of a message in OpenTelemetry's GenAI form, for example `{"type": "text", "content": "hello"}`."""

Message = dict[str, Any]
"""`{"role": ..., "parts": [Part, ...]}`, for answers with `finish_reason` too."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for. `arguments_raw` is the text of the wire, never re-written, empty when none came."""

    id: str | None
    name: str
    arguments_raw: str
    arguments_valid_json: bool

    @property
    def arguments(self) -> Any:
        """The arguments as values: `{}` when the text is empty, None when it is not JSON."""
        return parse(self.arguments_raw) if self.arguments_raw.strip() else {}


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the wire gives them, None where it is silent. Nothing is added up.

    Providers differ in what `input_tokens` holds: Anthropic leaves the cached tokens out, OpenAI puts them in.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ProviderError:
    """Why a call failed, in the provider's words. `type` is `stream_truncated` when the body just ended."""

    type: str
    message: str | None = None
    code: str | int | None = None
    http_status: int | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """A whole answer, streamed or not, as one value.

    `complete` says that the call ended as its protocol wants a call to end. `text`, `reasoning`, `refusal`,
    `tool_calls` and `finish_reason` are of the first choice; `output_messages` has every choice. `problems` names
    what was malformed or unknown: such things are kept in the recorded bytes, and said here, never dropped silently.
    """

    complete: bool
    finish_reason: str | None = None
    text: str = ""
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    usage: Usage | None = None
    error: ProviderError | None = None
    response_id: str | None = None
    model: str | None = None
    output_messages: Sequence[Message] = ()
    problems: Sequence[str] = ()


def joined_content(parts: Sequence[Part], kind: str) -> str:
    """The text of all parts of one kind, in order."""
    contents = (part.get("content") for part in parts if part.get("type") == kind)
    return "".join(content for content in contents if isinstance(content, str))


def without_surrogates(folded: Folded) -> Folded:
    """`folded` without surrogates: halves that met are one character, a lone one is U+FFFD and named.

    JSON escapes may leave half a pair in text, which then cannot be written as UTF-8 and takes its whole batch with it.
    """
    texts = ("finish_reason", "text", "reasoning", "refusal", "response_id", "model")
    mended = {name: mend_all(getattr(folded, name)) for name in texts}
    for name in ("output_messages", "problems"):
        mended[name] = tuple(mend_all(item) for item in getattr(folded, name))
    calls = tuple(
        replace(call, id=mend_all(call.id), name=mend_all(call.name), arguments_raw=mend_all(call.arguments_raw))
        for call in folded.tool_calls
    )
    error = folded.error
    if error is not None:
        error = replace(error, type=mend_all(error.type), message=mend_all(error.message), code=mend_all(error.code))
    if mend(compact([folded.output_messages, folded.refusal, folded.response_id, folded.model]))[1]:
        mended["problems"] = (*mended["problems"], "half a surrogate pair in the text is shown as U+FFFD")
    return replace(folded, tool_calls=calls, error=error, **mended)


@dataclass(frozen=True, slots=True)
class RequestMessages:
    """What the model was given, in OpenTelemetry's GenAI form.

    `system` holds instructions that travel apart from the conversation; system messages inside it stay in `messages`.
    """

    system: list[Part] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)

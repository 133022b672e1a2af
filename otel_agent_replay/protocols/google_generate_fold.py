"""Gemini's answers, streamed (as events or as an array) or not, folded into one value.

Every object of a stream has the shape of a whole answer; texts of the same kind are put together, calls come whole or
as partial arguments. Usage is cumulative: the last object that counts something wins. The end of the body is no success
by itself: each candidate needs a finish reason, or the prompt a reason to be blocked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from otel_agent_replay.protocols.folded import Folded, Message, Part, ProviderError, ToolCall, Usage, joined_content
from otel_agent_replay.protocols.google_arguments import PartialArguments
from otel_agent_replay.protocols.google_parts import google_part, is_known, named, with_arguments
from otel_agent_replay.protocols.json_text import (
    as_count,
    as_object,
    as_objects,
    as_text,
    check_arguments,
    parse,
    parse_object,
)
from otel_agent_replay.protocols.provider_error import TRUNCATED, error_of_body, malformed

# A finish reason that says the model was kept from answering; `finishMessage` then is the refusal.
_REFUSALS: Final = frozenset(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY")
)


class Candidate:
    """One candidate while its pieces arrive."""

    def __init__(self) -> None:
        self.role: str | None = None
        self.parts: list[Part] = []
        self._texts: dict[int, list[str]] = {}  # place of a part -> the pieces of its text
        self.finish_reason: str | None = None
        self.finish_message: str | None = None
        self._partial: PartialArguments | None = None

    def add(self, candidate: dict[str, Any], problems: list[str]) -> None:
        """Take what one object says of it."""
        content = as_object(candidate.get("content"))
        self.role = as_text(content.get("role")) or self.role
        for part in as_objects(content.get("parts")):
            self._add_part(part, problems)
        self.finish_reason = as_text(candidate.get("finishReason")) or self.finish_reason
        self.finish_message = as_text(candidate.get("finishMessage")) or self.finish_message

    def _add_part(self, part: dict[str, Any], problems: list[str]) -> None:
        call = named(part, "functionCall")
        if isinstance(call, dict) and (self._partial is not None or call.get("willContinue") or "partialArgs" in call):
            self._add_call(part, call, problems)
            return
        if not is_known(part):
            problems.append(f"a part of unknown kind: {', '.join(sorted(part)[:5])}")
        made = google_part(part)
        if made["type"] not in ("text", "reasoning"):
            self.parts.append(made)
        elif self.parts and self.parts[-1]["type"] == made["type"]:
            self._texts[len(self.parts) - 1].append(made["content"])
            self.parts[-1].update({key: value for key, value in made.items() if key == "signature"})
        elif made["content"] or "signature" in made:
            self._texts[len(self.parts)] = [made["content"]]
            self.parts.append(made)

    def _add_call(self, part: dict[str, Any], call: dict[str, Any], problems: list[str]) -> None:
        """Take a piece of a call that streams: a name begins one, the first piece that does not go on ends it."""
        if call.get("name") or self._partial is None:
            self._end_call()
            self.parts.append(google_part({**part, "functionCall": {**call, "args": None}}))
            self._partial = PartialArguments()
        self._partial.add(call.get("partialArgs"), problems)
        if not call.get("willContinue"):
            self._end_call()

    def _end_call(self) -> None:
        if self._partial is not None:
            started = next(made for made in reversed(self.parts) if made["type"] == "tool_call")
            started["arguments"] = self._partial.text()
            self._partial = None

    def message(self) -> Message:
        """The candidate as a message."""
        self._end_call()
        parts = list(self.parts)
        for place, pieces in self._texts.items():
            parts[place] = {**parts[place], "content": "".join(pieces)}
        role = "assistant" if self.role in (None, "model") else self.role
        return {"role": role, "parts": parts, "finish_reason": self.finish_reason}


class GenerateReducer:
    """Takes the objects of one answer in order; `result` folds what came."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.candidates: dict[int, Candidate] = {}
        self.usage: dict[str, Any] = {}
        self.blocked: dict[str, Any] = {}
        self.response_id: str | None = None
        self.model: str | None = None
        self.error: ProviderError | None = None
        self.problems: list[str] = []

    def add(self, name: str, value: dict[str, Any]) -> None:
        """Take one object: a `GenerateContentResponse`, or an error."""
        del name
        self.response_id = self.response_id or as_text(value.get("responseId"))
        self.model = self.model or as_text(value.get("modelVersion"))
        if value.get("error"):
            self.error = self.error or google_error(value["error"], self.status)
        usage = as_object(value.get("usageMetadata"))
        if any(key.endswith("TokenCount") for key in usage):
            self.usage = usage
        feedback = as_object(value.get("promptFeedback"))
        if feedback.get("blockReason"):
            self.blocked = feedback
        for candidate in as_objects(value.get("candidates")):
            index = as_count(candidate.get("index")) or 0
            self.candidates.setdefault(index, Candidate()).add(candidate, self.problems)

    def result(self, *, ended: bool, problems: Sequence[str] = ()) -> Folded:
        """Fold. `ended` says that the body was whole by its own account: JSON that parsed, a closed array."""
        self.problems.extend(problems)
        candidates = [self.candidates[index] for index in sorted(self.candidates)]
        finished = bool(candidates) and all(candidate.finish_reason for candidate in candidates)
        error = self.error
        if error is None and not finished and not ended and not self.blocked:
            error = ProviderError(TRUNCATED)
        if not candidates and not self.blocked and error is None:
            self.problems.append("the answer has no candidates")
        messages = [candidate.message() for candidate in candidates]
        blocked = as_text(self.blocked.get("blockReason"))
        if not messages and blocked:
            messages = [{"role": "assistant", "parts": [], "finish_reason": blocked}]
        first: Message = messages[0] if messages else {"parts": [], "finish_reason": None}
        return Folded(
            complete=error is None and bool(messages),
            finish_reason=first["finish_reason"],
            text=joined_content(first["parts"], "text"),
            reasoning=joined_content(first["parts"], "reasoning") or None,
            refusal=self._refusal(candidates),
            tool_calls=_tool_calls(first["parts"], self.problems),
            usage=google_usage(self.usage),
            error=error,
            response_id=self.response_id,
            model=self.model,
            output_messages=tuple(messages),
            problems=tuple(dict.fromkeys(self.problems)),
        )

    def _refusal(self, candidates: list[Candidate]) -> str | None:
        if not candidates:
            return as_text(self.blocked.get("blockReasonMessage"))
        first = candidates[0]
        return first.finish_message if first.finish_reason in _REFUSALS else None


def fold_generate(body: bytes, status: int) -> Folded:
    """Fold an answer that is no stream. Never raises."""
    if status >= 400:
        return Folded(complete=False, error=google_error_of_body(body, status))
    answer = parse_object(body)
    if answer is None:
        return malformed(body, status, "generated content")
    if b'"args"' in body:
        answer["candidates"] = with_arguments(body, "candidates", ("content", "parts"))
    reducer = GenerateReducer(status)
    reducer.add("message", answer)
    return reducer.result(ended=True)


def read_generated(text: str, value: dict[str, Any]) -> dict[str, Any]:
    """An object of an answer with the arguments of its calls as the text of the wire: a `stream.Reader`."""
    if '"args"' in text:
        value["candidates"] = with_arguments(text.encode("utf-8", "surrogatepass"), "candidates", ("content", "parts"))
    return value


def google_error(value: Any, status: int) -> ProviderError:
    """The error in `value`, which is what Google put under `error`; its type is the status word, not the number."""
    found = as_object(value)
    kind = as_text(found.get("status")) or f"http_{as_count(found.get('code')) or status}"
    code = found.get("code")
    return ProviderError(kind, as_text(found.get("message")), code if isinstance(code, (int, str)) else None, status)


def google_error_of_body(body: bytes, status: int) -> ProviderError:
    """The error in the body of an answer whose status says that there is one."""
    value = parse(body)
    if isinstance(value, list) and value:
        value = value[0]
    inner = as_object(value).get("error")
    return google_error(inner, status) if isinstance(inner, dict) else error_of_body(body, status)


def google_usage(usage: dict[str, Any]) -> Usage | None:
    """The counts of a usage object. Thoughts are apart from the output, cached tokens are within the input."""
    if not usage:
        return None
    return Usage(
        input_tokens=as_count(usage.get("promptTokenCount")),
        output_tokens=as_count(usage.get("candidatesTokenCount")),
        cache_read_input_tokens=as_count(usage.get("cachedContentTokenCount")),
        reasoning_tokens=as_count(usage.get("thoughtsTokenCount")),
    )


def _tool_calls(parts: list[Part], problems: list[str]) -> tuple[ToolCall, ...]:
    calls = []
    for part in parts:
        if part["type"] == "tool_call":
            raw = part["arguments"]
            valid, oddity = check_arguments(raw)
            calls.append(ToolCall(as_text(part["id"]), str(part["name"] or ""), raw, valid))
            if oddity:
                problems.append(f"arguments of tool call {part['name']!r} have {oddity}")
    return tuple(calls)

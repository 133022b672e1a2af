"""What of a model request can be changed by name: its prompt, its messages, its tools, any member.

`edit_shapes` says where each protocol keeps them. Everything outside the named part keeps its exact characters
(`json_edit`), so tool call ids, thinking signatures and cached prefixes stay as they are. Every function takes and
returns the text of a request; doing the same edit twice is doing it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.protocols.edit_shapes import Shape
from otel_agent_replay.protocols.json_edit import replaced, with_elements, with_value, without_elements, written
from otel_agent_replay.protocols.json_spans import Span, elements, member, members

_TEXTS = ("text", "input_text")
_SYSTEM_ROLES = ("system", "developer")
_RESULTS = frozenset({"toolResult", "functionResponse", "function_response"})


def with_prompt(text: str, shape: Shape, prompt: str) -> str:
    """Return the request with `prompt` as its whole system prompt; put in where it had none."""
    for name in filter(None, (shape.prompt, shape.prompt_too)):
        found = member(text, 0, name)
        if found is not None and found.value is not None:
            return _with_system(text, found, prompt, shape)
    leading = _leading(text, shape) if shape.leads else []
    if leading:
        text = without_elements(text, _conversation(text, shape).start, range(1, len(leading)))
        return _with_content(text, _content_of(text, leading[0], shape), prompt, shape)
    if shape.prompt:
        return with_value(text, (shape.prompt,), shape.system(prompt))
    if shape.one_text:
        raise ConfigurationError("a request of this protocol has no system prompt; change last_user_message= instead")
    return with_elements(text, _conversation(text, shape).start, 0, [{"role": "system", "content": prompt}])


def with_messages(text: str, shape: Shape, contents: Sequence[str], at: int | None = None) -> str:
    """Return the request with user messages of these contents before message `at`, at the end when it is None."""
    if shape.one_text:
        raise ConfigurationError("a request of this protocol is one text; change it by last_user_message=")
    new = [shape.message(content) for content in contents]
    conversation = member(text, 0, shape.conversation)
    if conversation is not None and isinstance(conversation.value, str):
        first = {"role": "user", "content": conversation.value}
        return replaced(text, [(conversation.start, conversation.end, written(text, [first, *new]))])
    conversation = _conversation(text, shape)
    there = conversation.value
    place = len(there) if at is None else min(at, len(there))
    if there[place : place + len(new)] == new or (at is None and there[-len(new) :] == new):
        return text
    return with_elements(text, conversation.start, place, new)


def with_user_message(text: str, shape: Shape, content: str, at: int | None = None) -> str:
    """Return the request with `content` as the text of user message `at`, of the last one when it is None."""
    conversation = member(text, 0, shape.conversation)
    if conversation is not None and isinstance(conversation.value, str):
        return replaced(text, [(conversation.start, conversation.end, written(text, content))])
    conversation = _conversation(text, shape)
    place = last_user_message(conversation.value) if at is None else at
    if place is None or not place < len(conversation.value):
        raise ConfigurationError("the request has no user message with a text to replace")
    message = list(elements(text, conversation.start))[place]
    return _with_content(text, _content_of(text, message, shape), content, shape)


def last_user_message(messages: Sequence[Any]) -> int | None:
    """Return the place of the last message of the user that holds text, before any that also brings tool results."""
    users = [
        place
        for place, message in enumerate(messages)
        if isinstance(message, dict) and message.get("role") == "user" and _has_text(_said(message))
    ]
    spoken = [place for place in users if not _brings_results(_said(messages[place]))]
    return max(spoken or users, default=None)


def is_prompt(message: Any) -> bool:
    """Whether a message is a system prompt's."""
    return isinstance(message, dict) and message.get("role") in _SYSTEM_ROLES


def messages_of(text: str, shape: Shape) -> list[Any]:
    """Return the messages of a request; a conversation that is one text is one message of the user."""
    found = member(text, 0, shape.conversation)
    value = None if found is None else found.value
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return value if isinstance(value, list) else []


def changed_members(before: bytes, after: bytes) -> list[str]:
    """Return the names of the members that two requests do not share, those of the later one first."""
    old, new = _written_members(before), _written_members(after)
    return [name for name in {**new, **old} if new.get(name) != old.get(name)]


def _written_members(body: bytes) -> dict[str, str]:
    text = body.decode("utf-8")
    return {span.key: text[span.start : span.end] for span in members(text)}


def _conversation(text: str, shape: Shape) -> Span:
    found = member(text, 0, shape.conversation)
    if found is None or not isinstance(found.value, list):
        raise ConfigurationError(f"the request has no array {shape.conversation!r}")
    return found


def _leading(text: str, shape: Shape) -> list[Span]:
    """Return the system messages that the conversation begins with."""
    conversation = member(text, 0, shape.conversation)
    if conversation is None or not isinstance(conversation.value, list):
        return []
    leading = []
    for message in elements(text, conversation.start):
        if not is_prompt(message.value):
            break
        leading.append(message)
    return leading


def _content_of(text: str, message: Span, shape: Shape) -> Span:
    found = member(text, message.start, shape.parts)
    if found is None:
        raise ConfigurationError(f"the message to be edited has no content: {text[message.start : message.end][:80]}")
    return found


def _with_system(text: str, found: Span, new: str, shape: Shape) -> str:
    """Return `text` with `new` as the whole text of its system prompt, which may have its parts in a member."""
    inner = member(text, found.start, shape.prompt_parts) if isinstance(found.value, dict) else None
    if inner is not None:
        return _with_content(text, inner, new, shape)
    if isinstance(found.value, dict):
        return replaced(text, [(found.start, found.end, written(text, shape.system(new)))])
    return _with_content(text, found, new, shape)


def _with_content(text: str, content: Span, new: str, shape: Shape) -> str:
    """Return `text` with `new` as the whole text of a content; parts that are no text (images, results) stay.

    Of several text parts one is left: the last that marks a cached prefix, else the first.
    """
    if content.value == new:
        return text
    parts = list(elements(text, content.start)) if isinstance(content.value, list) else []
    places = [place for place, part in enumerate(parts) if _is_text(part.value)]
    if not places:
        if content.value == shape.content(new):
            return text
        return replaced(text, [(content.start, content.end, written(text, shape.content(new)))])
    kept = max((place for place in places if parts[place].value.get("cache_control")), default=places[0])
    inner = member(text, parts[kept].start, "text")
    if inner is None:
        raise AssertionError("a text part has a text")
    if inner.value != new:
        # Behind everything that goes, or before it: either way the places found so far hold.
        later = [place for place in places if place > kept]
        text = without_elements(text, content.start, later)
        text = replaced(text, [(inner.start, inner.end, written(text, new))])
        places = [place for place in places if place <= kept]
    return without_elements(text, content.start, [place for place in places if place != kept])


def _said(message: dict[str, Any]) -> Any:
    """Return the content of a message; Gemini calls it parts."""
    return message.get("content", message.get("parts"))


def _is_text(part: Any) -> bool:
    """Whether a part is text of the speaker's: typed as such, or without a type (Bedrock, Gemini) and no thought."""
    if not isinstance(part, dict) or not isinstance(part.get("text"), str):
        return False
    return part.get("type", "text") in _TEXTS and not part.get("thought")


def _has_text(content: Any) -> bool:
    return isinstance(content, str) or (isinstance(content, list) and any(map(_is_text, content)))


def _brings_results(content: Any) -> bool:
    parts = content if isinstance(content, list) else ()
    return any(
        isinstance(part, dict) and (part.get("type") == "tool_result" or _RESULTS & part.keys()) for part in parts
    )

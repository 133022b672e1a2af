"""Where the parts of a request body lie that repeat from one request to the next, so that each can be stored once.

An agent's request repeats all messages before it. Cut at the borders of its messages, a body is a list of pieces, most
of them seen before; put together in order they are the body again, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from otel_agent_replay.protocols.json_spans import Span, elements, members, more_elements, more_members

Range = tuple[int, int, str]
"""`(start, end, role)`: bytes `start` to `end` of the body."""

BLOB_BYTES = 16384
"""A base64 text at least this long gets a range of its own."""

ENVELOPE = "envelope"
BLOB = "blob"

_CONVERSATIONS = {
    "openai.chat_completions": "messages",
    "openai.responses": "input",
    "openai.completions": "prompt",
    "anthropic.messages": "messages",
    "cohere.chat": "messages",
    "cohere.chat_v1": "chat_history",
    "ollama.chat": "messages",
    "ollama.generate": "prompt",
    "anthropic.complete": "prompt",
    "huggingface.text_generation": "inputs",
    "google.generate_content": "contents",
    "google.interactions": "input",
    "aws.bedrock_converse": "messages",
    "aws.bedrock_invoke": "messages",
    "otel.messages": "messages",
}
_WHOLE = {
    "system": "system",
    "instructions": "system",
    "preamble": "system",
    "systemInstruction": "system",
    "system_instruction": "system",
    "system_instructions": "system",
    "message": "user",
    "inputText": "user",
    "tools": "tools",
    "toolConfig": "tools",
    "functions": "tools",
}
_ROLES = {"USER": "user", "CHATBOT": "assistant", "SYSTEM": "system", "TOOL": "tool"}  # Cohere's first version
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"


class Cut(NamedTuple):
    """Ranges of a body, in order, and where its messages end: what lies before such a place says all of what is there.

    A body that begins with the same bytes up to the end of a message is cut the same up to there.
    """

    ranges: list[Range]
    message_ends: list[int]


def conversation_of(name: str) -> str:
    """Return the member of a request of the protocol `name` that holds its messages; "" where it is not known."""
    return _CONVERSATIONS.get(name, "")


def split_request(name: str, body: bytes) -> list[Range]:
    """Cut `body`, a request of the protocol `name`, into ranges that tile it: joined in order they give it back.

    A message (or input item) is one range, with the comma before it; its role is the message's, or an item's type.
    `system` and `tools` are ranges of their own, a large base64 text (an image) is a range `blob`, and what is left
    between is `envelope`. Empty when `body` is not JSON of that shape. Linear in the size of the body.
    """
    return cut_request(name, body).ranges


def cut_request(name: str, body: bytes, at: int = 0) -> Cut:
    """Return `split_request` and where messages end. With `at`, where a message ends: of what lies behind it."""
    conversation = _CONVERSATIONS.get(name)
    if conversation is None:
        return Cut([], [])
    try:
        text = body[at:].decode("utf-8")
        marks = list(_marks_after_message(text, conversation) if at else _marks(members(text), text, conversation))
    except ValueError:
        return Cut([], [])
    if not marks and not at:
        return Cut([], [])
    ranges = _to_bytes(text, marks, at)
    ends = [end for (_, end, _), mark in zip(ranges, marks, strict=True) if mark.ends_message]
    return Cut(list(_tiles(body, ranges, at)), ends)


class _Mark(NamedTuple):
    start: int
    end: int
    role: str
    ends_message: bool = False
    """Whether it ends with the brace of a message, so that what follows cannot change what it is."""


def _marks(found: Iterator[Span], text: str, conversation: str) -> Iterator[_Mark]:
    """The ranges in characters, in order."""
    for span in found:
        if span.key == conversation:
            yield from _turns(text, span)
        elif span.key in _WHOLE:
            yield _Mark(span.start, span.end, _WHOLE[span.key])


def _marks_after_message(text: str, conversation: str) -> Iterator[_Mark]:
    """The same of what follows a message: the messages after it, then the members after the conversation."""
    end = 0
    for mark in _messages(more_elements(text, 0), 0):
        yield mark
        end = mark.end
    yield from _marks(more_members(text, text.index("]", end) + 1), text, conversation)


def _turns(text: str, span: Span) -> Iterator[_Mark]:
    # A list of something else than objects is a prompt of texts or of tokens.
    if not isinstance(span.value, list) or (span.value and not isinstance(span.value[0], dict)):
        yield _Mark(span.start, span.end, "user")
        return
    yield from _messages(elements(text, span.start), None)


def _messages(found: Iterator[Span], before: int | None) -> Iterator[_Mark]:
    for element in found:
        is_object = isinstance(element.value, dict)
        value = element.value if is_object else {}
        role = value.get("role") or value.get("type")
        role = _ROLES.get(role, role) if isinstance(role, str) else ""
        # The comma belongs to the message after it: a message then has the same bytes whether or not one follows.
        yield _Mark(element.start if before is None else before, element.end, role, is_object)
        before = element.end


def _to_bytes(text: str, marks: list[_Mark], at: int) -> list[Range]:
    if text.isascii():
        return [(at + mark.start, at + mark.end, mark.role) for mark in marks]
    ranges, characters = [], 0
    for mark in marks:
        at += len(text[characters : mark.start].encode())
        size = len(text[mark.start : mark.end].encode())
        ranges.append((at, at + size, mark.role))
        at, characters = at + size, mark.end
    return ranges


def _tiles(body: bytes, ranges: list[Range], at: int) -> Iterator[Range]:
    for start, end, role in ranges:
        if start > at:
            yield (at, start, ENVELOPE)
        yield from _around_blobs(body, start, end, role)
        at = end
    if at < len(body):
        yield (at, len(body), ENVELOPE)


def _around_blobs(body: bytes, start: int, end: int, role: str) -> Iterator[Range]:
    at = start
    for blob_start, blob_end in _blobs(body, start, end):
        yield (at, blob_start, role)
        yield (blob_start, blob_end, BLOB)
        at = blob_end
    if at < end:
        yield (at, end, role)


def _blobs(body: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Stretches of at least BLOB_BYTES base64 characters between two quotes, a `data:...;base64,` before them aside."""
    if end - start < BLOB_BYTES:
        return
    quote = body.find(b'"', start, end)
    while quote >= 0:
        after = body.find(b'"', quote + 1, end)
        if after < 0:
            return
        if after - quote > BLOB_BYTES:
            begin = quote + 1
            if body.startswith(b"data:", begin):
                comma = body.find(b",", begin, begin + 256)
                begin = comma + 1 if comma >= 0 else begin
            content = body[begin:after]
            if len(content) >= BLOB_BYTES and not content.translate(None, _BASE64):
                yield (begin, after)
        quote = after

"""Facts of a request from the members around its conversation, without parsing the conversation.

A 150 KB request is nearly all messages; parsing them costs half a millisecond on the caller's thread, while the facts
lie in the few members around them. So the body is cut where the conversation begins and where it ends, and both ends
are parsed alone; ends seen before (they repeat within a run: same model, same tools) are not even parsed. A cut
inside a string or a nested value cannot pass: the rest of the body is then not one JSON object. Where no cut is found,
the whole body is parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from otel_agent_replay.protocols.json_text import parse_object
from otel_agent_replay.protocols.protocol import Facts

Reader = Callable[[dict[str, Any]], Facts]

_WORTH_KEEPING = 65536
_TRIES = 4
_STAND_IN = b'"":0}'
# Names that follow an array inside messages and items, and are no members of a request.
_INSIDE = frozenset(
    b"role content tool_calls name type id refusal tool_call_id tool_use_id call_id is_error cache_control status "
    b"summary annotations logprobs arguments output encrypted_content reasoning_content signature thinking function "
    b"citations".split()
)


def facts_around(body: bytes, conversation: bytes, read: Reader) -> Facts:
    """What `read` makes of the members of `body`. It may or may not be shown the one named `conversation`.

    `read` must depend on its argument alone. Empty when `body` is no JSON object.
    """
    ends = _ends(body, conversation)  # of a short body too: what was seen before is found quicker than it is parsed
    if ends is not None:
        return dict(_read_ends(read, *ends))
    outer = parse_object(body)
    return {} if outer is None else read(outer)


def _ends(body: bytes, conversation: bytes) -> tuple[bytes, bytes] | None:
    """The body before and after its conversation, each completed to an object; None where no sure cut is found."""
    name = b'"' + conversation + b'":'
    at = body.find(name)
    if at < 0:
        return None
    head = body[:at] + _STAND_IN
    begin = at + len(name)
    spaced = body[begin : begin + 1] == b" "
    # Of objects, or its end would be looked for in the members after it.
    if body[begin + spaced : begin + spaced + 2] != b"[{" or _parsed(head) is None:
        return None
    tail = _tail(body, begin, b'}], "' if spaced else b'}],"')
    return None if tail is None else (head, tail)


def _tail(body: bytes, begin: int, mark: bytes) -> bytes | None:
    at, tries = begin, 0
    while (at := body.find(mark, at)) >= 0:
        at += len(mark)
        if body[at : body.find(b'"', at)] in _INSIDE:
            continue
        tail = b'{"' + body[at:]
        if _parsed(tail) is not None:
            return tail
        tries += 1
        if tries == _TRIES:
            return None
    return b"{}" if body.rstrip().endswith(b"}]}") else None


def _parsed(text: bytes) -> dict[str, Any] | None:
    return _kept(text) if len(text) <= _WORTH_KEEPING else parse_object(text)


@lru_cache(maxsize=32)
def _kept(text: bytes) -> dict[str, Any] | None:
    return parse_object(text)


def _read_ends(read: Reader, head: bytes, tail: bytes) -> Facts:
    if len(head) + len(tail) <= _WORTH_KEEPING:
        return _kept_facts(read, head, tail)
    return read({**(parse_object(head) or {}), **(parse_object(tail) or {})})


@lru_cache(maxsize=32)
def _kept_facts(read: Reader, head: bytes, tail: bytes) -> Facts:
    return read({**(_kept(head) or {}), **(_kept(tail) or {})})

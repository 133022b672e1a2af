"""Parts of messages on their way from one protocol to another: what is text in them, and what every side shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from otel_agent_replay.protocols.folded import Message, Part
from otel_agent_replay.protocols.json_text import as_object, as_text, compact, parse
from otel_agent_replay.protocols.translation.asked import Lost

SYSTEM_ROLES = ("system", "developer")
_ROLES = ("user", "assistant", "tool", "function")


def text_in(parts: Iterable[Part]) -> str:
    """Return the texts of parts, each a paragraph of its own."""
    return "\n\n".join(str(part["content"]) for part in parts if part.get("type") == "text" and part.get("content"))


def result_text(part: Part, lost: Lost) -> str:
    """Return a tool's result as text; pictures and the like in it are lost, and said."""
    response = part.get("response")
    if isinstance(response, str):
        return response
    if response is None:
        return ""
    if not isinstance(response, list):
        return compact(response)
    texts = []
    for item in response:
        if isinstance(item, str):
            texts.append(item)
            continue
        given = as_object(item)
        text = given.get("text", given.get("content"))
        if isinstance(text, str):
            texts.append(text)
        elif given.get("type") in ("text", "input_text", "json", None):
            texts.append(compact(item))
        else:
            lost.add(f"a part of type {given.get('type')!r} in a tool's result")
    return "\n\n".join(texts)


def arguments_in(part: Part, lost: Lost) -> dict[str, Any]:
    """Return the arguments of a call as an object; text that is none is kept under one name, and said."""
    raw = part.get("arguments")
    text = raw if isinstance(raw, str) else compact(raw)
    if not text.strip():
        return {}
    value = parse(text)
    if isinstance(value, dict):
        return value
    lost.add('arguments of a tool call that are no JSON object: they are sent as {"arguments": text}')
    return {"arguments": text}


def image_in(part: Part) -> tuple[str, str] | None:
    """Return (media type, base64) of a picture that lies in the request; None for every other part."""
    if part.get("type") == "blob" and part.get("modality") == "image" and as_text(part.get("content")):
        return str(part.get("mime_type") or "image/png"), str(part["content"])
    return None


def image_address(part: Part) -> str | None:
    """Return the URL of a picture that lies elsewhere; None for every other part."""
    return as_text(part.get("uri")) if part.get("type") == "uri" and part.get("modality") == "image" else None


def lose(part: Part, lost: Lost) -> None:
    """Say that a part is not taken over."""
    kind = part.get("type")
    if kind == "reasoning":
        lost.add("the model's earlier reasoning: it is its provider's own")
    elif kind in ("blob", "uri", "file"):
        lost.add(f"a part of type {kind!r} ({part.get('modality') or 'file'})")
    else:
        lost.add(f"a part of type {kind!r}")


class CallIds:
    """Ids of tool calls as the other side takes them; calls and results that had none are paired in their order."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}
        self._open: list[tuple[str, str]] = []  # name and id of calls whose results are still to come
        self._made = 0

    def of_call(self, part: Part) -> str:
        """Return the id of a call."""
        given = as_text(part.get("id"))
        if given is None:
            self._made += 1
            made = f"call_{self._made}"
            self._open.append((str(part.get("name") or ""), made))
            return made
        return self._numbers.setdefault(given, _plain(given))

    def of_result(self, part: Part) -> str:
        """Return the id of the call that a result answers."""
        given = as_text(part.get("id"))
        if given is not None and given in self._numbers:
            return self._numbers[given]
        name = as_text(part.get("name")) or given
        for place, (called, made) in enumerate(self._open):
            if name is None or called == name:
                del self._open[place]
                return made
        return _plain(given) if given else "call_unknown"


def _plain(call_id: str) -> str:
    """Return an id of the letters that all providers take."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in call_id)


def split_system(system: Sequence[Part], messages: Sequence[Message], lost: Lost) -> tuple[list[Part], list[Message]]:
    """Return the system prompt's parts and the turns after it; a system message in mid-conversation is the user's."""
    parts, turns = list(system), []
    for message in messages:
        role = message.get("role")
        if role not in SYSTEM_ROLES:
            if role not in _ROLES:
                lost.add(f"a message of role {role!r}: it is sent as the user's")
            turns.append(message)
        elif turns:
            lost.add("a system message in mid-conversation: it is sent as the user's")
            turns.append({**message, "role": "user"})
        else:
            parts.extend(message.get("parts") or ())
    for part in parts:
        if part.get("type") != "text":
            lose(part, lost)
    return parts, turns


def functions_in(tools: Iterable[dict[str, Any]], lost: Lost) -> Iterator[dict[str, Any]]:
    """Yield the tools that the agent runs itself; those that its provider runs are lost, and said."""
    for tool in tools:
        if tool.get("type", "function") == "function" and as_text(tool.get("name")):
            yield tool
        else:
            lost.add(f"the provider's own tool {tool.get('name') or tool.get('type')!r}")

"""A person's changes to model requests: as they are written on a command line, kept in a plan file, and applied.

    edits = RequestEdits.from_arguments(["model=gpt-5", "prompt=@prompt.txt", "temperature=0"], read=read_text)
    body = edits.apply(protocol, body)

Pure: files are read by whoever calls, through `read`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.protocols.address import with_model
from otel_agent_replay.protocols.edit import (
    messages_of,
    with_messages,
    with_prompt,
    with_user_message,
)
from otel_agent_replay.protocols.edit_shapes import SHAPES, Shape, shape_of
from otel_agent_replay.protocols.json_edit import parse_path, shown, with_value, without_member
from otel_agent_replay.protocols.json_text import refuse_constant

_NAMED = ("model", "prompt", "message", "last_user_message", "tools")
_KEYS = ("model", "prompt", "messages", "last_user_message", "settings", "tools")


@dataclass(frozen=True, slots=True)
class Setting:
    """One JSON path of a request and the value it gets; `removed`: the member is taken out instead."""

    path: tuple[str | int, ...]
    value: Any = None
    removed: bool = False


@dataclass(frozen=True, slots=True)
class RequestEdits:
    """What is changed in a request; None and () change nothing.

    `prompt` becomes the whole system prompt. `messages` are texts of user messages added at the end;
    `last_user_message` replaces the text of the last one instead. `tools` are given the way the protocol writes
    them. `settings` come last, so their paths are those of the request as it is sent.
    """

    model: str | None = None
    prompt: str | None = None
    messages: tuple[str, ...] = ()
    last_user_message: str | None = None
    settings: tuple[Setting, ...] = ()
    tools: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.messages and self.last_user_message is not None:
            raise ConfigurationError("give either message= (adds one) or last_user_message= (replaces it), not both")
        named = {"model": self.model, "prompt": self.prompt, "last_user_message": self.last_user_message}
        for name, text in (*named.items(), *(("message", message) for message in self.messages)):
            if text == "":
                raise ConfigurationError(f"{name}= is empty")
        if self.tools is not None and not (self.tools and all(isinstance(tool, dict) for tool in self.tools)):
            raise ConfigurationError(
                "tools= must be a JSON array of tools, with one tool at least (`tools=` removes it)"
            )

        for number, one in enumerate(self.settings):
            for other in self.settings[:number]:
                within = one.path[: len(other.path)] == other.path or other.path[: len(one.path)] == one.path
                if one.path == other.path or (within and (one.removed or other.removed)):
                    raise ConfigurationError(f"{shown(one.path)} and {shown(other.path)} contradict each other")

    def __bool__(self) -> bool:
        return self != RequestEdits()

    @property
    def parts(self) -> tuple[str, ...]:
        """What is edited, one name each: `model`, `prompt`, `message`, `last_user_message`, `tools`, or a path."""
        given = (self.model, self.prompt, self.messages or None, self.last_user_message, self.tools)
        named = [name for name, value in zip(_NAMED, given, strict=True) if value is not None]
        return (*named, *(shown(setting.path) for setting in self.settings))

    @classmethod
    def from_arguments(cls, arguments: Sequence[str], *, read: Callable[[str], str]) -> RequestEdits:
        """Return the edits of arguments NAME=VALUE. Raises ConfigurationError, naming the argument.

        NAME is `model`, `prompt`, `message`, `last_user_message`, `tools` or a path (`temperature`,
        `tools[0].function.description`; `$.prompt` for a member that is called like one of these). VALUE is text
        for the first four, for others JSON or, where it is none, text; empty takes the member out. `@FILE` is what
        `read` gives for FILE; `@@` stands for one @.
        """
        found: dict[str, Any] = {}
        for argument in arguments:
            name, equals, value = argument.partition("=")
            if not equals or not name:
                raise ConfigurationError(f"{argument!r} is not NAME=VALUE, like model=gpt-5 or temperature=0")
            _take(found, name.strip(), _value(value, read))
        return cls(**found)

    @classmethod
    def from_json(cls, value: Any) -> RequestEdits:
        """Return the edits that `to_json` wrote. Raises ConfigurationError for anything else."""
        if not isinstance(value, dict) or not value.keys() <= set(_KEYS):
            raise ConfigurationError(f"edits of a request are an object with {', '.join(_KEYS)}, not {value!r:.200}")
        texts = [value.get(key) for key in ("model", "prompt", "last_user_message")]
        messages, settings, tools = value.get("messages", []), value.get("settings", []), value.get("tools")
        if not (
            all(text is None or isinstance(text, str) for text in texts)
            and isinstance(messages, list)
            and all(isinstance(message, str) for message in messages)
            and isinstance(settings, list)
            and (tools is None or isinstance(tools, list))
        ):
            raise ConfigurationError(f"edits of a request have texts, and arrays of settings and tools: {value!r:.200}")
        return cls(
            model=texts[0],
            prompt=texts[1],
            messages=tuple(messages),
            last_user_message=texts[2],
            settings=tuple(_setting(one) for one in settings),
            tools=None if tools is None else tuple(tools),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the edits as what JSON holds, without what is not edited."""
        settings = [
            {"path": shown(one.path), **({"removed": True} if one.removed else {"value": one.value})}
            for one in self.settings
        ]
        whole = {
            "model": self.model,
            "prompt": self.prompt,
            "messages": list(self.messages) or None,
            "last_user_message": self.last_user_message,
            "settings": settings or None,
            "tools": None if self.tools is None else list(self.tools),
        }
        return {key: value for key, value in whole.items() if value is not None}

    def apply(self, protocol: str, body: bytes, *, at: int | None = None) -> bytes:
        """Return `body`, a request of the protocol of that name, edited; the same bytes where nothing changes.

        `at` is the place that `messages` go before, or of the message that `last_user_message` replaces, where
        that is known from an earlier request of the same conversation. Raises ConfigurationError for a body that
        is no JSON object in UTF-8, for a protocol that cannot be edited, and where an edit does not fit.
        """
        text, shape = readable(protocol, body)
        try:
            edited = self._edited(text, shape, at)
        except ValueError as error:
            raise ConfigurationError(f"the request is not the JSON that can be edited: {error}") from error
        return body if edited == text else edited.encode("utf-8")

    def address(self, url: str) -> str:
        """Return `url` with the new model where its path names one; the same text where not.

        >>> RequestEdits(model="gemini-x").address("http://h/v1/models/gemini-y:generateContent")
        'http://h/v1/models/gemini-x:generateContent'
        """
        return url if self.model is None else with_model(url, self.model)

    def _edited(self, text: str, shape: Shape, at: int | None) -> str:
        if self.model is not None and not shape.model_in_url:
            text = with_value(text, ("model",), self.model)
        if self.tools is not None:
            text = with_value(text, shape.tools, list(self.tools))
        if self.messages:
            text = with_messages(text, shape, self.messages, at)
        if self.last_user_message is not None:
            text = with_user_message(text, shape, self.last_user_message, at)
        if self.prompt is not None:
            text = with_prompt(text, shape, self.prompt)
        for setting in self.settings:
            text = (
                without_member(text, setting.path) if setting.removed else with_value(text, setting.path, setting.value)
            )
        return text


def readable(protocol: str, body: bytes) -> tuple[str, Shape]:
    """Return a request's text and its protocol's shape. Raises ConfigurationError when it cannot be edited."""
    if protocol not in SHAPES:
        raise ConfigurationError(f"a request of protocol {protocol!r} cannot be edited; {', '.join(SHAPES)} can")
    try:
        text = body.decode("utf-8")
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the request is not JSON in UTF-8 and cannot be edited: {error}") from error
    if not isinstance(whole, dict):
        raise ConfigurationError(f"the request is no JSON object and cannot be edited: {text[:60]!r}")
    return text, shape_of(protocol, whole)


def messages_in(protocol: str, body: bytes) -> list[Any]:
    """Return the messages of a request; a text alone is one of the user. Raises ConfigurationError like `apply`."""
    text, shape = readable(protocol, body)
    return messages_of(text, shape)


def _take(found: dict[str, Any], name: str, value: str) -> None:
    if name == "message":
        found["messages"] = (*found.get("messages", ()), value)
    elif name == "tools" and value:
        tools = _json(value)
        found["tools"] = tuple(tools) if isinstance(tools, list) else ()
    elif name in _NAMED and name != "tools":
        if name in found:
            raise ConfigurationError(f"{name}= is given twice")
        found[name] = value
    else:
        setting = Setting(parse_path(name), _json(value)) if value else Setting(parse_path(name), removed=True)
        found["settings"] = (*found.get("settings", ()), setting)


def _value(text: str, read: Callable[[str], str]) -> str:
    if text.startswith("@@"):
        return text[1:]
    return read(text[1:]) if text.startswith("@") else text


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return text


def _setting(value: Any) -> Setting:
    removed = isinstance(value, dict) and value.get("removed") is True
    wanted = {"path", "removed"} if removed else {"path", "value"}
    if not isinstance(value, dict) or value.keys() != wanted or not isinstance(value["path"], str):
        raise ConfigurationError(f"a setting is an object with path, and value or removed, not {value!r:.200}")
    return Setting(parse_path(value["path"]), value.get("value"), removed)

"""A list of messages in Chat Completions form -> turns: who said what becomes who asked whom.

An assistant's message is a model's answer to all messages before it; a tool's message is the result of a call that the
answer asked for, told by position first and then by id, since ids repeat within real runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.trajectory import Beginning, ModelTurn, ToolTurn, Turn, UserTurn
from otel_agent_replay.model import AttributeValue, SideEffect

_KEPT = ("role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")

Effects = Callable[[str], SideEffect]
"""Side effect of the tool of a name."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message in Chat Completions form, and what the file says beside it.

    `asked` is False for an assistant's message that no model was asked for (a scripted greeting): it is part of later
    requests only. `usage` is in Chat Completions form. `error` is a failed tool's.
    """

    chat: Mapping[str, Any]
    asked: bool = True
    model: str = ""
    finish_reason: str = ""
    usage: Mapping[str, Any] | None = None
    cost_usd: float | None = None
    error: str = ""
    begun_ns: int = 0
    ended_ns: int = 0
    takes_ns: int = 0

    @property
    def role(self) -> str:
        """Who speaks."""
        return str(self.chat["role"])


@dataclass
class _Waiting:
    """Calls that an answer asked for and nothing has answered."""

    calls: list[Mapping[str, Any]] = field(default_factory=list)

    def take(self, call_id: Any) -> Mapping[str, Any] | None:
        if not self.calls:
            return None
        if call_id is None or self.calls[0].get("id") in (call_id, None):
            return self.calls.pop(0)
        found = next((call for call in self.calls if call.get("id") == call_id), None)
        if found is not None:
            self.calls.remove(found)
        return found


def external(_name: str) -> SideEffect:
    """The side effect of a tool that nobody declared."""
    return SideEffect.EXTERNAL


def chat_message(given: Any, place: str) -> dict[str, Any]:
    """Return a message with the members of Chat Completions only. Raises DamagedRecording for what is no message."""
    if not isinstance(given, Mapping) or given.get("role") not in _ROLES:
        raise DamagedRecording(f"{place} is no chat message: it needs a `role`, one of {', '.join(_ROLES)}")
    calls = given.get("tool_calls")
    if calls is not None and not (isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls)):
        raise DamagedRecording(f"{place}: tool_calls is {str(calls)[:60]!r}, which is no list of calls")
    return {key: given[key] for key in _KEPT if key in given and not (key == "tool_calls" and not given[key])}


def is_message_list(value: Any) -> bool:
    """Whether a value is a list of chat messages, an assistant's among them."""
    return (
        isinstance(value, list)
        and all(isinstance(item, Mapping) and item.get("role") in _ROLES and _has_content(item) for item in value)
        and any(item["role"] == "assistant" for item in value)
    )


def called(name: Any, arguments: Any, call_id: Any) -> dict[str, Any]:
    """Return a tool call in Chat Completions form, of a file that keeps it otherwise."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": str(name), "arguments": text}}


def turns_of(
    messages: Sequence[Message],
    *,
    settings: Mapping[str, Any] | None = None,
    model: str = "",
    effects: Effects = external,
) -> list[Turn]:
    """Return the turns of a conversation. `settings` are members of every request beside its messages."""
    turns: list[Turn] = []
    chats = [message.chat for message in messages]
    waiting, last_said = _Waiting(), None
    for place, message in enumerate(messages):
        chat = message.chat
        if message.role == "assistant":
            turns += _unanswered(waiting, effects)
            if message.asked:
                turns.append(_model_turn(message, Beginning(chats, place), settings or {}, model))
            waiting.calls = _calls_in(chat)
            last_said = chat.get("content") or last_said
        elif message.role in ("tool", "function"):
            turns.append(_tool_turn(message, waiting.take(chat.get("tool_call_id")), effects))
        elif message.role == "user":
            turns += _unanswered(waiting, effects)
            turns.append(UserTurn(chat.get("content"), last_said, message.begun_ns, message.ended_ns))
    return [*turns, *_unanswered(waiting, effects)]


def last_text(messages: Sequence[Message]) -> Any:
    """Return what the assistant said last, None where it said nothing."""
    said = (message.chat.get("content") for message in reversed(messages) if message.role == "assistant")
    return next((content for content in said if content), None)


def parsed(text: Any) -> Any:
    """Return the JSON object or list in a text, else the text: what a tool says is compared by its parts."""
    if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _has_content(item: Mapping[str, Any]) -> bool:
    return "content" in item or bool(item.get("tool_calls")) or "function_call" in item


def _calls_in(chat: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = list(chat.get("tool_calls") or ())
    if isinstance(chat.get("function_call"), Mapping):
        calls.append({"function": chat["function_call"]})
    return calls


def _model_turn(message: Message, before: Beginning, settings: Mapping[str, Any], model: str) -> ModelTurn:
    model = message.model or model
    head = {"model": model} if model else {}
    choice: dict[str, Any] = {"index": 0, "message": message.chat}
    if message.finish_reason:
        choice["finish_reason"] = message.finish_reason
    answer: dict[str, Any] = {"object": "chat.completion", **head, "choices": [choice]}
    if message.usage:
        answer["usage"] = message.usage
    facts: dict[str, AttributeValue] = {} if message.cost_usd is None else {semconv.COST_USD: message.cost_usd}
    return ModelTurn(
        {**head, "messages": before, **settings},
        answer,
        model=model,
        facts=facts,
        begun_ns=message.begun_ns,
        ended_ns=message.ended_ns,
    )


def _tool_turn(message: Message, call: Mapping[str, Any] | None, effects: Effects) -> ToolTurn:
    function = _function(call)
    name = str(function.get("name") or message.chat.get("name") or "tool")
    return ToolTurn(
        name,
        parsed(function.get("arguments")),
        parsed(message.chat.get("content")),
        str((call or {}).get("id") or message.chat.get("tool_call_id") or ""),
        effects(name),
        message.error,
        begun_ns=message.begun_ns,
        ended_ns=message.ended_ns,
        takes_ns=message.takes_ns,
    )


def _unanswered(waiting: _Waiting, effects: Effects) -> list[ToolTurn]:
    calls, waiting.calls = waiting.calls, []
    found = []
    for call in calls:
        name = str(_function(call).get("name") or "tool")
        arguments = parsed(_function(call).get("arguments"))
        found.append(
            ToolTurn(name, arguments, call_id=str(call.get("id") or ""), side_effect=effects(name), answered=False)
        )
    return found


def _function(call: Mapping[str, Any] | None) -> Mapping[str, Any]:
    function = (call or {}).get("function")
    return function if isinstance(function, Mapping) else {}

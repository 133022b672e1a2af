"""Messages, answers and calls as Inspect keeps them -> Chat Completions form, or the provider's where it is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.chat_messages import called, chat_message
from otel_agent_replay.imports.trajectories.places import nanoseconds
from otel_agent_replay.imports.trajectories.trajectory import ModelTurn
from otel_agent_replay.model import Fidelity
from otel_agent_replay.protocols.recognise_answer import recognise_object

_KEPT_APART = re.compile(r"(?:attachment|tc)://([0-9a-f]{32})")
_SETTINGS = ("temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty", "reasoning_effort")


class Attachments:
    """Long texts that a sample keeps once and names by `attachment://` (older logs: `tc://`)."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self._kept = {key: text for key, text in kept.items() if isinstance(text, str)}

    def put_back(self, value: Any) -> Any:
        """Return a JSON value with the texts in their places."""
        if isinstance(value, str):
            return _KEPT_APART.sub(self._text, value) if self._kept and "://" in value else value
        if isinstance(value, Mapping):
            return {key: self.put_back(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.put_back(inner) for inner in value]
        return value

    def _text(self, match: re.Match[str]) -> str:
        return str(self._kept.get(match[1], match[0]))


def chat_form(given: Any, place: str) -> dict[str, Any]:
    """Return a message in Chat Completions form. Raises DamagedRecording for what is no message."""
    if not isinstance(given, Mapping):
        raise DamagedRecording(f"{place} is no message: {str(given)[:60]!r}")
    content, reasoning = _content(given.get("content"))
    chat: dict[str, Any] = {"role": given.get("role"), "content": content}
    if reasoning:
        chat["reasoning_content"] = reasoning
    if given.get("role") == "tool":
        chat |= {"tool_call_id": given.get("tool_call_id"), "name": given.get("function")}
    if isinstance(given.get("tool_calls"), list):
        chat["tool_calls"] = [
            called(call.get("function"), call.get("arguments"), call.get("id")) if isinstance(call, Mapping) else call
            for call in given["tool_calls"]
        ]
    return chat_message(chat, place)


def model_turn(event: Mapping[str, Any], messages: Sequence[Any], place: str) -> ModelTurn:
    """Return the turn of a model event whose input is `messages`."""
    output = event["output"] if isinstance(event.get("output"), Mapping) else {}
    model = str(event.get("model") or "")
    request, answer, protocol = _as_sent(event.get("call"))
    fidelity = Fidelity.EXCHANGE
    if not protocol:
        fidelity, protocol = Fidelity.MESSAGES, "openai.chat_completions"
        config = event["config"] if isinstance(event.get("config"), Mapping) else {}
        settings = {name: config[name] for name in _SETTINGS if config.get(name) is not None}
        request = {
            "model": model,
            "messages": [chat_form(given, f"{place} input[{number}]") for number, given in enumerate(messages)],
            **settings,
        }
        tools = list(_tools(event.get("tools")))
        if tools:
            request |= {"tools": tools, "tool_choice": event.get("tool_choice")}
        answer = _answer(output, place)
    error = event.get("error")
    return ModelTurn(
        request,
        answer,
        model=model,
        protocol=protocol,
        fidelity=fidelity,
        error=str(error.get("message") if isinstance(error, Mapping) else error) if error else "",
        begun_ns=nanoseconds(event.get("timestamp"), place),
        ended_ns=nanoseconds(event.get("completed"), place),
    )


def _as_sent(call: Any) -> tuple[dict[str, Any], dict[str, Any] | None, str]:
    """Return request and answer as they were on the wire, and their protocol; "" where it is not known."""
    if isinstance(call, Mapping) and isinstance(call.get("request"), dict) and isinstance(call.get("response"), dict):
        protocol = recognise_object("", call["response"])
        if protocol:
            request = {key: value for key, value in call["request"].items() if key != "extra_headers"}
            return request, call["response"], protocol
    return {}, None, ""


def _answer(output: Mapping[str, Any], place: str) -> dict[str, Any] | None:
    choices = output.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    answer: dict[str, Any] = {"object": "chat.completion", "model": output.get("model"), "choices": []}
    for index, choice in enumerate(choices):
        if not isinstance(choice, Mapping):
            raise DamagedRecording(f"{place}: output.choices[{index}] is no choice")
        message = chat_form(choice.get("message"), f"{place} output.choices[{index}]")
        answer["choices"].append({"index": index, "message": message, "finish_reason": choice.get("stop_reason")})
    usage = output.get("usage")
    if isinstance(usage, Mapping):
        answer["usage"] = {
            "prompt_tokens": usage.get("input_tokens") or 0,
            "completion_tokens": usage.get("output_tokens") or 0,
            "prompt_tokens_details": {"cached_tokens": usage.get("input_tokens_cache_read") or 0},
            "completion_tokens_details": {"reasoning_tokens": usage.get("reasoning_tokens") or 0},
        }
    return answer


def _tools(tools: Any) -> Iterator[dict[str, Any]]:
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, Mapping):
            told = {key: tool[key] for key in ("name", "description", "parameters") if key in tool}
            yield {"type": "function", "function": told}


def _content(content: Any) -> tuple[Any, str]:
    """Return the content in Chat Completions form, and the reasoning that stood among it."""
    if not isinstance(content, list):
        return content, ""
    parts: list[Any] = []
    reasoning = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "reasoning":
            reasoning.append(str(part.get("reasoning") or ""))
        elif kind == "text":
            parts.append({"type": "text", "text": part.get("text")})
        elif kind == "image":
            parts.append({"type": "image_url", "image_url": {"url": part.get("image")}})
        else:
            parts.append(part)
    return parts, "\n".join(reasoning)

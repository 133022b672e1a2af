"""The settings of a request, read from each protocol's own members.

A table a protocol: a member's name to what it means. A member that is in no table is lost, and named. `_QUIET` are
those that ask nothing of the model: how the answer travels, who pays, what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from otel_agent_replay.protocols.google_generate_request import either
from otel_agent_replay.protocols.json_text import as_count, as_object, as_text
from otel_agent_replay.protocols.translation.asked import AnswerShape, Lost, Settings

Found = dict[str, Any]
"""Fields of `Settings`, by name."""
Reader = Callable[[Any, Lost], Found]

_QUIET: Final = frozenset(
    (
        "background", "cache_control", "include", "labels", "metadata", "prompt_cache_key", "prompt_cache_retention",
        "safety_identifier", "service_tier", "store", "stream", "stream_options", "truncation", "user",
    )
)  # fmt: skip
_CHOICES: Final[Mapping[str, str]] = {
    "auto": "auto", "none": "none", "required": "required", "any": "required", "validated": "auto",
}  # fmt: skip


def _number(name: str) -> Reader:
    def read(value: Any, _lost: Lost) -> Found:
        return {name: value} if isinstance(value, (int, float)) and not isinstance(value, bool) else {}

    return read


def _whole(name: str) -> Reader:
    def read(value: Any, _lost: Lost) -> Found:
        return {} if as_count(value) is None else {name: value}

    return read


def _flag(name: str) -> Reader:
    def read(value: Any, _lost: Lost) -> Found:
        return {name: value} if isinstance(value, bool) else {}

    return read


def _stop(value: Any, _lost: Lost) -> Found:
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return {"stop": tuple(text for text in texts if isinstance(text, str))}


def _openai_choice(value: Any, lost: Lost) -> Found:
    if isinstance(value, str) and value in _CHOICES:
        return {"tool_choice": _CHOICES[value]}
    given = as_object(value)
    name = as_text(as_object(given.get("function")).get("name")) or as_text(given.get("name"))
    if name is None:
        lost.add("this kind of `tool_choice`")
        return {}
    return {"tool_choice": "one", "tool_name": name}


def _anthropic_choice(value: Any, lost: Lost) -> Found:
    given = as_object(value)
    kind = given.get("type")
    found: Found = {}
    if kind == "tool" and as_text(given.get("name")):
        found = {"tool_choice": "one", "tool_name": given["name"]}
    elif isinstance(kind, str) and kind in _CHOICES:
        found = {"tool_choice": _CHOICES[kind]}
    else:
        lost.add("this kind of `tool_choice`")
    if isinstance(given.get("disable_parallel_tool_use"), bool):
        found["parallel_tool_calls"] = not given["disable_parallel_tool_use"]
    return found


def _google_choice(value: Any, lost: Lost) -> Found:
    config = as_object(either(as_object(value), "functionCallingConfig", "function_calling_config"))
    mode = str(config.get("mode") or "").lower()
    names = either(config, "allowedFunctionNames", "allowed_function_names")
    if mode == "any" and isinstance(names, list) and len(names) == 1:
        return {"tool_choice": "one", "tool_name": str(names[0])}
    if names:
        lost.add("`allowedFunctionNames`")
    return {"tool_choice": _CHOICES[mode]} if mode in _CHOICES else {}


def _response_format(value: Any, lost: Lost) -> Found:
    given = as_object(value)
    kind = given.get("type")
    if kind == "json_object":
        return {"shape": AnswerShape()}
    if kind == "json_schema":
        inner = as_object(given.get("json_schema")) or given
        strict = inner.get("strict")
        schema = as_object(inner.get("schema"))
        name = as_text(inner.get("name")) or "answer"
        return {"shape": AnswerShape(name, schema, strict if isinstance(strict, bool) else None)}
    if kind not in (None, "text"):
        lost.add(f"an answer of the form {kind!r}")
    return {}


def _text_settings(value: Any, lost: Lost) -> Found:
    given = as_object(value)
    if given.get("verbosity"):
        lost.add("`text.verbosity`")
    return _response_format(given.get("format"), lost)


def _effort(value: Any, _lost: Lost) -> Found:
    return {"effort": value} if as_text(value) else {}


def _openai_reasoning(value: Any, _lost: Lost) -> Found:
    return _effort(as_object(value).get("effort"), _lost)


def _anthropic_thinking(value: Any, _lost: Lost) -> Found:
    given = as_object(value)
    if given.get("type") == "disabled":
        return {"thinking_tokens": 0}
    tokens = as_count(given.get("budget_tokens"))
    return {"effort": "medium"} if tokens is None else {"thinking_tokens": tokens}


def _one_choice(value: Any, lost: Lost) -> Found:
    if value not in (None, 1):
        lost.add(f"{value} answers to one request: one is asked for")
    return {}


def _held_by_provider(name: str) -> Reader:
    def read(value: Any, lost: Lost) -> Found:
        if value:
            lost.add(f"`{name}`: that part of the conversation is held by the recorded provider")
        return {}

    return read


def _google_config(value: Any, lost: Lost) -> Found:
    found: Found = {}
    for key, one in as_object(value).items():
        reader = _GOOGLE_CONFIG.get(_camel(key))
        if reader is not None:
            found.update(reader(one, lost))
        elif one is not None:
            lost.add(f"`generationConfig.{key}`")
    return found


def _google_mime(value: Any, _lost: Lost) -> Found:
    return {"shape": AnswerShape()} if value == "application/json" else {}


def _google_schema(value: Any, _lost: Lost) -> Found:
    return {"shape": AnswerShape("answer", lower_types(as_object(value)))}


def _google_thinking(value: Any, _lost: Lost) -> Found:
    given = as_object(value)
    tokens = as_count(either(given, "thinkingBudget", "thinking_budget"))
    level = as_text(either(given, "thinkingLevel", "thinking_level"))
    if level:
        return {"effort": level.lower()}
    return {} if tokens is None or tokens < 0 else {"thinking_tokens": tokens}


_SHARED: Final[Mapping[str, Reader]] = {
    "temperature": _number("temperature"),
    "top_p": _number("top_p"),
    "frequency_penalty": _number("frequency_penalty"),
    "presence_penalty": _number("presence_penalty"),
    "seed": _whole("seed"),
    "parallel_tool_calls": _flag("parallel_tool_calls"),
    "tool_choice": _openai_choice,
}
_GOOGLE_CONFIG: Final[Mapping[str, Reader]] = {
    "maxOutputTokens": _whole("max_tokens"),
    "temperature": _number("temperature"),
    "topP": _number("top_p"),
    "topK": _number("top_k"),
    "seed": _whole("seed"),
    "frequencyPenalty": _number("frequency_penalty"),
    "presencePenalty": _number("presence_penalty"),
    "stopSequences": _stop,
    "candidateCount": _one_choice,
    "responseMimeType": _google_mime,
    "responseSchema": _google_schema,
    "responseJsonSchema": _google_schema,
    "thinkingConfig": _google_thinking,
}
_READERS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "openai.chat_completions": {
        **_SHARED,
        "max_tokens": _whole("max_tokens"),
        "max_completion_tokens": _whole("max_tokens"),
        "stop": _stop,
        "random_seed": _whole("seed"),
        "n": _one_choice,
        "response_format": _response_format,
        "reasoning_effort": _effort,
        "reasoning": _openai_reasoning,
    },
    "openai.responses": {
        **_SHARED,
        "max_output_tokens": _whole("max_tokens"),
        "text": _text_settings,
        "reasoning": _openai_reasoning,
        "previous_response_id": _held_by_provider("previous_response_id"),
        "conversation": _held_by_provider("conversation"),
        "prompt": _held_by_provider("prompt"),
    },
    "anthropic.messages": {
        "temperature": _number("temperature"),
        "top_p": _number("top_p"),
        "top_k": _number("top_k"),
        "max_tokens": _whole("max_tokens"),
        "stop_sequences": _stop,
        "tool_choice": _anthropic_choice,
        "thinking": _anthropic_thinking,
    },
    "google.generate_content": {"generationConfig": _google_config, "toolConfig": _google_choice},
}
_CONVERSATION: Final[Mapping[str, frozenset[str]]] = {
    "openai.chat_completions": frozenset(("model", "messages", "tools", "functions")),
    "openai.responses": frozenset(("model", "input", "instructions", "tools")),
    "anthropic.messages": frozenset(("model", "messages", "system", "tools")),
    "google.generate_content": frozenset(("model", "contents", "systemInstruction", "tools")),
}


def read_settings(request: dict[str, Any], protocol: str, lost: Lost) -> Settings:
    """Return the settings of a request; every member that is not understood is told to `lost`."""
    readers, conversation = _READERS[protocol], _CONVERSATION[protocol]
    found: Found = {}
    for key, value in request.items():
        name = _camel(key) if protocol.startswith("google.") else key
        if name in conversation or key in _QUIET or value is None:
            continue
        reader = readers.get(name)
        if reader is None:
            lost.add(f"`{key}`")
        else:
            found.update(reader(value, lost))
    return Settings(**found)


def lower_types(schema: Any) -> Any:
    """Return Google's schema as JSON Schema: its types are written in capitals there."""
    if isinstance(schema, list):
        return [lower_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else lower_types(value)
        for key, value in schema.items()
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)

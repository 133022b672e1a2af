"""From values to attribute keys: what every protocol's request and usage facts have in common."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.protocols.address import address_of, deployment_of
from otel_agent_replay.protocols.folded import Folded, Usage
from otel_agent_replay.protocols.json_text import as_text, mend
from otel_agent_replay.protocols.protocol import Facts

_NUMBERS = {
    "temperature": semconv.REQUEST_TEMPERATURE,
    "top_p": semconv.REQUEST_TOP_P,
    "frequency_penalty": semconv.REQUEST_FREQUENCY_PENALTY,
    "presence_penalty": semconv.REQUEST_PRESENCE_PENALTY,
    "seed": semconv.REQUEST_SEED,
    "top_k": semconv.REQUEST_TOP_K,
}


def request_facts(outer: dict[str, Any], *, limits: Iterable[str], stops: str) -> Facts:
    """Facts that the protocols spell alike. `limits` are the names of the output limit, `stops` that of stop texts."""
    facts: Facts = {}
    model = as_text(outer.get("model"))
    if model:
        facts[semconv.REQUEST_MODEL] = model
    for name, key in _NUMBERS.items():
        if is_number(outer.get(name)):
            facts[key] = outer[name]
    for name in limits:
        if is_number(outer.get(name)):
            facts[semconv.REQUEST_MAX_TOKENS] = outer[name]
            break
    stop = outer.get(stops)
    if isinstance(stop, str):
        facts[semconv.REQUEST_STOP_SEQUENCES] = (stop,)
    elif isinstance(stop, list) and stop and all(isinstance(item, str) for item in stop):
        facts[semconv.REQUEST_STOP_SEQUENCES] = tuple(stop)
    if isinstance(outer.get("stream"), bool):
        facts[semconv.REQUEST_STREAM] = outer["stream"]
    tools = outer.get("tools")
    if isinstance(tools, list) and tools:
        facts[semconv.VERSION_TOOL_SCHEMA] = tools_digest(tools)
    return facts


def with_address(found: Facts, url: str) -> Facts:
    """`found` with the model that the path of `url` names; without a change where it names none."""
    address = address_of(url)
    if address is None:
        return found
    return {**found, semconv.REQUEST_MODEL: address.model, semconv.REQUEST_STREAM: address.streams}


def with_deployment(found: Facts, url: str) -> Facts:
    """`found`, with the deployment that a path of Azure OpenAI names as the model where the body names none."""
    if semconv.REQUEST_MODEL in found:
        return found
    deployment = deployment_of(url)
    return found if deployment is None else {**found, semconv.REQUEST_MODEL: deployment}


def at_deployment(read: Callable[[bytes], Facts]) -> Callable[[bytes, str], Facts]:
    """Return the `facts_of_request` of a protocol whose body tells all that `read` finds but a deployment's name."""
    return lambda body, url: with_deployment(read(body), url)


def output_type(format_type: Any) -> str | None:
    """`gen_ai.output.type` for the `type` of a response format."""
    if format_type in ("json_object", "json_schema"):
        return "json"
    return "text" if format_type == "text" else None


def tools_digest(tools: list[Any]) -> str:
    """Hex SHA-256 of the tools in an order-free form: the same tools give the same digest, whatever the key order."""
    text = json.dumps(tools, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def usage_facts(usage: Usage | None, *, cached_apart: bool = False, reasoning_apart: bool = False) -> Facts:
    """`gen_ai.usage.*`.

    With `cached_apart` the wire's input tokens leave the cached ones out, with `reasoning_apart` its output tokens
    those of the reasoning: so they are added.
    """
    if usage is None:
        return {}
    total, made = usage.input_tokens, usage.output_tokens
    if total is not None and cached_apart:
        total += (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    if reasoning_apart and (made is not None or usage.reasoning_tokens is not None):
        made = (made or 0) + (usage.reasoning_tokens or 0)
    counts = {
        semconv.USAGE_INPUT_TOKENS: total,
        semconv.USAGE_OUTPUT_TOKENS: made,
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: usage.cache_read_input_tokens,
        semconv.USAGE_CACHE_WRITE_INPUT_TOKENS: usage.cache_creation_input_tokens,
        semconv.USAGE_REASONING_OUTPUT_TOKENS: usage.reasoning_tokens,
    }
    return {key: count for key, count in counts.items() if count is not None}


def response_facts(
    *,
    response_id: Any = None,
    model: Any = None,
    finish_reasons: Iterable[str] = (),
    usage: Usage | None = None,
    cached_apart: bool = False,
    error_type: str | None = None,
) -> Facts:
    """Facts of an answer, absent ones left out."""
    facts: Facts = {}
    if as_text(response_id):
        facts[semconv.RESPONSE_ID] = response_id
    if as_text(model):
        facts[semconv.RESPONSE_MODEL] = model
    reasons = tuple(finish_reasons)
    if reasons:
        facts[semconv.RESPONSE_FINISH_REASONS] = reasons
    facts.update(usage_facts(usage, cached_apart=cached_apart))
    if error_type:
        facts[semconv.ERROR_TYPE] = error_type
    return facts


def facts_of(folded: Folded, *, cached_apart: bool = False, reasoning_apart: bool = False) -> Facts:
    """Facts of an answer that was folded, or of which what carries the facts was folded. Half a character is mended."""
    reasons = [mend(message["finish_reason"])[0] for message in folded.output_messages if message.get("finish_reason")]
    found = response_facts(
        response_id=folded.response_id,
        model=folded.model,
        finish_reasons=reasons,
        error_type=folded.error.type if folded.error else None,
    )
    mended: Facts = {key: mend(value)[0] if isinstance(value, str) else value for key, value in found.items()}
    return mended | usage_facts(folded.usage, cached_apart=cached_apart, reasoning_apart=reasoning_apart)


def is_number(value: Any) -> bool:
    """Whether `value` is a JSON number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)

"""Langfuse's own SDK, and the observations that it exports (`imports/langfuse`): one input, one output, JSON."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.model import Kind

_INPUT: Final = ("langfuse.observation.input",)
_OUTPUT: Final = ("langfuse.observation.output",)
_USAGE: Final = "langfuse.observation.usage_details::"
_PARAMETERS: Final = "langfuse.observation.model.parameters::"

LANGFUSE: Final = Dialect(
    name="langfuse",
    title="Langfuse",
    scopes=("langfuse-sdk",),
    signs=("langfuse.*",),
    kind_sources=("langfuse.observation.type",),
    kinds={
        "generation": Kind.MODEL,
        "embedding": Kind.MODEL,
        "tool": Kind.TOOL,
        "retriever": Kind.RETRIEVAL,
        "guardrail": Kind.DECISION,
        "evaluator": Kind.DECISION,
        "agent": Kind.SCOPE,
        "chain": Kind.SCOPE,
        "span": Kind.SCOPE,
    },
    request=_INPUT,
    response=_OUTPUT,
    messages_in=_INPUT,
    messages_out=_OUTPUT,
    tool_name=("@name",),
    tool_arguments=("langfuse.observation.metadata.inputs", *_INPUT),
    tool_result=_OUTPUT,
    tool_message=_OUTPUT,
    query=_INPUT,
    documents=_OUTPUT,
    facts={
        semconv.REQUEST_MODEL: ("langfuse.observation.model.name",),
        semconv.USAGE_INPUT_TOKENS: (_USAGE + "input", _USAGE + "prompt_tokens", _USAGE + "input_tokens"),
        semconv.USAGE_OUTPUT_TOKENS: (_USAGE + "output", _USAGE + "completion_tokens", _USAGE + "output_tokens"),
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: (
            _USAGE + "input_cached_tokens",
            _USAGE + "prompt_details.cache_read",
            _USAGE + "cache_read_input_tokens",
            _USAGE + "input_cache_read",
        ),
        semconv.USAGE_REASONING_OUTPUT_TOKENS: (
            _USAGE + "output_reasoning_tokens",
            _USAGE + "completion_details.reasoning",
            _USAGE + "output_reasoning",
        ),
        semconv.REQUEST_TEMPERATURE: (_PARAMETERS + "temperature",),
        semconv.REQUEST_TOP_P: (_PARAMETERS + "top_p",),
        semconv.REQUEST_MAX_TOKENS: (_PARAMETERS + "max_completion_tokens", _PARAMETERS + "max_tokens"),
        semconv.REQUEST_SEED: (_PARAMETERS + "seed",),
        semconv.COST_USD: ("langfuse.observation.cost_details::total",),
    },
    thread=("session.id", "langfuse.session.id", "langfuse.observation.metadata.thread_id"),
    subject=("user.id", "langfuse.user.id"),
)

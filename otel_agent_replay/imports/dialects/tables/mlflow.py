"""MLflow: inputs and outputs of every span, each attribute's value JSON of its own."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.model import Kind

_INPUT: Final = ("mlflow.spanInputs",)
_OUTPUT: Final = ("mlflow.spanOutputs",)

MLFLOW: Final = Dialect(
    name="mlflow",
    title="MLflow",
    signs=("mlflow.*",),
    kind_sources=("mlflow.spanType",),
    kinds={
        "llm": Kind.MODEL,
        "chat_model": Kind.MODEL,
        "embedding": Kind.MODEL,
        "tool": Kind.TOOL,
        "retriever": Kind.RETRIEVAL,
        "reranker": Kind.RETRIEVAL,
        "guardrail": Kind.DECISION,
        "evaluator": Kind.DECISION,
        "agent": Kind.SCOPE,
        "chain": Kind.SCOPE,
        "parser": Kind.SCOPE,
        "memory": Kind.SCOPE,
        "workflow": Kind.SCOPE,
        "task": Kind.SCOPE,
    },
    request=_INPUT,
    response=_OUTPUT,
    messages_in=_INPUT,
    messages_out=_OUTPUT,
    tools=("mlflow.chat.tools",),
    tool_name=("@name",),
    tool_arguments=_INPUT,
    tool_result=_OUTPUT,
    query=_INPUT,
    documents=_OUTPUT,
    facts={
        semconv.REQUEST_MODEL: ("mlflow.llm.model",),
        semconv.PROVIDER_NAME: ("mlflow.llm.provider",),
        semconv.USAGE_INPUT_TOKENS: ("mlflow.chat.tokenUsage::input_tokens",),
        semconv.USAGE_OUTPUT_TOKENS: ("mlflow.chat.tokenUsage::output_tokens",),
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: ("mlflow.chat.tokenUsage::cache_read_input_tokens",),
        semconv.COST_USD: ("mlflow.llm.cost::total_cost",),
    },
    thread=("mlflow.trace.session", "session.id"),
    subject=("mlflow.trace.user", "user.id"),
)

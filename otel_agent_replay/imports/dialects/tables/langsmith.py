"""LangSmith's OTel mode: a run's inputs and outputs as JSON in the two attributes of the oldest conventions."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.otel_genai import FACTS
from otel_agent_replay.model import Kind

_INPUT: Final = ("gen_ai.prompt",)
_OUTPUT: Final = ("gen_ai.completion",)

LANGSMITH: Final = Dialect(
    name="langsmith",
    title="LangSmith",
    scopes=("langsmith",),
    signs=("langsmith.*",),
    kind_sources=("langsmith.span.kind",),
    kinds={
        "llm": Kind.MODEL,
        "embedding": Kind.MODEL,
        "tool": Kind.TOOL,
        "retriever": Kind.RETRIEVAL,
        "chain": Kind.SCOPE,
        "prompt": Kind.SCOPE,
        "parser": Kind.SCOPE,
    },
    request=_INPUT,
    response=_OUTPUT,
    messages_in=_INPUT,
    messages_out=_OUTPUT,
    tool_name=("gen_ai.tool.name", "@name"),
    tool_arguments=("gen_ai.prompt::input", "gen_ai.prompt"),
    tool_result=("gen_ai.completion::output", "gen_ai.completion"),
    query=("gen_ai.prompt::query", "gen_ai.prompt"),
    documents=("gen_ai.completion::documents", "gen_ai.completion"),
    facts={
        **FACTS,
        semconv.REQUEST_MODEL: ("gen_ai.request.model", "langsmith.metadata.ls_model_name"),
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: ("gen_ai.usage.input_token_details::cache_read",),
        semconv.USAGE_CACHE_WRITE_INPUT_TOKENS: ("gen_ai.usage.input_token_details::cache_creation",),
        semconv.USAGE_REASONING_OUTPUT_TOKENS: ("gen_ai.usage.output_token_details::reasoning",),
    },
    # `langsmith.trace.session_id` is a project, not a conversation.
    thread=(
        "langsmith.metadata.session_id",
        "langsmith.metadata.thread_id",
        "langsmith.metadata.conversation_id",
    ),
    subject=("langsmith.metadata.user_id",),
)

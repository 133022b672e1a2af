"""VoltAgent: the kind of an entity, its messages, input and output."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.otel_genai import FACTS
from otel_agent_replay.model import Kind

VOLTAGENT: Final = Dialect(
    name="voltagent",
    title="VoltAgent",
    signs=("entity.type",),
    kind_sources=("span.type", "entity.type"),
    kinds={
        "llm": Kind.MODEL,
        "tool": Kind.TOOL,
        "retriever": Kind.RETRIEVAL,
        "memory": Kind.SCOPE,
        "agent": Kind.SCOPE,
        "workflow": Kind.SCOPE,
    },
    messages_in=("llm.messages", "agent.messages", "input"),
    messages_out=("output",),
    tool_name=("tool.name", "entity.name"),
    tool_call_id=("tool.call.id",),
    tool_arguments=("tool.arguments", "input"),
    tool_result=("tool.result", "output"),
    query=("input",),
    documents=("output",),
    facts={
        **FACTS,
        semconv.REQUEST_MODEL: ("llm.model", "ai.model.name"),
        semconv.USAGE_INPUT_TOKENS: ("llm.usage.prompt_tokens", "usage.prompt_tokens"),
        semconv.USAGE_OUTPUT_TOKENS: ("llm.usage.completion_tokens", "usage.completion_tokens"),
        semconv.AGENT_NAME: ("entity.name",),
    },
    thread=("conversation.id",),
    subject=("user.id",),
)

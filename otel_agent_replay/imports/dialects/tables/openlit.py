"""OpenLIT: the conventions, its own cost, and prompts and completions as plain text in older versions."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.otel_genai import FACTS, OPERATIONS
from otel_agent_replay.model import Kind

OPENLIT: Final = Dialect(
    name="openlit",
    title="OpenLIT",
    scopes=("openlit",),
    signs=("gen_ai.content.prompt", "gen_ai.content.completion", "gen_ai.operation.type", "gen_ai.sdk.version"),
    kind_sources=("gen_ai.operation.name", "gen_ai.operation.type"),
    kinds={
        **OPERATIONS,
        "embedding": Kind.MODEL,
        "vectordb": Kind.RETRIEVAL,
        "tool": Kind.TOOL,
        "tools": Kind.TOOL,
        "agent": Kind.SCOPE,
        "framework": Kind.SCOPE,
        "workflow": Kind.SCOPE,
    },
    kinds_by_sign={"gen_ai.content.prompt": Kind.MODEL},
    system=("gen_ai.system_instructions",),
    messages_in=("gen_ai.input.messages", "gen_ai.content.prompt", "@input"),
    messages_out=("gen_ai.output.messages", "gen_ai.content.completion", "@output"),
    tools=("gen_ai.tool.definitions",),
    tool_name=("gen_ai.tool.name", "gen_ai.tool.call.name"),
    tool_call_id=("gen_ai.tool.call.id",),
    tool_arguments=("gen_ai.tool.call.arguments", "gen_ai.tool.args", "gen_ai.tool.input"),
    tool_result=("gen_ai.tool.call.result", "gen_ai.tool.output", "gen_ai.tool.result"),
    query=("gen_ai.retrieval.query.text", "db.query.text", "db.statement"),
    documents=("gen_ai.retrieval.documents",),
    facts={
        **FACTS,
        semconv.USAGE_INPUT_TOKENS: (*FACTS[semconv.USAGE_INPUT_TOKENS], "gen_ai.token.usage.input"),
        semconv.USAGE_OUTPUT_TOKENS: (*FACTS[semconv.USAGE_OUTPUT_TOKENS], "gen_ai.token.usage.output"),
    },
    thread=("gen_ai.session.id", "gen_ai.conversation.id"),
    subject=("gen_ai.user.id", "user.id"),
)

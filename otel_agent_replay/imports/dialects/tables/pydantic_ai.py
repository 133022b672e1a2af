"""Pydantic AI: the conventions, its formats 1 to 6, and what it says of agents."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.otel_genai import FACTS, OPERATIONS
from otel_agent_replay.model import Kind

PYDANTIC_AI: Final = Dialect(
    name="pydantic_ai",
    title="Pydantic AI",
    scopes=("pydantic-ai",),
    signs=("pydantic_ai.*", "model_request_parameters", "all_messages_events"),
    kind_sources=("gen_ai.operation.name",),
    kinds=OPERATIONS,
    kinds_by_sign={
        "gen_ai.tool.name": Kind.TOOL,
        "model_request_parameters": Kind.MODEL,
        "agent_name": Kind.SCOPE,
        "tools": Kind.SCOPE,
    },
    system=("gen_ai.system_instructions",),
    messages_in=("gen_ai.input.messages", "@input", "pydantic_ai.all_messages"),
    messages_out=("gen_ai.output.messages", "@output", "final_result"),
    tools=("gen_ai.tool.definitions", "model_request_parameters::function_tools"),
    tool_name=("gen_ai.tool.name",),
    tool_call_id=("gen_ai.tool.call.id",),
    tool_arguments=("gen_ai.tool.call.arguments", "tool_arguments"),
    tool_result=("gen_ai.tool.call.result", "tool_response"),
    facts={
        **FACTS,
        semconv.REQUEST_MODEL: ("gen_ai.request.model", "model_name"),
        semconv.AGENT_NAME: ("gen_ai.agent.name", "agent_name"),
    },
    thread=("gen_ai.conversation.id",),
    subject=("user.id",),
)

"""Logfire's wrappers of provider SDKs: the request's JSON, and of the answer what its message says."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.otel_genai import FACTS, OPERATIONS
from otel_agent_replay.model import Kind

LOGFIRE: Final = Dialect(
    name="logfire",
    title="Logfire",
    scopes=("logfire.openai", "logfire.anthropic", "logfire.google_genai", "logfire.litellm"),
    signs=("request_data", "response_data"),
    kind_sources=("gen_ai.operation.name",),
    kinds=OPERATIONS,
    kinds_by_sign={"request_data": Kind.MODEL},
    system=("gen_ai.system_instructions", "request_data::instructions"),
    messages_in=("gen_ai.input.messages", "@input", "request_data"),
    messages_out=("gen_ai.output.messages", "@output", "response_data::message", "response_data"),
    answer_text=("response_data::combined_chunk_content", "response_data::text"),
    tools=("gen_ai.tool.definitions", "request_data::tools"),
    tool_name=("gen_ai.tool.name",),
    tool_call_id=("gen_ai.tool.call.id",),
    tool_arguments=("gen_ai.tool.call.arguments",),
    tool_result=("gen_ai.tool.call.result",),
    facts={
        **FACTS,
        semconv.REQUEST_MODEL: ("gen_ai.request.model", "request_data::model"),
        semconv.USAGE_INPUT_TOKENS: (
            "gen_ai.usage.input_tokens",
            "response_data::usage::input_tokens",
            "response_data::usage::prompt_tokens",
        ),
        semconv.USAGE_OUTPUT_TOKENS: (
            "gen_ai.usage.output_tokens",
            "response_data::usage::output_tokens",
            "response_data::usage::completion_tokens",
        ),
        semconv.REQUEST_TEMPERATURE: ("gen_ai.request.temperature", "request_data::temperature"),
    },
    thread=("gen_ai.conversation.id", "session.id"),
    subject=("user.id",),
)

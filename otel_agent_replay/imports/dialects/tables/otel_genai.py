"""OpenTelemetry's GenAI conventions: `gen_ai.*` attributes since 1.37, events and two attributes before."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect, Sources
from otel_agent_replay.model import Kind

OPERATIONS: Final = {
    "chat": Kind.MODEL,
    "text_completion": Kind.MODEL,
    "generate_content": Kind.MODEL,
    "embeddings": Kind.MODEL,
    "execute_tool": Kind.TOOL,
    "retrieval": Kind.RETRIEVAL,
    "search_memory": Kind.RETRIEVAL,
    "plan": Kind.DECISION,
    "invoke_agent": Kind.SCOPE,
    "create_agent": Kind.SCOPE,
    "invoke_workflow": Kind.SCOPE,
    "fetch_response": Kind.SCOPE,  # what was answered before: no model was asked
    "create_memory_store": Kind.TOOL,
    "delete_memory_store": Kind.TOOL,
    "create_memory": Kind.TOOL,
    "update_memory": Kind.TOOL,
    "upsert_memory": Kind.TOOL,
    "delete_memory": Kind.TOOL,
}
"""`gen_ai.operation.name` -> kind."""

FACTS: Final[dict[str, Sources]] = {
    semconv.OPERATION_NAME: ("gen_ai.operation.name",),
    semconv.PROVIDER_NAME: ("gen_ai.provider.name", "gen_ai.system"),
    semconv.REQUEST_MODEL: ("gen_ai.request.model",),
    semconv.RESPONSE_MODEL: ("gen_ai.response.model",),
    semconv.RESPONSE_ID: ("gen_ai.response.id",),
    semconv.RESPONSE_FINISH_REASONS: (
        "gen_ai.response.finish_reasons",
        "gen_ai.response.finish_reason",
        "anthropic.message.stop_reason",
    ),
    semconv.USAGE_INPUT_TOKENS: ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    semconv.USAGE_OUTPUT_TOKENS: ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    semconv.USAGE_CACHE_READ_INPUT_TOKENS: (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.details.cache_read_tokens",
    ),
    semconv.USAGE_CACHE_WRITE_INPUT_TOKENS: (
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
    ),
    semconv.USAGE_REASONING_OUTPUT_TOKENS: (
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.details.reasoning_tokens",
    ),
    semconv.REQUEST_TEMPERATURE: ("gen_ai.request.temperature",),
    semconv.REQUEST_TOP_P: ("gen_ai.request.top_p",),
    semconv.REQUEST_TOP_K: ("gen_ai.request.top_k",),
    semconv.REQUEST_MAX_TOKENS: ("gen_ai.request.max_tokens",),
    semconv.REQUEST_SEED: ("gen_ai.request.seed", "gen_ai.openai.request.seed"),
    semconv.REQUEST_STOP_SEQUENCES: ("gen_ai.request.stop_sequences",),
    semconv.AGENT_NAME: ("gen_ai.agent.name", "gen_ai.workflow.name"),
    semconv.COST_USD: ("gen_ai.usage.cost", "operation.cost"),
}
"""Attribute of ours -> where the conventions, their older versions and their users put it."""

OTEL_GENAI: Final = Dialect(
    name="otel_genai",
    title="OpenTelemetry GenAI, 1.37 and later",
    signs=("gen_ai.*", "mcp.method.name"),
    kind_sources=("gen_ai.operation.name",),
    kinds=OPERATIONS,
    kinds_by_sign={"gen_ai.tool.name": Kind.TOOL},
    system=("gen_ai.system_instructions",),
    messages_in=("gen_ai.input.messages",),
    messages_out=("gen_ai.output.messages",),
    tools=("gen_ai.tool.definitions",),
    tool_name=("gen_ai.tool.name",),
    tool_call_id=("gen_ai.tool.call.id",),
    tool_arguments=("gen_ai.tool.call.arguments", "gen_ai.memory.records"),
    tool_result=("gen_ai.tool.call.result",),
    query=("gen_ai.retrieval.query.text", "gen_ai.memory.query.text"),
    documents=("gen_ai.retrieval.documents", "gen_ai.memory.records"),
    facts=FACTS,
    thread=("gen_ai.conversation.id", "session.id"),
    subject=("user.id", "enduser.id"),
)

OTEL_GENAI_OLD: Final = Dialect(
    name="otel_genai_old",
    title="OpenTelemetry GenAI, 1.36 and before",
    signs=("@input", "@output", "gen_ai.prompt", "gen_ai.completion"),
    kind_sources=("gen_ai.operation.name",),
    kinds=OPERATIONS,
    kinds_by_sign={"gen_ai.tool.name": Kind.TOOL, "gen_ai.request.model": Kind.MODEL},
    request=("gen_ai.prompt",),
    response=("gen_ai.completion",),
    messages_in=("@input", "gen_ai.prompt"),
    messages_out=("@output", "gen_ai.completion"),
    tool_name=("gen_ai.tool.name",),
    tool_call_id=("gen_ai.tool.call.id",),
    tool_arguments=("gen_ai.prompt", "@input"),
    tool_result=("gen_ai.completion", "@output"),
    facts=FACTS,
)

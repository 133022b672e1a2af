"""OpenLLMetry (Traceloop): `gen_ai.*` messages now, numbered prompts and completions before; workflows and entities."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.otel_genai import FACTS
from otel_agent_replay.model import Kind

_LIBRARIES: Final = (
    "agno",
    "alephalpha",
    "anthropic",
    "bedrock",
    "cohere",
    "crewai",
    "google_generativeai",
    "groq",
    "haystack",
    "langchain",
    "llamaindex",
    "mistralai",
    "ollama",
    "openai.v",
    "replicate",
    "sagemaker",
    "together",
    "transformers",
    "vertexai",
    "voyageai",
    "watsonx",
    "writer",
)
"""What it instruments: its scopes are `opentelemetry.instrumentation.` and one of these."""

_KINDS: Final = {
    "workflow": Kind.SCOPE,
    "task": Kind.SCOPE,
    "agent": Kind.SCOPE,
    "tool": Kind.TOOL,
    "chat": Kind.MODEL,
    "completion": Kind.MODEL,
    "embedding": Kind.MODEL,
    "rerank": Kind.RETRIEVAL,
}
_FACTS: Final = {
    **FACTS,
    semconv.PROVIDER_NAME: (*FACTS[semconv.PROVIDER_NAME], "llm.vendor"),
    semconv.REQUEST_MODEL: ("gen_ai.request.model", "llm.request.model"),
    semconv.RESPONSE_MODEL: ("gen_ai.response.model", "llm.response.model"),
    semconv.USAGE_INPUT_TOKENS: (*FACTS[semconv.USAGE_INPUT_TOKENS], "llm.usage.prompt_tokens"),
    semconv.USAGE_OUTPUT_TOKENS: (*FACTS[semconv.USAGE_OUTPUT_TOKENS], "llm.usage.completion_tokens"),
    semconv.RESPONSE_FINISH_REASONS: (
        *FACTS[semconv.RESPONSE_FINISH_REASONS],
        "gen_ai.completion.0.finish_reason",
        "llm.completions.0.finish_reason",
        "llm.response.finish_reason",
    ),
    semconv.REQUEST_MAX_TOKENS: ("gen_ai.request.max_tokens", "llm.request.max_tokens"),
    semconv.AGENT_NAME: ("gen_ai.agent.name", "traceloop.workflow.name"),
}
_THREAD: Final = (
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.chat_id",
    "gen_ai.conversation.id",
)
_SUBJECT: Final = ("traceloop.association.properties.user_id",)

OPENLLMETRY: Final = Dialect(
    name="openllmetry",
    title="OpenLLMetry",
    scopes=("traceloop.", *(f"opentelemetry.instrumentation.{library}" for library in _LIBRARIES)),
    signs=("traceloop.*", "llm.request.type"),
    kind_sources=("traceloop.span.kind", "llm.request.type"),
    kinds=_KINDS,
    system=("gen_ai.system_instructions",),
    messages_in=("gen_ai.input.messages",),
    messages_out=("gen_ai.output.messages",),
    tools=("gen_ai.tool.definitions", "llm.request.functions.*"),
    tool_name=("gen_ai.tool.name", "traceloop.entity.name"),
    tool_arguments=("gen_ai.tool.call.arguments", "traceloop.entity.input"),
    tool_result=("gen_ai.tool.call.result", "traceloop.entity.output"),
    query=("traceloop.entity.input",),
    documents=("traceloop.entity.output",),
    facts=_FACTS,
    thread=_THREAD,
    subject=_SUBJECT,
)

OPENLLMETRY_OLD: Final = Dialect(
    name="openllmetry_old",
    title="OpenLLMetry before its messages, and who wrote like it",
    signs=("gen_ai.prompt.*", "gen_ai.completion.*", "llm.prompts.*", "llm.completions.*"),
    kind_sources=("llm.request.type", "traceloop.span.kind"),
    kinds=_KINDS,
    kinds_by_sign={"gen_ai.prompt.*": Kind.MODEL, "llm.prompts.*": Kind.MODEL},
    messages_in=("gen_ai.prompt.*", "llm.prompts.*"),
    messages_out=("gen_ai.completion.*", "llm.completions.*"),
    tools=("llm.request.functions.*",),
    facts=_FACTS,
    thread=_THREAD,
    subject=_SUBJECT,
)

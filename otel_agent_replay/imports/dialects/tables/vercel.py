"""The Vercel AI SDK: `ai.*` up to version 6, OpenTelemetry's conventions from version 7 on."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.otel_genai import FACTS, OPERATIONS
from otel_agent_replay.model import Kind

_OUTER: Final = (
    "ai.generatetext",
    "ai.streamtext",
    "ai.generateobject",
    "ai.streamobject",
    "ai.embed",
    "ai.embedmany",
    "ai.rerank",
)
_INNER: Final = (
    "ai.generatetext.dogenerate",
    "ai.streamtext.dostream",
    "ai.generateobject.dogenerate",
    "ai.streamobject.dostream",
    "ai.embed.doembed",
    "ai.embedmany.doembed",
)

VERCEL: Final = Dialect(
    name="vercel",
    title="Vercel AI SDK, up to 6",
    signs=("ai.operationId", "ai.toolCall.name"),
    kind_sources=("ai.operationId", "operation.name"),
    kinds={
        **dict.fromkeys((*_OUTER, *_INNER), Kind.MODEL),
        "ai.rerank": Kind.RETRIEVAL,
        "ai.rerank.dorerank": Kind.RETRIEVAL,
        "ai.toolcall": Kind.TOOL,
    },
    kinds_by_sign={"ai.toolCall.name": Kind.TOOL},
    wrappers=frozenset(_OUTER),
    messages_in=("ai.prompt.messages", "ai.prompt", "ai.value", "ai.values"),
    answer_text=("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object"),
    answer_calls=("ai.response.toolCalls", "ai.result.toolCalls"),
    answer_reasoning=("ai.response.reasoning",),
    tools=("ai.prompt.tools",),
    tool_name=("ai.toolCall.name",),
    tool_call_id=("ai.toolCall.id",),
    tool_arguments=("ai.toolCall.args", "ai.toolCall.input"),
    tool_result=("ai.toolCall.result", "ai.toolCall.output"),
    query=("ai.query", "ai.value"),
    documents=("ai.ranking", "ai.documents"),
    facts={
        **FACTS,
        semconv.PROVIDER_NAME: ("gen_ai.system", "ai.model.provider"),
        semconv.REQUEST_MODEL: ("gen_ai.request.model", "ai.model.id"),
        semconv.RESPONSE_MODEL: ("gen_ai.response.model", "ai.response.model"),
        semconv.RESPONSE_ID: ("gen_ai.response.id", "ai.response.id"),
        semconv.RESPONSE_FINISH_REASONS: (
            "gen_ai.response.finish_reasons",
            "ai.response.finishReason",
            "ai.finishReason",
        ),
        semconv.USAGE_INPUT_TOKENS: (
            "gen_ai.usage.input_tokens",
            "ai.usage.inputTokens",
            "ai.usage.promptTokens",
            "ai.usage.tokens",
        ),
        semconv.USAGE_OUTPUT_TOKENS: (
            "gen_ai.usage.output_tokens",
            "ai.usage.outputTokens",
            "ai.usage.completionTokens",
        ),
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: (
            "ai.usage.cachedInputTokens",
            "ai.usage.inputTokenDetails.cacheReadTokens",
        ),
        semconv.USAGE_REASONING_OUTPUT_TOKENS: (
            "ai.usage.reasoningTokens",
            "ai.usage.outputTokenDetails.reasoningTokens",
        ),
        semconv.REQUEST_TEMPERATURE: ("gen_ai.request.temperature", "ai.settings.temperature"),
        semconv.REQUEST_MAX_TOKENS: (
            "gen_ai.request.max_tokens",
            "ai.settings.maxOutputTokens",
            "ai.settings.maxTokens",
        ),
        semconv.AGENT_NAME: ("ai.telemetry.functionId",),
    },
    thread=(
        "ai.telemetry.metadata.sessionId",
        "ai.telemetry.metadata.threadId",
        "ai.telemetry.metadata.chatId",
        "ai.telemetry.metadata.conversationId",
    ),
    subject=("ai.telemetry.metadata.userId",),
)

VERCEL_7: Final = Dialect(
    name="vercel_7",
    title="Vercel AI SDK 7",
    scopes=("gen_ai",),
    kind_sources=("gen_ai.operation.name",),
    kinds={
        **OPERATIONS,
        "rerank": Kind.RETRIEVAL,
        "decide": Kind.DECISION,
        "ai.generatespeech": Kind.MODEL,
        "ai.transcribe": Kind.MODEL,
        "ai.streamtranscribe": Kind.MODEL,
    },
    system=("gen_ai.system_instructions",),
    messages_in=("gen_ai.input.messages", "ai.value", "ai.values"),
    messages_out=("gen_ai.output.messages", "ai.response.text"),
    tools=("gen_ai.tool.definitions",),
    tool_name=("gen_ai.tool.name",),
    tool_call_id=("gen_ai.tool.call.id",),
    tool_arguments=("gen_ai.tool.call.arguments", "ai.decision.state"),
    tool_result=("gen_ai.tool.call.result", "ai.decision.answers"),
    documents=("ai.ranking",),
    facts=FACTS,
    thread=("gen_ai.conversation.id",),
)

"""OpenInference (Arize): flat numbered attributes, and the call's own input and output beside them."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.model import Kind

OPENINFERENCE: Final = Dialect(
    name="openinference",
    title="OpenInference",
    scopes=("openinference.", "@arizeai/openinference"),
    signs=("openinference.span.kind", "llm.input_messages.*", "llm.output_messages.*", "llm.model_name"),
    kind_sources=("openinference.span.kind",),
    kinds={
        "llm": Kind.MODEL,
        "embedding": Kind.MODEL,
        "tool": Kind.TOOL,
        "retriever": Kind.RETRIEVAL,
        "reranker": Kind.RETRIEVAL,
        "guardrail": Kind.DECISION,
        "evaluator": Kind.DECISION,
        "decision": Kind.DECISION,
        "human": Kind.APPROVAL,
        "agent": Kind.SCOPE,
        "chain": Kind.SCOPE,
        "prompt": Kind.SCOPE,
    },
    kinds_by_sign={"llm.model_name": Kind.MODEL, "tool.name": Kind.TOOL},
    request=("input.value",),
    response=("output.value",),
    messages_in=("llm.input_messages.*", "embedding.embeddings.*", "input.value"),
    messages_out=("llm.output_messages.*", "output.value"),
    tools=("llm.tools.*",),
    tool_name=("tool.name",),
    tool_call_id=("tool_call.id", "tool.id"),
    tool_arguments=("input.value", "tool.parameters"),
    tool_result=("output.value",),
    query=("reranker.query", "input.value"),
    documents=("retrieval.documents.*", "reranker.output_documents.*", "output.value"),
    facts={
        semconv.PROVIDER_NAME: ("llm.system", "llm.provider"),
        semconv.REQUEST_MODEL: (
            "llm.request.model_name",
            "llm.invocation_parameters::model",
            "llm.model_name",
            "embedding.model_name",
        ),
        semconv.RESPONSE_MODEL: ("llm.response.model_name",),
        semconv.RESPONSE_FINISH_REASONS: ("llm.finish_reason",),
        semconv.USAGE_INPUT_TOKENS: ("llm.token_count.prompt",),
        semconv.USAGE_OUTPUT_TOKENS: ("llm.token_count.completion",),
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: ("llm.token_count.prompt_details.cache_read",),
        semconv.USAGE_CACHE_WRITE_INPUT_TOKENS: ("llm.token_count.prompt_details.cache_write",),
        semconv.USAGE_REASONING_OUTPUT_TOKENS: ("llm.token_count.completion_details.reasoning",),
        semconv.REQUEST_TEMPERATURE: ("llm.invocation_parameters::temperature",),
        semconv.REQUEST_TOP_P: ("llm.invocation_parameters::top_p",),
        semconv.REQUEST_TOP_K: ("llm.invocation_parameters::top_k",),
        semconv.REQUEST_MAX_TOKENS: (
            "llm.invocation_parameters::max_completion_tokens",
            "llm.invocation_parameters::max_tokens",
            "llm.invocation_parameters::max_output_tokens",
        ),
        semconv.REQUEST_SEED: ("llm.invocation_parameters::seed",),
        semconv.REQUEST_STOP_SEQUENCES: ("llm.invocation_parameters::stop",),
        semconv.AGENT_NAME: ("agent.name", "graph.node.name"),
        semconv.COST_USD: ("llm.cost.total",),
    },
    thread=("session.id",),
    subject=("user.id",),
)

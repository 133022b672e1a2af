"""What each dialect's spans say: one model call and one tool of each, as its instrumentation writes them."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects import DIALECTS
from otel_agent_replay.model import Fidelity, Kind, SideEffect, SpanEvent
from tests.support.foreign_spans import facts, messages_of, text, told

ASKED = [text("system", "Be brief."), text("user", "Weather in Oslo?")]
CALL = {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": '{"city":"Oslo"}'}
ANSWER = [{"role": "assistant", "parts": [CALL], "finish_reason": "tool_calls"}]
SAID = (
    [("system", "Be brief.", []), ("user", "Weather in Oslo?", [])],
    [("assistant", "", [("weather", {"city": "Oslo"})])],
)
CHAT_REQUEST = {
    "model": "gpt-4o",
    "temperature": 0.5,
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Oslo?"}],
}
OPENAI_CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
CHAT_RESPONSE = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o-2024-08-06",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]},
        }
    ],
    "usage": {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27},
}
GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o-2024-08-06",
    "gen_ai.usage.input_tokens": 20,
    "gen_ai.usage.output_tokens": 7,
}
GENAI_MESSAGES = {
    **GENAI,
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
    "gen_ai.input.messages": json.dumps([text("user", "Weather in Oslo?")]),
    "gen_ai.output.messages": json.dumps(ANSWER),
}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.system": "openai",
    "llm.model_name": "gpt-4o",
    "llm.invocation_parameters": '{"temperature": 0.5}',
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be brief.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Weather in Oslo?",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"city":"Oslo"}',
    "llm.token_count.prompt": 20,
    "llm.token_count.completion": 7,
}
VERCEL = {
    "operation.name": "ai.generateText.doGenerate support",
    "ai.operationId": "ai.generateText.doGenerate",
    "ai.model.provider": "openai.chat",
    "ai.model.id": "gpt-4o",
    "ai.prompt.messages": json.dumps(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Weather in Oslo?"}]},
        ]
    ),
    "ai.response.toolCalls": json.dumps(
        [{"toolCallType": "function", "toolCallId": "call_1", "toolName": "weather", "args": '{"city":"Oslo"}'}]
    ),
    "ai.response.finishReason": "tool-calls",
    "ai.usage.promptTokens": "20",
    "ai.usage.completionTokens": "7",
}
CHAT_JSON = json.dumps(CHAT_REQUEST), json.dumps(CHAT_RESPONSE)

MODEL_CALLS = {
    "otel_genai": (GENAI_MESSAGES, {}, Fidelity.MESSAGES),
    "otel_genai_old": (
        GENAI,
        {
            "events": (
                SpanEvent(1, "gen_ai.system.message", {"content": "Be brief."}),
                SpanEvent(2, "gen_ai.user.message", {"content": "Weather in Oslo?"}),
                SpanEvent(
                    3,
                    "gen_ai.choice",
                    {"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": (OPENAI_CALL,)}},
                ),
            )
        },
        Fidelity.MESSAGES,
    ),
    "openinference": (OPENINFERENCE, {}, Fidelity.MESSAGES),
    "openllmetry": (
        {**GENAI_MESSAGES, "llm.request.type": "chat", "traceloop.workflow.name": "support"},
        {},
        Fidelity.MESSAGES,
    ),
    "openllmetry_old": (
        {
            "llm.request.type": "chat",
            "gen_ai.system": "OpenAI",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "Be brief.",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": "Weather in Oslo?",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.finish_reason": "tool_calls",
            "gen_ai.completion.0.tool_calls.0.id": "call_1",
            "gen_ai.completion.0.tool_calls.0.name": "weather",
            "gen_ai.completion.0.tool_calls.0.arguments": '{"city":"Oslo"}',
            "gen_ai.usage.prompt_tokens": 20,
            "gen_ai.usage.completion_tokens": 7,
        },
        {},
        Fidelity.MESSAGES,
    ),
    "langfuse": (
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": CHAT_JSON[0],
            "langfuse.observation.output": CHAT_JSON[1],
            "langfuse.observation.model.name": "gpt-4o",
            "langfuse.observation.usage_details": '{"input": 20, "output": 7}',
        },
        {"scope": "langfuse-sdk"},
        Fidelity.EXCHANGE,
    ),
    "langsmith": (
        {**GENAI, "langsmith.span.kind": "llm", "gen_ai.prompt": CHAT_JSON[0], "gen_ai.completion": CHAT_JSON[1]},
        {"scope": "langsmith"},
        Fidelity.EXCHANGE,
    ),
    "pydantic_ai": (
        {**GENAI_MESSAGES, "model_request_parameters": '{"function_tools": [{"name": "weather"}]}'},
        {"scope": "pydantic-ai"},
        Fidelity.MESSAGES,
    ),
    "logfire": (
        {
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.system": "openai",
            "request_data": CHAT_JSON[0],
            "response_data": json.dumps(
                {"message": CHAT_RESPONSE["choices"][0]["message"], "usage": CHAT_RESPONSE["usage"]}
            ),
            "gen_ai.response.finish_reasons": '["tool_calls"]',
        },
        {"scope": "logfire.openai"},
        Fidelity.MESSAGES,
    ),
    "vercel": (VERCEL, {"scope": "ai"}, Fidelity.MESSAGES),
    "vercel_7": (GENAI_MESSAGES, {"scope": "gen_ai"}, Fidelity.MESSAGES),
    "mlflow": (
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanInputs": CHAT_JSON[0],
            "mlflow.spanOutputs": CHAT_JSON[1],
            "mlflow.llm.model": '"gpt-4o"',
            "mlflow.chat.tokenUsage": '{"input_tokens": 20, "output_tokens": 7, "total_tokens": 27}',
        },
        {},
        Fidelity.EXCHANGE,
    ),
    "openlit": (
        {**GENAI_MESSAGES, "gen_ai.sdk.version": "3.57", "gen_ai.usage.cost": 0.5},
        {"scope": "openlit.otel.tracing"},
        Fidelity.MESSAGES,
    ),
    "google_adk": (
        {
            **GENAI,
            "gen_ai.operation.name": "call_llm",
            "gcp.vertex.agent.llm_request": json.dumps(
                {
                    "model": "gpt-4o",
                    "config": {"system_instruction": "Be brief."},
                    "contents": [{"role": "user", "parts": [{"text": "Weather in Oslo?"}]}],
                }
            ),
            "gcp.vertex.agent.llm_response": json.dumps(
                {
                    "content": {
                        "role": "model",
                        "parts": [{"function_call": {"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}}],
                    }
                }
            ),
        },
        {"scope": "gcp.vertex.agent"},
        Fidelity.MESSAGES,
    ),
    "laminar": (
        {
            **GENAI,
            "lmnr.span.type": "LLM",
            "lmnr.span.input": json.dumps(CHAT_REQUEST["messages"]),
            "lmnr.span.output": json.dumps([CHAT_RESPONSE["choices"][0]["message"]]),
        },
        {},
        Fidelity.MESSAGES,
    ),
    "voltagent": (
        {
            "entity.type": "agent",
            "span.type": "llm",
            "llm.model": "gpt-4o",
            "llm.messages": json.dumps(CHAT_REQUEST["messages"]),
            "output": json.dumps(CHAT_RESPONSE["choices"][0]["message"]),
            "llm.usage.prompt_tokens": 20,
            "llm.usage.completion_tokens": 7,
        },
        {},
        Fidelity.MESSAGES,
    ),
}
"""Dialect -> attributes of the call above, what else the span has, and the fidelity that it can have."""

TOOLS = {
    "otel_genai": {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.call.arguments": '{"city": "Oslo"}',
        "gen_ai.tool.call.result": '{"degrees": 7}',
    },
    "openinference": {
        "openinference.span.kind": "TOOL",
        "tool.name": "weather",
        "input.value": '{"city": "Oslo"}',
        "output.value": '{"degrees": 7}',
    },
    "openllmetry": {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "weather",
        "traceloop.entity.input": '{"city": "Oslo"}',
        "traceloop.entity.output": '{"degrees": 7}',
    },
    "langfuse": {
        "langfuse.observation.type": "tool",
        "langfuse.observation.input": '{"city": "Oslo"}',
        "langfuse.observation.output": '{"degrees": 7}',
    },
    "langsmith": {
        "langsmith.span.kind": "tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.prompt": '{"city": "Oslo"}',
        "gen_ai.completion": '{"degrees": 7}',
    },
    "pydantic_ai": {
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "call_1",
        "tool_arguments": '{"city": "Oslo"}',
        "tool_response": '{"degrees": 7}',
        "pydantic_ai.x": 1,
    },
    "vercel": {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "weather",
        "ai.toolCall.id": "call_1",
        "ai.toolCall.args": '{"city": "Oslo"}',
        "ai.toolCall.result": '{"degrees": 7}',
    },
    "mlflow": {
        "mlflow.spanType": '"TOOL"',
        "mlflow.spanInputs": '{"city": "Oslo"}',
        "mlflow.spanOutputs": '{"degrees": 7}',
    },
    "openlit": {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.sdk.version": "1",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.args": '{"city": "Oslo"}',
        "gen_ai.tool.result": '{"degrees": 7}',
    },
    "google_adk": {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gcp.vertex.agent.tool_call_args": '{"city": "Oslo"}',
        "gcp.vertex.agent.tool_response": '{"degrees": 7}',
    },
    "laminar": {
        "lmnr.span.type": "TOOL",
        "lmnr.span.input": '{"city": "Oslo"}',
        "lmnr.span.output": '{"degrees": 7}',
    },
    "voltagent": {
        "entity.type": "tool",
        "tool.name": "weather",
        "tool.arguments": '{"city": "Oslo"}',
        "tool.result": '{"degrees": 7}',
    },
    "claude_code": {"tool_name": "weather", "tool_input": '{"city": "Oslo"}', "tool_output": '{"degrees": 7}'},
}


@pytest.mark.parametrize("dialect", sorted(MODEL_CALLS))
def test_a_model_call_says_the_same_in_every_dialect(dialect):
    """Messages, tool calls, model, tokens and provider of one call come out alike, whoever wrote them down."""
    attributes, more, fidelity = MODEL_CALLS[dialect]
    found = facts(attributes, **more)
    assert (found.kind, found.dialect, found.fidelity, found.side_effect) == (
        Kind.MODEL, dialect, fidelity, SideEffect.READ,
    )  # fmt: skip
    given, made = messages_of(found)
    assert ([told(one) for one in given], [told(one) for one in made]) == SAID
    said = found.all()
    assert said[semconv.REQUEST_MODEL] == "gpt-4o"
    assert (said[semconv.USAGE_INPUT_TOKENS], said[semconv.USAGE_OUTPUT_TOKENS]) == (20, 7)
    assert said[semconv.COST_USD] > 0
    assert said[semconv.PROTOCOL] == found.protocol


@pytest.mark.parametrize("dialect", sorted(TOOLS))
def test_a_tool_says_the_same_in_every_dialect(dialect):
    """A tool's name, arguments and result come out alike; nobody knows what it changes, so it counts as external."""
    name = "claude_code.tool" if dialect == "claude_code" else "weather"
    found = facts(TOOLS[dialect], name=name)
    assert (found.kind, found.name, found.dialect) == (Kind.TOOL, "weather", dialect)
    assert found.side_effect is SideEffect.EXTERNAL
    assert (found.request, found.result) == (b'{"city":"Oslo"}', b'{"degrees":7}')
    assert found.fidelity is Fidelity.EXCHANGE
    if any(key.endswith(("call.id", "toolCall.id")) for key in TOOLS[dialect]):
        assert found.asked[semconv.TOOL_CALL_ID] == "call_1"


def test_every_dialect_is_shown_here():
    """No table is without an example of a call or a tool."""
    assert {dialect.name for dialect in DIALECTS} == set(MODEL_CALLS) | set(TOOLS)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_no_call_promises_more_than_its_table(dialect):
    """The best fidelity that a table promises is that of its example, where it has one."""
    if dialect.name in MODEL_CALLS:
        attributes, more, fidelity = MODEL_CALLS[dialect.name]
        ranks = [Fidelity.TEXT, Fidelity.MESSAGES, Fidelity.EXCHANGE]
        assert ranks.index(fidelity) <= ranks.index(dialect.best)


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"gen_ai.operation.name": "invoke_agent"}, Kind.SCOPE),
        ({"gen_ai.operation.name": "plan"}, Kind.DECISION),
        ({"gen_ai.operation.name": "fetch_response", "gen_ai.response.id": "r"}, Kind.SCOPE),
        ({"gen_ai.operation.name": "retrieval"}, Kind.RETRIEVAL),
        ({"gen_ai.operation.name": "embeddings"}, Kind.MODEL),
        ({"openinference.span.kind": "GUARDRAIL"}, Kind.DECISION),
        ({"openinference.span.kind": "RERANKER"}, Kind.RETRIEVAL),
        ({"openinference.span.kind": "HUMAN"}, Kind.APPROVAL),
        ({"traceloop.span.kind": "workflow"}, Kind.SCOPE),
        ({"ai.operationId": "ai.embed.doEmbed"}, Kind.MODEL),
        ({"http.request.method": "GET"}, None),
        ({}, None),
    ],
)
def test_kinds(attributes, kind):
    """A span's own word for what it is decides; a span of something else has no kind."""
    assert facts(attributes).kind is kind


def test_without_contents_a_call_still_counts():
    """With content capture off, as it is by default, model and tokens are told and nothing is made up."""
    found = facts(GENAI)
    assert (found.kind, found.fidelity, found.request, found.result) == (Kind.MODEL, Fidelity.TEXT, None, None)
    assert found.answered[semconv.USAGE_INPUT_TOKENS] == 20


def test_a_price_of_the_source_comes_first():
    """What the source says a call cost is kept; prices are looked up only where it says nothing."""
    assert facts({**GENAI, "gen_ai.usage.cost": 0.5}).answered[semconv.COST_USD] == 0.5
    assert 0 < facts(GENAI).answered[semconv.COST_USD] < 0.01
    assert semconv.COST_USD not in facts({**GENAI, "gen_ai.request.model": "x", "gen_ai.response.model": "x"}).answered


def test_a_price_of_nought_is_looked_up():
    """OpenLIT writes nought where it knows no price: prices are looked up, and nought stays where none is known."""
    assert facts({**GENAI, "gen_ai.usage.cost": 0}).answered[semconv.COST_USD] > 0
    unknown = {**GENAI, "gen_ai.request.model": "x", "gen_ai.response.model": "x", "gen_ai.usage.cost": 0}
    assert facts(unknown).answered[semconv.COST_USD] == 0


def test_instructions_that_are_written_twice_are_said_once():
    """Instructions that lie apart and are the first message too are not doubled."""
    twice = {**GENAI_MESSAGES, "gen_ai.input.messages": json.dumps(ASKED)}
    assert [told(one) for one in messages_of(facts(twice))[0]] == SAID[0]


def test_an_exchange_is_kept_as_its_source_has_it():
    """A provider's own JSON in the attributes stays byte for byte, and speaks the provider's protocol."""
    request = ' { "messages": [{"role": "user", "content": "h\\u00e9"}], "model": "gpt-4o" }'
    found = facts({"openinference.span.kind": "LLM", "input.value": request, "output.value": CHAT_JSON[1]})
    assert (found.request, found.protocol, found.fidelity) == (
        request.encode(), "openai.chat_completions", Fidelity.EXCHANGE,
    )  # fmt: skip
    assert found.answered[semconv.USAGE_OUTPUT_TOKENS] == 7, "the answer's JSON says what no attribute does"


def test_what_python_shows_of_objects_is_no_exchange():
    """A request whose messages are texts of objects cannot be sent, so the numbered messages are taken."""
    shown = json.dumps({"messages": ["role='user' content='hi'"], "model": "gpt-4o"})
    found = facts({**OPENINFERENCE, "input.value": shown, "output.value": CHAT_JSON[1]})
    assert (found.fidelity, found.protocol) == (Fidelity.MESSAGES, "otel.messages")
    assert [told(one) for one in messages_of(found)[0]] == SAID[0]


@pytest.mark.parametrize(
    ("attributes", "thread", "subject"),
    [
        ({**GENAI, "gen_ai.conversation.id": "c-1"}, "c-1", ""),
        ({**OPENINFERENCE, "session.id": "c-1", "user.id": "u-1"}, "c-1", "u-1"),
        ({"langfuse.observation.type": "span", "session.id": "c-1", "user.id": "u-1"}, "c-1", "u-1"),
        ({"langsmith.span.kind": "chain", "langsmith.metadata.thread_id": "c-1"}, "c-1", ""),
        ({"langsmith.span.kind": "chain", "langsmith.trace.session_id": "a project"}, "", ""),
        ({"traceloop.span.kind": "task", "traceloop.association.properties.session_id": "c-1"}, "c-1", ""),
        ({"mlflow.spanType": '"AGENT"', "mlflow.trace.session": '"c-1"'}, "c-1", ""),
        ({**VERCEL, "ai.telemetry.metadata.userId": "u-1"}, "", "u-1"),
    ],
)
def test_sessions_and_users(attributes, thread, subject):
    """A session is the thread, a user the one whose data it is; a LangSmith project is neither."""
    found = facts(attributes)
    assert (found.thread_id, found.subject) == (thread, subject)


def test_a_span_that_begins_a_logfire_span_says_nothing():
    """Logfire writes each span down at its begin, under an id of its own: that is no call."""
    attributes = {**GENAI, "logfire.span_type": "pending_span"}
    assert facts(attributes).kind is None


def test_a_chain_keeps_what_went_in_and_came_out():
    """Input and output of a scope that are no messages are kept as they are."""
    found = facts({"openinference.span.kind": "CHAIN", "input.value": '{"order": 7}', "output.value": "done"})
    assert (found.request, found.result, found.kind) == (b'{"order":7}', b'"done"', Kind.SCOPE)


@pytest.mark.parametrize(
    "output",
    [
        {"type": "tool", "name": "weather", "tool_call_id": "call_1", "content": '{"degrees": 7}'},
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain_core", "messages", "ToolMessage"],
            "kwargs": {"name": "weather", "tool_call_id": "call_1", "content": '{"degrees": 7}'},
        },
    ],
)
def test_a_scope_that_comes_to_a_tools_message_is_that_tool(output):
    """LangGraph's tools are spans like any other in older Langfuse exports, but for the message that they come to."""
    attributes = {
        "langfuse.observation.type": "span",
        "langfuse.observation.input": '{"city": "Oslo"}',
        "langfuse.observation.output": json.dumps(output),
    }
    found = facts(attributes, name="a node")
    assert (found.kind, found.name, found.asked[semconv.TOOL_CALL_ID]) == (Kind.TOOL, "weather", "call_1")
    assert (found.request, found.result) == (b'{"city":"Oslo"}', b'{"degrees":7}')
    listed = {**attributes, "langfuse.observation.output": json.dumps({"messages": [output]})}
    assert facts(listed).kind is Kind.SCOPE


def test_values_too_deep_to_look_at_are_no_error():
    """A value nested beyond what can be looked at leaves the span without facts, and raises nothing."""
    deep: object = "x"
    for _ in range(5000):
        deep = (deep,)
    found = facts({"gen_ai.operation.name": "chat", "gen_ai.input.messages": deep})
    assert found.request is None

"""One call that several spans tell: which of them counts, and when two spans are two calls after all."""

from __future__ import annotations

import json

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.imports.foreign_trace import run_of_spans
from otel_agent_replay.model import Fidelity, Kind
from tests.support.foreign_spans import foreign_span, text


def call(number: int, parent: int, *, said: str = "", tokens: int = 7, model: str = "gpt-4o", **more):
    """A model call of the conventions; `said` is its answer, none with content capture off."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": tokens,
        **more.pop("also", {}),
    }
    if said:
        attributes["gen_ai.input.messages"] = json.dumps([text("user", "Hi")])
        attributes["gen_ai.output.messages"] = json.dumps([text("assistant", said)])
    return foreign_span(attributes, number=number, parent=parent, name=f"chat {number}", **more)


def agent(number: int = 1, parent: int = 0, **more):
    return foreign_span({"gen_ai.operation.name": "invoke_agent"}, number=number, parent=parent, takes=9, **more)


def tool(number: int, parent: int, name: str = "weather", **more):
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **more.pop("also", {})}
    return foreign_span(attributes, number=number, parent=parent, name=f"tool {number}", **more)


def counted(*spans) -> dict[int, list[int]]:
    """Spans that count as calls, each with those that tell it again."""
    found: dict[int, list[int]] = {}
    for item in run_of_spans(spans).spans:
        number = int.from_bytes(item.span.span_id, "big")
        if item.node is not None and item.node.kind in (Kind.MODEL, Kind.TOOL):
            found.setdefault(number, [])
        for other in item.span.attributes.get(semconv.IMPORT_SAME_CALL, ()):
            found.setdefault(int(other, 16), []).append(number)
    return found


def test_a_call_within_a_call_is_one():
    """A provider SDK's own span below an instrumentation's tells the same call; the outer one is taken for it."""
    assert counted(agent(), call(2, 1, said="a"), call(3, 2, said="a")) == {2: [3]}


def test_the_one_that_tells_more_counts():
    """Where the inner span has the contents, it counts."""
    assert counted(agent(), call(2, 1), call(3, 2, said="a")) == {3: [2]}


def test_a_chain_of_three_is_one():
    """A framework's span, an instrumentation's and the SDK's, each in the other, are one call."""
    assert counted(agent(), call(2, 1), call(3, 2, said="a"), call(4, 3)) == {3: [2, 4]}


def test_the_span_that_counts_learns_what_only_another_tells():
    """Tokens that only the inner span has are those of the call."""
    outer = foreign_span(
        {"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user",
         "llm.input_messages.0.message.content": "Hi"}, number=2, parent=1,
    )  # fmt: skip
    run = run_of_spans([agent(), outer, call(3, 2, tokens=9)])
    (model,) = [item for item in run.spans if item.node and item.node.kind is Kind.MODEL]
    assert model.node.fidelity is Fidelity.MESSAGES
    assert model.span.attributes[semconv.USAGE_OUTPUT_TOKENS] == 9


def test_plain_code_between_makes_no_difference():
    """Spans that are no steps, HTTP say, may lie between the two."""
    http = foreign_span({"http.request.method": "POST"}, number=3, parent=2)
    assert counted(agent(), call(2, 1, said="a"), http, call(4, 3)) == {2: [4]}


def test_a_call_that_a_tool_makes_is_its_own():
    """A model asked below a tool is another call, though a call of the model lies above."""
    assert counted(agent(), call(2, 1, said="a"), tool(3, 2), call(4, 3, said="b")) == {2: [], 3: [], 4: []}


def test_another_model_within_is_another_call():
    """A call of another model within a call, a guardrail's say, counts too."""
    assert counted(agent(), call(2, 1, said="a"), call(3, 2, said="b", model="llama-guard")) == {2: [], 3: []}


@pytest.mark.parametrize("inner", ["gpt-4o-2024-08-06", "openai/gpt-4o", "GPT-4o"])
def test_a_model_by_another_spelling_is_the_same(inner):
    """Dates, providers in front and case make no other model."""
    assert counted(agent(), call(2, 1, said="a"), call(3, 2, model=inner)) == {2: [3]}


def test_around_two_calls_a_span_is_none():
    """A span around two tries of a call is not a third: the tries count, what failed among them."""
    tries = call(3, 2, at=0.1, takes=0.2), call(4, 2, said="a", at=0.5, takes=0.2)
    run = run_of_spans([agent(), call(2, 1, said="a"), *tries])
    kinds = {item.span.name: item.node.kind for item in run.spans if item.node}
    assert (kinds["chat 2"], kinds["chat 3"], kinds["chat 4"]) == (Kind.SCOPE, Kind.MODEL, Kind.MODEL)


def test_vercels_outer_span_counts_only_alone():
    """`ai.generateText` stands around its steps; where those are missing, it is the call."""
    outer = foreign_span({"ai.operationId": "ai.generateText", "ai.model.id": "m"}, number=2, parent=1, name="outer")
    inner = foreign_span({"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m"}, number=3, parent=2)
    assert counted(agent(), outer, inner) == {3: [2]}
    assert counted(agent(), outer) == {2: []}


def test_two_calls_one_after_the_other_are_two():
    """Calls that say the same one after the other are two, whoever wrote them down."""
    spans = call(2, 1, said="a", scope="x"), call(3, 1, said="a", scope="y", at=2)
    assert counted(agent(), *spans) == {2: [], 3: []}


def test_equal_calls_at_once_by_one_scope_are_two():
    """Equal questions asked at once are as many calls, though each says what the others say."""
    spans = [call(number, 1, said="a", scope="x") for number in (2, 3, 4)]
    assert counted(agent(), *spans) == {2: [], 3: [], 4: []}


def test_the_same_told_by_two_scopes_side_by_side_is_one():
    """Two instrumentations that write siblings tell one call: same moment, same answer."""
    spans = call(2, 1, said="a", scope="x"), call(3, 1, said="a", scope="y", at=0.01, takes=0.98)
    assert counted(agent(), *spans) == {2: [3]}


def test_other_answers_at_once_by_two_scopes_are_two():
    """Two scopes that tell different answers and counts tell two calls."""
    spans = call(2, 1, said="a", scope="x", tokens=5), call(3, 1, said="b", scope="y", tokens=9)
    assert counted(agent(), *spans) == {2: [], 3: []}


def test_two_scopes_whose_calls_only_touch_tell_two():
    """Equal answers of two scopes that share a little of their time are two calls."""
    spans = call(2, 1, said="a", scope="x"), call(3, 1, said="a", scope="y", at=0.5)
    assert counted(agent(), *spans) == {2: [], 3: []}


def test_one_response_id_told_by_two_scopes_is_one():
    """A response id at one time joins spans of two scopes, wherever in the trace they lie."""
    also = {"gen_ai.response.id": "r-1"}
    spans = call(2, 1, scope="x", also=also), agent(3, 1), call(4, 3, scope="y", also=also, at=0.1, takes=0.8)
    assert counted(agent(), *spans) == {2: [4]}


def test_a_servers_constant_response_id_joins_nothing():
    """A server that gives every answer the same id does not make one call of all of them."""
    also = {"gen_ai.response.id": "chatcmpl-123"}
    one_after_the_other = [call(number, 1, scope="x", also=also, at=number) for number in (2, 3, 4)]
    at_once = [call(number, 1, scope="x", also=also) for number in (5, 6)]
    assert set(counted(agent(), *one_after_the_other, *at_once)) == {2, 3, 4, 5, 6}


def test_a_tool_within_the_same_tool_is_one():
    """MCP's client and server spans below the tool's own tell the call again."""
    assert counted(agent(), tool(2, 1), tool(3, 2), tool(4, 3)) == {2: [3, 4]}


def test_a_tool_that_calls_itself_with_other_arguments_is_two():
    """The same tool with other arguments within is another call."""
    key = "gen_ai.tool.call.arguments"
    assert counted(agent(), tool(2, 1, also={key: '{"n":2}'}), tool(3, 2, also={key: '{"n":1}'})) == {2: [], 3: []}


def test_order_of_arrival_changes_nothing():
    """Which span counts does not depend on the order in which spans came."""
    spans = [agent(), call(2, 1, said="a"), call(3, 2, said="a"), call(4, 1, said="b", at=2), call(5, 4, at=2)]
    assert counted(*spans) == counted(*reversed(spans)) == {2: [3], 4: [5]}

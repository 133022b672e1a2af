"""Declared functions of every sort: what is recorded of them, and that they stay what they were."""

from __future__ import annotations

import asyncio
import inspect

import pytest

import otel_agent_replay as replay
from otel_agent_replay.model import OutcomeStatus
from tests.support.memory_journal import recording


@pytest.fixture
def journal():
    with recording() as found:
        yield found


def in_run(action):
    return replay.agent(name="desk")(action)


@replay.tool(side_effect="read")
def plain(order: str, *extra: int, state: str = "new") -> dict:
    """Say what it was given."""
    return {"order": order, "extra": list(extra), "state": state}


@replay.tool
def failing(order: str) -> None:
    raise KeyError(order)


@replay.tool
async def waiting(order: str) -> str:
    await asyncio.sleep(0)
    return order.upper()


@replay.tool
def counting(top: int):
    received = yield from range(top)
    return received or "done"


@replay.tool
async def counting_async(top: int):
    for number in range(top):
        yield number


class Shop:
    @replay.tool(name="sell")
    def sell(self, item: str) -> str:
        return f"sold {item}"

    @staticmethod
    @replay.tool
    def price(item: str) -> int:
        return len(item)

    @classmethod
    @replay.tool
    def open(cls, day: str) -> str:
        return f"{cls.__name__} {day}"


@pytest.mark.parametrize("builtin", [max, print])
def test_a_builtin_is_declared_although_it_may_have_no_signature(builtin, journal, capsys):
    """`max` has none on most Pythons, `print` none before 3.11: a call's arguments are kept in order."""
    declared = replay.tool(builtin)
    assert in_run(lambda: declared(3, 5))() == (5 if builtin is max else None)
    assert journal.request(builtin.__name__) == {"*args": [3, 5]}


def test_a_tool_is_recorded_with_its_arguments_by_name_and_its_value(journal):
    """Positional, extra and named arguments, the side effect and the value are in the records."""
    assert in_run(lambda: plain("17", 1, 2, state="paid"))()["extra"] == [1, 2]
    begun, ended = journal.node("plain")
    assert (begun.kind, begun.side_effect, begun.step, begun.span_name) == ("tool", "read", 1, "execute_tool plain")
    assert journal.request("plain") == {"order": "17", "*args": [1, 2], "state": "paid"}
    assert journal.result("plain") == {"order": "17", "extra": [1, 2], "state": "paid"}
    assert ended.status == OutcomeStatus.OK.value
    assert journal.attributes("plain")["gen_ai.tool.name"] == "plain"


def test_a_tool_without_a_side_effect_counts_as_external(journal):
    """What was not declared is taken for the most dangerous."""
    in_run(lambda: next(iter(counting(1))))()
    assert journal.node("counting")[0].side_effect == "external"


def test_an_error_reaches_the_caller_and_the_record(journal):
    """A tool's own exception is raised on as it is, and kept with its class and message."""

    def agent():
        with pytest.raises(KeyError, match="17"):
            failing("17")
        return "went on"

    assert in_run(agent)() == "went on"
    _, ended = journal.node("failing")
    assert (ended.status, ended.error_type) == ("error", "KeyError")
    assert ended.exchange.failure.type == "builtins:KeyError"


def test_a_coroutine_function_stays_one(journal):
    """It is awaited as before, and its value recorded."""
    assert inspect.iscoroutinefunction(waiting)

    @replay.agent(name="desk")
    async def agent():
        return await waiting("a")

    assert asyncio.run(agent()) == "A"
    assert journal.result("waiting") == "A"


def test_a_cancelled_call_is_recorded_as_cancelled(journal):
    """Cancelling is no error of the tool."""

    @replay.tool
    async def endless() -> None:
        await asyncio.Event().wait()

    @replay.agent(name="desk")
    async def agent():
        call = asyncio.ensure_future(endless())
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(agent())
    assert journal.node("endless")[1].status == "cancelled"


def test_a_generators_items_and_return_value_are_recorded(journal):
    """Sent values reach it, and what it yields and returns is kept."""

    @replay.agent(name="desk")
    def agent():
        items = counting(2)
        assert inspect.isgenerator(items)
        return list(items)

    assert agent() == [0, 1]
    assert journal.result("counting") == {"yielded": [0, 1], "returned": "done"}


def test_a_generators_items_are_taken_by_value(journal):
    """What the consumer makes of an item afterwards is not in the recording."""

    @replay.tool
    def baskets():
        yield ["apple"]

    @replay.tool
    async def baskets_async():
        yield ["pear"]

    @replay.agent(name="desk")
    async def agent():
        for basket in baskets():
            basket.clear()
        async for basket in baskets_async():
            basket.clear()

    asyncio.run(agent())
    assert journal.result("baskets")["yielded"] == [["apple"]]
    assert journal.result("baskets_async")["yielded"] == [["pear"]]


def test_a_generator_left_early_is_recorded_as_far_as_it_was_taken(journal):
    """Closing it ends the crossing there and then, marked as closed early."""

    @replay.agent(name="desk")
    def agent():
        items = counting(5)
        next(items)
        items.close()
        plain("o-1")

    agent()
    _, ended = journal.node("counting")
    assert ended.end_sequence < journal.node("plain")[0].sequence
    assert ended.exchange.closed_early
    assert journal.result("counting")["yielded"] == [0]


def test_an_async_generators_items_are_recorded(journal):
    """It stays an async generator."""
    assert inspect.isasyncgenfunction(counting_async)

    @replay.agent(name="desk")
    async def agent():
        return [item async for item in counting_async(3)]

    assert asyncio.run(agent()) == [0, 1, 2]
    assert journal.result("counting_async")["yielded"] == [0, 1, 2]


def test_methods_of_every_sort_leave_the_instance_out(journal):
    """Method, static method and class method: the instance or class is no argument."""

    def agent():
        return [Shop().sell("tea"), Shop.price("tea"), Shop().price("milk"), Shop.open("Monday")]

    assert in_run(agent)() == ["sold tea", 3, 4, "Shop Monday"]
    assert journal.request("sell") == {"item": "tea"}
    assert journal.request("open") == {"day": "Monday"}
    assert [begun.occurrence for begun, _ in journal.nodes() if begun.name == "price"] == [0, 1]


def test_a_decorated_function_keeps_its_name_and_words():
    """What a framework reads of a function is still there."""
    assert (plain.__name__, plain.__doc__) == ("plain", "Say what it was given.")
    assert list(inspect.signature(plain).parameters) == ["order", "extra", "state"]


def test_outside_a_run_a_declared_function_is_the_function_itself(journal):
    """Nothing is recorded where no agent runs."""
    assert plain("17")["order"] == "17"
    assert asyncio.run(waiting("a")) == "A"
    assert list(counting(2)) == [0, 1]
    assert journal.records == []


def test_what_crosses_inside_a_tool_is_its_child(journal):
    """A tool that calls a tool: the inner one's parent is the outer."""

    @replay.tool
    def outer() -> str:
        return plain("1")["order"]

    in_run(outer)()
    assert journal.node("plain")[0].parent_span_id == journal.node("outer")[0].span_id


def test_arguments_are_taken_by_value_before_the_function_runs(journal):
    """A tool that changes its argument does not change what was recorded of it."""

    @replay.tool
    def emptying(basket: list) -> None:
        basket.clear()

    in_run(lambda: emptying([1, 2]))()
    assert journal.request("emptying") == {"basket": [1, 2]}


def test_what_does_not_round_trip_is_said_at_once(journal):
    """An argument that cannot be kept whole is noted in the record of the begin."""
    in_run(lambda: plain(object()))()  # type: ignore[arg-type]
    begun, ended = journal.node("plain")
    assert begun.exchange.request_incomplete
    assert begun.exchange.request_notes
    assert ended.exchange.result_incomplete


def test_a_large_value_is_a_body_of_its_own_and_a_small_one_is_not(journal):
    """Small payloads lie in their node's records."""
    in_run(lambda: (plain("small"), plain("x" * 9000)))()
    small, large = [pair for pair in journal.nodes() if pair[0].name == "plain"]
    assert small[0].request_data and small[1].result_data
    assert not large[0].request_data and not large[1].result_data
    assert {body.digest for body in journal.of("body")} >= {large[0].request_digest, large[1].result_digest}


@pytest.mark.parametrize(
    ("key", "expected"), [("order", "17"), (lambda order, *extra, **named: f"{order}/{len(extra)}", "17/1")]
)
def test_an_idempotency_key_is_a_parameter_or_a_function_of_the_arguments(journal, key, expected):
    """It is recorded with the begin, before anything is written anywhere."""

    @replay.tool(side_effect="write", idempotency_key=key)
    def refund(order: str, *extra: int) -> None:
        return None

    in_run(lambda: refund("17", 5))()
    assert journal.node("refund")[0].exchange.idempotency_key == expected


def test_an_idempotency_key_that_the_caller_leaves_to_its_default_is_the_default(journal):
    """The key is what the function gets, given or not; no key is none, not one that all such calls share."""

    @replay.tool(side_effect="write", idempotency_key="order")
    def refund(cents: int, order: str | None = "o-1") -> None:
        return None

    in_run(lambda: (refund(5), refund(5, None), refund(5, order="o-2")))()
    begun = [node for node, _ in journal.nodes() if node.name == "refund"]
    assert [node.exchange.idempotency_key for node in begun] == ["o-1", "", "o-2"]


def test_decisions_retrievals_and_approvals_have_their_kinds(journal):
    """The three are recorded like tools, each under its own kind."""
    route = replay.decision(lambda question: "billing", name="route")
    search = replay.retriever(lambda query: ["doc 1"], name="search")
    ask = replay.approval(lambda action: True, name="ask")
    in_run(lambda: (route("?"), search("tea"), ask({"refund": 5})))()
    kinds = {begun.name: (begun.kind, begun.side_effect, begun.span_name) for begun, _ in journal.nodes()}
    assert kinds == {
        "route": ("decision", "none", "decision route"),
        "search": ("retrieval", "read", "retrieval search"),
        "ask": ("approval", "external", "approval ask"),
    }

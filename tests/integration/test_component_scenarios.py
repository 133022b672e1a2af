"""Orchestrators on fixtures, whole: what keeps the rules holds, and what breaks one is told, with its event."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from pathlib import Path

import pytest

from otel_agent_replay.boundary import sleep as sleep_hooks
from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.testing import component_hooks, run_component
from tests.support import component_agents, component_desk

AGENTS = component_agents.__name__
DESK = component_desk.__name__
HERE = Path(__file__).parent


@pytest.fixture(autouse=True, scope="module")
def hooks():
    with component_hooks():
        yield


@pytest.fixture(autouse=True)
def nobody_sleeps(monkeypatch):
    """Fails where somebody asks for a real sleep."""
    asked = []
    monkeypatch.setattr(sleep_hooks, "_time_sleep", asked.append)
    yield
    assert not asked


def run(agent, *fixtures, given=None, **keys):
    input_ = {"order_id": "17"} if given is None else given
    return run_component({"entry": f"{AGENTS}:{agent}", "input": input_, "fixtures": list(fixtures), **keys})


def tool(name, *attempts, **keys):
    return {"tool": name, "attempts": list(attempts), **keys}


def value(given, **keys):
    return {"value": given, **keys}


def rules(result):
    return [one.rule for one in result.broken]


def shapes(result):
    return [line["shape"] for line in result.log if "shape" in line]


TIMED_OUT = {"timeout": "read", "takes": "30s", "begins": {"operation": "refund-17", "completes_after": "15m"}}
STATUS = tool(
    "refund_status",
    {
        "operation": {
            "name": "refund-17",
            "unknown": value({"state": "none"}),
            "running": value({"state": "pending"}),
            "done": value({"state": "refunded"}),
        }
    },
    repeat=True,
)


# --- a timeout with an operation that was begun ---


def test_a_refund_that_timed_out_is_looked_up_until_it_is_done():
    """The call times out, the operation goes on, the status is pending and then done: one effect, no second call."""
    result = run("careful", tool("refund", TIMED_OUT), STATUS).check()
    assert shapes(result) == ["timeout", "operation running", "operation running", "operation done"]
    assert result.states == ["REFUNDING", "REFUNDED"]
    assert result.elapsed_s == 30 + 2 * 600
    assert [event["happened"] for event in result.events if event["kind"] == "tool"] == [True, False, False, False]


def test_a_refund_that_never_reached_the_shop_is_left_to_a_person():
    """Where nothing was begun the status stays unknown, and the orchestrator gives up after half an hour."""
    result = run("careful", tool("refund", {"timeout": "connect"}), STATUS)
    assert result.check().result == "a person must look"
    assert shapes(result)[1:] == ["operation unknown"] * 3
    assert not any(event["happened"] for event in result.events)


@pytest.mark.parametrize("key", [False, True])
def test_a_second_refund_after_a_timeout_is_an_effect_twice(key):
    """Without a key, or under a new key each time, the shop cannot tell: the money goes out twice."""
    refund = tool("refund" if key else "keyless_refund", TIMED_OUT, value({}))
    result = run("careless", refund, given={"order_id": "17", "key": key})
    assert rules(result) == ["effect_twice"]
    assert result.broken[0].event == 4
    assert result.outcome == "ok"
    assert not result.holds


def test_a_second_refund_under_the_same_key_is_one_effect():
    """The shop can tell by the key."""
    assert run("keyed", tool("keyed_refund", TIMED_OUT, value({}))).holds


# --- a person's approval ---


def approval(*attempts):
    return {"approval": "confirm", "attempts": list(attempts)}


GRANTED = {"approval": {"granted": True, "by": "ann"}}
FORBIDDEN = {"forbidden": ["WAITING_HUMAN_APPROVAL -> AUTO_EXECUTE"], "terminal": ["EXPIRED", "REJECTED"]}


def test_an_approval_in_time_lets_the_refund_happen():
    """Twenty of thirty minutes: approved, and by whom."""
    result = run(
        "asks_a_person", approval({**GRANTED, "takes": "20m"}), tool("refund", value({})), transitions=FORBIDDEN
    )
    assert result.check().result == "approved"
    assert result.states == ["WAITING_HUMAN_APPROVAL", "APPROVED"]
    assert result.elapsed_s == 1200


def test_an_approval_that_comes_too_late_has_expired():
    """Forty minutes are over at once, the deadline strikes after thirty, and nothing happens."""
    result = run("asks_a_person", approval({**GRANTED, "takes": "40m"}), transitions=FORBIDDEN)
    assert result.check().result == "expired"
    assert result.elapsed_s == 1800
    assert [line["status"] for line in result.log if "approval" in line] == ["cancelled"]


def test_going_on_without_the_approval_is_told_though_the_run_ends_well():
    """The last status says nothing of it: the change of state does."""
    result = run(
        "asks_a_person",
        approval({**GRANTED, "takes": "40m"}),
        tool("refund", value({})),
        given={"order_id": "17", "patient": False},
        transitions=FORBIDDEN,
    )
    assert result.outcome == "ok"
    assert rules(result) == ["forbidden_transition"]
    assert "WAITING_HUMAN_APPROVAL -> AUTO_EXECUTE" in result.broken[0].message
    with pytest.raises(AssertionError, match="forbidden_transition at event 4"):
        result.check()


# --- callbacks ---


def calls_back(after, entry="paid"):
    return value(
        {"accepted": True}, calls_back={"entry": f"{AGENTS}:{entry}", "arguments": {"order_id": "17"}, "after": after}
    )


@pytest.mark.parametrize("entry", ["paid", "paid_async"])
def test_a_late_callback_wakes_whoever_waits_for_it(entry):
    """The webhook comes after forty minutes; its state and the orchestrator's are in the log in their order."""
    result = run("waits_for_webhook", tool("refund", calls_back("40m", entry))).check()
    assert result.states == ["PAID", "DONE"]
    assert result.elapsed_s == 2400 + (entry == "paid_async")
    assert [line["at"] for line in result.log if "callback" in line] == [2400]


def test_a_callback_after_the_end_is_still_delivered_and_judged():
    """It comes an hour after the orchestrator gave up, and changes a state that was to be the last."""
    result = run("waits_for_webhook", tool("refund", calls_back("2h")), transitions={"terminal": ["GAVE_UP"]})
    assert result.result == "gave up"
    assert rules(result) == ["after_terminal_state"]
    assert result.elapsed_s == 7200


# --- waits of clients and libraries ---


def chat(*attempts):
    return {"model": "chat", "attempts": list(attempts)}


@pytest.mark.parametrize("agent", ["patient_client", "patient_async_client"])
def test_a_model_clients_own_retries_take_virtual_time(agent):
    """The server's Retry-After of 45 seconds is kept, the client's own back-off too, the same at every run."""
    fixture = chat({"rate_limited": {"retry_after": 45}}, {"reset": True}, {"message": {"text": "yes"}})
    first, second = run(agent, fixture).check(), run(agent, fixture).check()
    assert shapes(first) == ["rate_limited", "reset", "message"]
    at = [line["at"] for line in first.log if "model" in line]
    assert at[1] == 45
    assert 45 < at[2] < 55
    assert first.log == second.log


@pytest.mark.parametrize("agent", ["patient_client", "patient_async_client"])
def test_an_answer_that_outlasts_the_clients_own_timeout_is_a_timeout(agent):
    """The model client waits ten minutes for an answer that would take forty, and then tries again by itself."""
    result = run(agent, chat({"message": {"text": "late"}, "takes": "40m"}, {"message": {"text": "yes"}})).check()
    first, second = (line for line in result.log if "model" in line)
    assert (first["shape"], first["error"], first["took"]) == ("message", "read_timeout", 600)
    assert 600 < second["at"] < 610
    assert result.result == "yes"


def test_half_an_hour_of_backing_off_is_over_at_once():
    """A library's waits of 10 and 20 minutes, and its deadline by the clock; nobody sleeps."""
    result = run("half_an_hour", tool("second_opinion", {"refused": True}, {"refused": True}, value("yes"))).check()
    assert result.elapsed_s == 1800
    assert result.result == "after 1800 s"


def test_a_librarys_deadline_by_the_clock_gives_up():
    """After half an hour `stop_after_delay` does not try a fourth time."""
    result = run(
        "half_an_hour",
        tool("second_opinion", {"refused": True}, repeat=True),
        expect={"error": "ConnectionRefusedError"},
    )
    result.check()
    assert result.elapsed_s == 1800
    assert shapes(result) == ["refused"] * 3


def test_a_web_clients_own_deadline_strikes_in_virtual_time():
    """It gives up after its five minutes, though the answer would come after ten."""
    slow = {"http": "GET shop.test/slow", "attempts": [{"response": {"text": "late"}, "takes": "10m"}]}
    result = run("web_session", slow).check()
    assert result.result == "TimeoutError"
    assert result.elapsed_s == 300


MESSAGE = {"text": "hello you", "tool_calls": [{"name": "find", "id": "c1", "arguments": {"q": "x"}}]}


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_client_reads_a_rendered_message(stream):
    """Text, tool call and stop reason come out of the real client."""
    result = run("anthropic_client", chat({"message": MESSAGE}), given={"stream": stream}).check()
    assert result.result == "hello you find {'q': 'x'} tool_use"


@pytest.mark.parametrize("stream", [False, True])
def test_the_responses_client_reads_a_rendered_message(stream):
    """Text, function call and status come out of the real client."""
    result = run("responses_client", chat({"message": MESSAGE}), given={"stream": stream}).check()
    assert result.result == 'hello you find {"q": "x"} completed'


# --- the rest of the boundary ---


def test_chance_and_clock_are_the_cases():
    """The same seed draws the same, another one not; the clock begins where the case says; variables are its own."""
    keys = {"clock": {"start": "2026-03-01T09:00:00Z"}, "environment": {"SHOP_URL": "http://shop.test"}}
    first, again = (run("draws", seed="one", **keys).result for _ in range(2))
    other = run("draws", seed="two", **keys).result
    assert first == again
    assert (first["uuid"], first["random"]) != (other["uuid"], other["random"])
    assert first["time"] == 1772355600
    assert first["variable"] == "http://shop.test"


def test_decisions_searches_and_the_orchestrators_own_http():
    """A tool without side effect runs; what it asks of a server is a fixture too."""
    result = run(
        "looks_up",
        {"decision": "route", "attempts": [value("billing")]},
        {"retrieval": "search", "arguments": {"query": "refund policy"}, "attempts": [value(["p. 4"])]},
        {"http": "GET prices.test/*", "attempts": [{"response": {"json": {"cents": 4900}}}]},
    ).check()
    assert result.result == {"desk": "billing", "found": ["p. 4"], "cents": 4900}
    assert [event["source"] for event in result.events if event["kind"] == "tool"] == ["live"]


def opinions(*takes):
    return [
        {**tool("second_opinion", value(number, takes=after)), "arguments": {"order_id": f"17-{number}"}}
        for number, after in enumerate(takes)
    ]


def test_threads_end_in_the_order_of_virtual_time():
    """Three answers after 30, 10 and 20 minutes."""
    result = run("pooled", *opinions("30m", "10m", "20m")).check()
    assert result.result == [1, 2, 0]
    assert result.elapsed_s == 1800


def test_the_first_answer_wins_and_the_others_are_cancelled():
    """Three tasks, of which the second is answered first."""
    fixtures = [{**fixture, "tool": "slow"} for fixture in opinions("30m", "10m", "20m")]
    result = run("gathered", *fixtures).check()
    assert result.result == [1]
    assert result.elapsed_s == 600
    assert [line.get("status", "ok") for line in result.log if "tool" in line] == ["cancelled", "ok", "cancelled"]


def test_an_agent_that_calls_another_is_two_runs_of_one_log():
    """Both runs begin and end in the log, and share the fixtures."""
    result = run("outer", tool("second_opinion", value("yes"))).check()
    assert result.result == "inner said: yes"
    assert [next(iter(line.items() - {("at", 0)}))[0] for line in result.log if "run" in line or "end" in line]
    assert [(event["kind"], event["run"]) for event in result.events] == [
        ("run", 1),
        ("run", 2),
        ("tool", 2),
        ("end", 2),
        ("end", 1),
    ]


def test_an_entry_need_not_be_an_agent():
    """A plain function is a run of its own, and so is one that yields."""
    plain = run("undeclared", tool("second_opinion", value("yes"))).check()
    assert (plain.result, plain.states) == ("yes", ["ASKED"])
    yielding = run("yields", tool("second_opinion", value("a"), value("b"))).check()
    assert (yielding.result, yielding.elapsed_s) == (["a", "b"], 60)


def test_another_function_may_stand_for_the_entry():
    """A test hands in what it wants to try."""
    case = {"entry": f"{AGENTS}:inner", "input": {"order_id": "1"}, "fixtures": [tool("second_opinion", value("x"))]}
    result = run_component(case, function=lambda order_id: component_desk.second_opinion(order_id) + "!")
    assert result.check().result == "x!"


def test_an_error_of_the_shops_own_client_is_raised_as_its_class():
    """A conflict, as the declared function's client raises it."""
    conflict = {"conflict": {"reason": "already refunded"}, "raises": f"{DESK}:StateConflict"}
    assert run("conflicted", tool("refund", conflict)).check().result == '409 Conflict: {"reason": "already refunded"}'


def test_the_users_later_turn_is_a_fixture_too():
    """What the user answers comes after a minute, and what the agent said is in the log."""
    turn = {"input": "user_says", "arguments": {"said": "Which order?"}, "attempts": [value("17", takes="1m")]}
    result = run("talks", turn).check()
    assert (result.result, result.elapsed_s) == ("order 17", 60)


def test_a_future_that_is_waited_for_too_long_times_out_in_a_thread():
    """`result(timeout=)` gives up after half an hour of an answer that takes forty minutes, though no loop runs."""
    late = tool("second_opinion", value("late", takes="40m"))
    assert run("bounded_by_a_future", late).check().result == "TimeoutError"
    early = tool("second_opinion", value("early", takes="20m"))
    assert run("bounded_by_a_future", early).check().result == "early"


def test_a_langgraph_is_an_orchestrator_like_any():
    """Its nodes' calls are fixtures, its checkpoints are states, and its saver stays in the process."""
    result = run("graph", tool("second_opinion", value("yes")), transitions={"state": "nowhere"}).check()
    assert result.result == "yes"
    assert any(line.get("checkpoint") for line in result.log)


# --- what must not be ---


def test_nothing_leaves_the_process_and_hiding_it_does_not_help():
    """A raw socket is refused; the server sees nobody, and the case is broken."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        port = server.getsockname()[1]
        result = run("leaves", given={"address": "127.0.0.1", "port": port})
        with pytest.raises(BlockingIOError):
            server.accept()
    assert rules(result) == ["fence"]


def test_a_call_that_no_fixture_answers_breaks_the_case_whatever_is_caught():
    """The orchestrator hides it and says that all is well."""
    result = run("swallows", tool("refundd", value({})))
    assert result.result == "all is well"
    assert rules(result) == ["no_fixture"]
    assert "it is for tool refundd" in result.broken[0].message


def test_a_run_without_end_is_ended():
    """After as many steps as the case allows."""
    result = run("endless", max_steps=20)
    assert rules(result) == ["step_limit"]
    assert result.elapsed_s == 20


def test_a_fixture_that_cannot_be_made_is_no_verdict():
    """An error class that nobody has imported: the case cannot be judged, and says why."""
    result = run("swallows", tool("refund", {"error": {"type": "nowhere:Error"}}))
    assert result.exit_code == 125
    assert "the entry's module must import it" in result.reason


@pytest.mark.parametrize(
    ("fixture", "told"),
    [
        (tool("refund", {"message": {"text": "x"}}), "a message|over HTTP"),
        (tool("refund", {"conflict": {}}), "raises"),
        (chat(value("x")), "not a value"),
        (chat({"conflict": {}, "raises": "builtins:ValueError"}), "its own error"),
        (tool("refund", value({}, raises="builtins:ValueError")), "'value' raises none"),
        (
            tool("refund", {"operation": {"name": "x", "unknown": value(1, takes=5), "done": value(2)}}),
            "takes belongs beside operation",
        ),
    ],
)
def test_a_shape_that_such_a_call_cannot_get_is_refused_before_the_run(fixture, told):
    """With the place in the case."""
    with pytest.raises(ConfigurationError, match=told):
        run("swallows", fixture)


def test_an_input_that_does_not_fit_is_refused():
    """The entry's own signature says so."""
    with pytest.raises(ConfigurationError, match="does not fit"):
        run("careful", given={"order": "17"})


def test_inside_a_running_loop_it_says_so():
    """A component run starts loops of its own."""

    async def test():
        run("undeclared")

    with pytest.raises(CannotJudge, match="not async"):
        asyncio.run(test())


# --- what is expected ---


def test_expected_events_say_what_they_care_for():
    """Keys that are left out are not compared; an event too many or another value is a diff."""
    fixture = tool("second_opinion", value("yes", takes="1m"))
    wanted = [{"run": "inner"}, {"tool": "second_opinion", "attempt": 1}, {"end": "inner", "result": "yes"}]
    assert run("inner", fixture, expect={"events": wanted, "result": "yes"}).holds
    fewer = run("inner", fixture, expect={"events": wanted[:2]})
    assert not fewer.holds
    assert any(line.startswith("+") and "end: inner" in line for line in fewer.diff)
    other = run("inner", fixture, expect={"events": [wanted[0], {"tool": "second_opinion", "took": 5}, wanted[2]]})
    assert [line for line in other.diff if line.startswith("-") and "took: 5" in line]


@pytest.mark.parametrize(
    ("expect", "rule"),
    [
        ({"result": "no"}, "result"),
        ({"outcome": "error"}, "outcome"),
        ({"error": "ValueError"}, "outcome"),
        ({"final_state": "LOST"}, "final_state"),
        ({"final_state": {"x": 1}}, "final_state"),
    ],
)
def test_what_is_not_as_expected_breaks_the_case(expect, rule):
    """Result, outcome, error and final state."""
    assert rule in rules(run("undeclared", tool("second_opinion", value("yes")), expect=expect))


def test_an_expected_log_that_is_not_there_breaks_the_case():
    """A name with a slip of the pen does not pass for a log."""
    result = run("undeclared", tool("second_opinion", value("yes")), expect={"events": "evnts.yaml"})
    assert rules(result) == ["expected_log_missing"]


def test_a_run_that_fails_has_to_be_expected():
    """An error that nobody expected breaks a case that says nothing of outcomes."""
    broken = run("inner", tool("second_opinion", {"reset": True}))
    assert rules(broken) == ["outcome"]
    assert run("inner", tool("second_opinion", {"reset": True}), expect={"error": "ConnectionResetError"}).holds


def test_everything_is_put_back():
    """Environment, generator, clock and event loop are as they were."""
    random.seed(5)
    before = random.getstate()
    loop_time, sleep = asyncio.BaseEventLoop.time, time.sleep
    run("draws", environment={"COMPONENT_TEST_ONLY": "1"})
    assert random.getstate() == before
    assert "COMPONENT_TEST_ONLY" not in os.environ
    assert (asyncio.BaseEventLoop.time, time.sleep) == (loop_time, sleep)

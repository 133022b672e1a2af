"""Every row of the component table: each shape of an answer, met by retrying and by falling back, with each client."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_agent_replay.boundary import sleep as sleep_hooks
from otel_agent_replay.boundary import virtual_time
from otel_agent_replay.replay.component.case import Case
from otel_agent_replay.replay.component.running import component_hooks, run_case
from tests.support import component_desk
from tests.support.component_desk import CLIENTS, MODELS, TOOLS

FIXTURE = {
    **dict.fromkeys(MODELS, {"model": "chat"}),
    "tool": {"tool": "refund"},
    "tool_async": {"tool": "refund_async"},
    **dict.fromkeys(("httpx", "httpx_async", "requests", "aiohttp"), {"http": "POST shop.test/refunds"}),
}
DESK = component_desk.__name__
CONFLICT = {"reason": "already refunded"}
SHAPES = {
    "timeout": {"timeout": "read", "takes": "4m"},
    "connect_timeout": {"timeout": "connect", "takes": "1m"},
    "refused": {"refused": True},
    "reset": {"reset": True},
    "malformed": {"malformed": True},
    "conflict": {"conflict": CONFLICT, "raises": f"{DESK}:StateConflict"},
    "rate_limited": {"rate_limited": {"retry_after": "1h"}, "raises": f"{DESK}:TooManyRequests"},
    "stream_broken": {"stream_broken": {"message": {"text": "Yes, it may be refunded."}, "after_events": 2}},
    "needs_confirmation": {"needs_confirmation": {"code": "c-1"}},
    "error": {"error": {"type": f"{DESK}:StateConflict", "message": "by hand"}},
}
RAISED = {
    "timeout": ("ReadTimeout", "ReadTimeout", "SocketTimeoutError", "APITimeoutError", "TimeoutError"),
    "connect_timeout": (
        "ConnectTimeout",
        "ConnectTimeout",
        "ConnectionTimeoutError",
        "APITimeoutError",
        "TimeoutError",
    ),
    "refused": (
        "ConnectError",
        "ConnectionError",
        "ClientConnectorError",
        "APIConnectionError",
        "ConnectionRefusedError",
    ),
    "reset": ("ReadError", "ConnectionError", "ClientOSError", "APIConnectionError", "ConnectionResetError"),
    "malformed": ("JSONDecodeError", "JSONDecodeError", "JSONDecodeError", "JSONDecodeError", ""),
    "conflict": ("HTTPStatusError", "HTTPError", "ClientResponseError", "ConflictError", "StateConflict"),
    "rate_limited": ("HTTPStatusError", "HTTPError", "ClientResponseError", "RateLimitError", "TooManyRequests"),
    "stream_broken": ("", "", "", "APIConnectionError", ""),
    "needs_confirmation": ("", "", "", "", ""),
    "error": ("StateConflict",) * 5,
}


def raised(shape, client):
    """The class of the error that the client raises for the shape, "" for none."""
    column = {"httpx": 0, "requests": 1, "aiohttp": 2, "openai": 3, "tool": 4}[client.partition("_")[0]]
    return RAISED[shape][column]


def is_possible(shape, client):
    """A stream breaks where a model streams; a model has nothing to be confirmed."""
    return not (shape == "stream_broken" and client not in MODELS or shape == "needs_confirmation" and client in MODELS)


@pytest.fixture(autouse=True, scope="module")
def hooks():
    with component_hooks():
        yield


ROWS = [(shape, client) for shape in SHAPES for client in CLIENTS if is_possible(shape, client)]


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    """Fails where somebody asks for a real wait of the application's length."""
    asked, call_at = [], virtual_time._call_at

    def real_timer(loop, when, *args, **more):
        asked.extend([when] if when - virtual_time._time(loop) > 0.5 else [])
        return call_at(loop, when, *args, **more)

    monkeypatch.setattr(sleep_hooks, "_time_sleep", asked.append)
    monkeypatch.setattr(virtual_time, "_call_at", real_timer)
    yield
    assert not asked, "somebody really waited"


def good(client):
    if client in MODELS:
        return {"message": {"text": "yes"}}
    return {"value": "yes"} if client in TOOLS else {"response": {"json": "yes"}}


def run(agent, client, *attempts, more=(), **keys):
    if client not in TOOLS:  # each client raises its own error
        attempts = [{key: value for key, value in one.items() if key != "raises"} for one in attempts]
    document = {
        "entry": f"{DESK}:{agent}",
        "input": {"client": client},
        "fixtures": [{**FIXTURE[client], "attempts": list(attempts)}, *more],
        **keys,
    }
    return run_case(Case.of(document, Path(component_desk.__file__).parent))


def events(result):
    """The log without what all of a client's rows have in common."""
    return [{k: v for k, v in line.items() if k not in ("arguments", "began", "effect")} for line in result.log]


def took(shape, client):
    """How long the shape takes: as it says, or as long as the client waits, httpx five seconds and requests thirty."""
    takes = {"timeout": 240, "connect_timeout": 60}.get(shape, 0)
    if client.startswith("httpx") or (client in MODELS and shape == "connect_timeout"):
        return min(takes, 5)
    return min(takes, 30) if client == "requests" else takes


def expected_call(shape, client, *, at, attempt):
    """The event of the call that meets the shape."""
    kind, name = next(iter(FIXTURE[client].items()))
    line = {"at": at, kind: name, "attempt": attempt, "shape": "timeout" if shape == "connect_timeout" else shape}
    over_http = client not in TOOLS
    statuses = {"malformed": 200, "conflict": 409, "rate_limited": 429, "stream_broken": 200, "needs_confirmation": 202}
    if over_http and shape in statuses:
        line["http_status"] = statuses[shape]
    faults = {
        "timeout": "read_timeout",
        "connect_timeout": "connect_timeout",
        "refused": "refused",
        "reset": "reset",
        "stream_broken": "cut",
    }
    if shape == "error":
        line |= {"status": "error", "error": f"{DESK}:StateConflict"}
    elif over_http and shape in faults:
        line |= {"status": "error", "error": faults[shape]}
    elif not over_http and raised(shape, client):
        own = shape in ("conflict", "rate_limited")
        line |= {"status": "error", "error": f"{DESK if own else 'builtins'}:{raised(shape, client)}"}
    return line | ({"took": took(shape, client)} if took(shape, client) else {})


def good_call(client, *, at, attempt):
    kind, name = next(iter(FIXTURE[client].items()))
    shape = next(iter(good(client)))
    line = {"at": at, kind: name, "attempt": attempt, "shape": shape}
    return line if client in TOOLS else {**line, "http_status": 200}


def done(at, agent, **state):
    return [{"at": at, "checkpoint": "DONE", "state": state}]


@pytest.mark.parametrize(("shape", "client"), ROWS)
def test_retrying_code_meets_the_shape_and_then_the_answer(shape, client):
    """One bad answer, a wait of a quarter of an hour, then a good one: the log is exactly that, and takes no time."""
    attempts = [SHAPES[shape], good(client)] if raised(shape, client) else [SHAPES[shape]]
    result = run("retrying", client, *attempts)
    error, later = raised(shape, client), took(shape, client)
    log = [{"at": 0, "run": "retrying"}, expected_call(shape, client, at=0, attempt=1)]
    if error:
        again = later + 900
        log += [
            {"at": later, "checkpoint": "FAILED", "state": {"error": error}},
            {"at": later, "sleep": "time.sleep", "took": 900},
            good_call(client, at=again, attempt=2),
            *done(again, "retrying", attempt=2),
        ]
    else:
        log += done(0, "retrying", attempt=1)
    assert events(result)[:-1] == log
    assert (result.outcome, result.notes[:-1]) == ("ok", [])
    assert result.elapsed_s == (later + 900 if error else 0)


@pytest.mark.parametrize(("shape", "client"), ROWS)
def test_code_that_falls_back_meets_the_shape_and_goes_elsewhere(shape, client):
    """One bad answer leads to the second opinion, once, and a good one does not."""
    second = {"tool": "second_opinion", "attempts": [{"value": "no"}]}
    result = run("falling_back", client, SHAPES[shape], more=[second])
    error, later = raised(shape, client), took(shape, client)
    log = [{"at": 0, "run": "falling_back"}, expected_call(shape, client, at=0, attempt=1)]
    if error:
        log += [
            {"at": later, "checkpoint": "FELL_BACK", "state": {"error": error}},
            {"at": later, "tool": "second_opinion", "attempt": 1, "shape": "value"},
            *done(later, "falling_back", answer="no"),
            {"at": later, "end": "falling_back", "status": "ok", "result": "no"},
        ]
        assert events(result) == log
    else:
        assert events(result)[:2] == log
        assert [line.get("checkpoint") for line in result.log][2] == "DONE"
        assert "second_opinion" not in {line.get("tool") for line in result.log}


@pytest.mark.parametrize("client", CLIENTS)
def test_three_bad_answers_end_in_the_orchestrators_own_error(client):
    """Retries end; the log has each of them, and the run's own error."""
    result = run("retrying", client, {"reset": True}, {"refused": True}, {"timeout": "read", "takes": "4s"})
    assert [line["shape"] for line in result.log if "shape" in line] == ["reset", "refused", "timeout"]
    assert (result.outcome, result.error) == ("error", "builtins:RuntimeError: three attempts failed")
    assert result.elapsed_s == 3 * 900 + 4
    assert [one.rule for one in result.broken] == ["outcome"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_beyond_the_prepared_ones_stops_the_run(client):
    """The retry that nobody prepared is named, with the fixture that is used up; it never goes live."""
    result = run("retrying", client, {"reset": True})
    assert [one.rule for one in result.broken] == ["no_fixture"]
    assert "its 1 attempts are used up" in result.broken[0].message
    assert not result.holds

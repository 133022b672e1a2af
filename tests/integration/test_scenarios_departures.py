"""What a changed agent's replay says, and that nothing an agent catches can hide it.

One recording serves all variants: the script's first argument says what was changed since.
"""

from __future__ import annotations

import pytest

from otel_agent_replay.replay.verdict import VerdictStatus
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import echo
from tests.support.agents import Script, assert_same

pytest.importorskip("httpx")

SOURCE = """
import http.client, os, sys
import httpx
import otel_agent_replay as replay

CHANGE = sys.argv[1] if len(sys.argv) > 1 else ""
client = httpx.Client()

def ask(*texts, **more):
    messages = [{"role": "system", "content": "You are terse."}, *({"role": "user", "content": text} for text in texts)]
    body = {"model": "m", "messages": messages, **more}
    try:
        answer = client.post(os.environ["SERVER"] + "/v1/chat/completions", json=body)
        return answer.json()["choices"][0]["message"]["content"]
    except Exception as error:
        return f"caught {type(error).__name__}"
    except BaseException:
        if CHANGE != "swallow everything":
            raise
        return "caught it all"

@replay.tool(side_effect="read")
def look_up(order):
    return {"order": order, "state": "late"}

@replay.tool(side_effect="read")
def lines():
    for number in range(100):
        yield number

@replay.agent
def support(question):
    word = "order" if CHANGE not in {"word", "swallow everything"} else "parcel"
    found = ask("hello", f"where is my {word}?")
    more = {"metadata": {"request": "1" if CHANGE != "volatile" else "2"}}
    if CHANGE != "missing":
        look_up(17)
    taken = []
    for line in lines():
        taken.append(line)
        if len(taken) == (2 if CHANGE != "more items" else 3):
            break
    if CHANGE == "extra":
        try:
            look_up(18)
        except Exception:
            os._exit(3)  # never come to: what stops a replay is no such error
    if CHANGE == "bypass":
        http.client.HTTPConnection("127.0.0.1", 9).request("GET", "/")
    return ask("and now?", **more)

try:
    support("where?")
except BaseException as error:
    print(type(error).__name__)
    sys.exit(0)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    with ScriptedProvider(echo) as server:
        script = Script(tmp_path_factory.mktemp("departures"), SOURCE, SERVER=server.url)
        run = script.record()["support"]
    return script, run


def departed(recorded, change, **options):
    script, run = recorded
    verdict = script.replay(run, change, **options)
    assert verdict.status is VerdictStatus.DEPARTED, verdict.to_json()
    assert verdict.exit_code == 1
    assert verdict.child_exit == 0, "the agent itself hid what happened"
    return verdict


def test_an_unchanged_agent_is_the_same(recorded):
    """Without a change there is no departure."""
    script, run = recorded
    assert_same(script.replay(run))


def test_one_changed_word_of_a_prompt_departs_at_its_message(recorded):
    """Scenario 15: the departure names the step and the message, and shows both texts."""
    verdict = departed(recorded, "word")
    assert verdict.departure.message.startswith("request differs at step 1: messages[2].content")
    assert verdict.departure.differences == ("messages[2].content: 'where is my order?' -> 'where is my parcel?'",)


def test_an_agent_that_catches_everything_has_departed(recorded):
    """`except BaseException` around every call hides nothing: later calls fail too, and the verdict stands."""
    verdict = departed(recorded, "swallow everything")
    assert verdict.departure.step == 1
    assert verdict.steps_replayed == 0


def test_an_extra_call_departs(recorded):
    """A call that is not on the tape stops the replay though the agent catches `Exception` around it."""
    verdict = departed(recorded, "extra")
    assert "look_up" in verdict.departure.came
    assert "18" in verdict.departure.came


def test_a_missing_call_is_reported_as_never_asked_for(recorded):
    """A recorded step that the agent left out is named."""
    verdict = departed(recorded, "missing")
    assert [(missed.step, missed.path[-1]) for missed in verdict.never_asked] == [(2, "tool:look_up#0")]
    assert verdict.departure.message.startswith("step 2 was never asked for: tool look_up")


def test_taking_more_of_a_tools_stream_than_recorded_departs(recorded):
    """A consumer that closed a tool's generator after two items and now wants a third has left the tape."""
    verdict = departed(recorded, "more items")
    assert verdict.departure.expected == "the generator to be closed after 2 items"


def test_a_volatile_path_is_left_out_and_said(recorded):
    """Scenario 14: an id that changes with each run departs, unless a rule names its path; the verdict then says so."""
    verdict = departed(recorded, "volatile")
    assert verdict.departure.differences == ("metadata.request: '1' -> '2'",)
    script, run = recorded
    verdict = script.replay(run, "volatile", volatile=["metadata.request"])
    assert_same(verdict)
    assert verdict.volatile == ("metadata.request",)


def test_a_library_that_nobody_covers_does_not_go_live(recorded):
    """Scenario 16: a call through a library without a hook is refused by the fence and departs, with its place."""
    verdict = departed(recorded, "bypass")
    assert verdict.attempts[0].what == "connect to 127.0.0.1:9"

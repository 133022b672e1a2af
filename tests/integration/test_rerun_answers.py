"""Who answers what in a re-run, and what nobody does: one source after the other, each by name."""

from __future__ import annotations

import itertools
import os
import time
from urllib.parse import urlsplit

import pytest

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.errors import (
    ConfigurationError,
    CrossingRefused,
    ReplayInterrupt,
    SpendingLimit,
    StepLimit,
    TurnMisfit,
)
from otel_agent_replay.model import AnswerSource, Kind
from otel_agent_replay.replay import virtual_clock
from otel_agent_replay.replay.rerun.outcome import observed
from otel_agent_replay.replay.rerun.plan import BASELINE, Candidate, Spending
from otel_agent_replay.replay.rerun.report import RerunStatus
from otel_agent_replay.replay.runs import ReplayRuns
from otel_agent_replay.testing.provider import ScriptedProvider
from tests.support import rerun_agents
from tests.support.rerunning import Clerk, World

FIND, REFUND = ["find", "17"], ["refund", "17", 100]


@pytest.fixture
def clerk(tmp_path, monkeypatch):
    """A recording process with its servers."""
    world = World()
    runtime = replay.configure(lake=tmp_path / "lake", seal="off")
    with (
        ScriptedProvider(world.model) as model,
        ScriptedProvider(world.shop) as shop,
        ScriptedProvider(world.bank) as bank,
    ):
        monkeypatch.setenv("MODEL_URL", model.url)
        monkeypatch.setenv("SHOP_URL", shop.url)
        monkeypatch.setenv("PAY_URL", bank.url)
        yield Clerk(runtime, world)
    replay.shutdown()


def test_reads_and_writes_come_from_the_tape_wherever_they_are_made(clerk):
    """The same calls in another order, with others in between: by their arguments, each write once."""
    origin = clerk.record([["note", "a"], ["letter", "x"], FIND])
    again = clerk.rerun(origin, [["letter", "x"], ["count", "abc"], ["note", "a"], FIND])
    assert again.result.report.status is RerunStatus.FINISHED
    assert (dict(again.result.answers), again.result.off_tape) == ({"tape": 3}, 0)
    assert again.result.alike  # parallel or not: the same things were done
    assert (len(clerk.world.writes), len(clerk.world.read)) == (2, 1)
    assert again.recorded.run.origin_run_id == origin.run.run_id


def test_draws_and_ids_are_those_of_the_recording(clerk):
    """The candidate is asked what the recorded model was asked, though the question holds a random number and an id."""
    origin = clerk.record([], agent=rerun_agents.drawing_clerk)
    again = clerk.rerun(origin, [], agent=rerun_agents.drawing_clerk)
    then, now = clerk.world.asked
    assert now["messages"] == then["messages"]
    assert again.result.alike


def test_clocks_show_what_was_recorded_and_go_on_from_there(clerk, monkeypatch):
    """A prompt that tells the time is asked again as it was; what is read beyond the tape follows it, in all clocks."""
    origin = clerk.record([], agent=rerun_agents.dated_clerk)
    then = [body["messages"] for body in clerk.world.asked]
    monkeypatch.setattr(virtual_clock, "_monotonic_ns", itertools.count(step=3600 * 10**9).__next__)
    again = clerk.rerun(origin, [], agent=rerun_agents.later_dated_clerk)
    assert [body["messages"] for body in clerk.world.asked[2:]] == then
    wall, aware, up, _ = again.done[2:]
    last = {read.name: read.value for node in origin.nodes for read in node.reads if read.kind is Kind.CLOCK}
    hours = [aware - last["time.time"], wall - last["time.time"], up - last["time.monotonic"]]
    assert [seconds / 3600 for seconds in hours] == pytest.approx([1, 2, 3], abs=0.01)
    last_span_ns = max(item.span.end_ns for item in again.recorded.spans)
    assert abs(last_span_ns - time.time_ns()) < 600 * 10**9  # what we measure ourselves is real


def test_two_re_runs_draw_alike_and_those_of_another_run_do_not(clerk):
    """What the tape has not comes from the seed and the run: an id that a test system has seen is no other run's."""
    origins = [clerk.record([], agent=rerun_agents.dated_clerk) for _ in range(2)]
    later = rerun_agents.later_dated_clerk
    drawn = [clerk.rerun(origin, [], agent=later).done[-1] for origin in (*origins, origins[0])]
    assert drawn[0] == drawn[2] != drawn[1]


def test_clocks_may_show_today(clerk):
    """For agents that sign what they send; the result says so."""
    origin = clerk.record([], agent=rerun_agents.dated_clerk)
    again = clerk.rerun(origin, [], agent=rerun_agents.dated_clerk, live_clock=True)
    then, now = clerk.world.asked[0], clerk.world.asked[2]
    assert now["messages"] != then["messages"]
    assert "clocks showed today (--live-clock)" in again.result.unfrozen


def test_a_write_that_is_not_on_the_tape_is_refused_and_ends_the_run(clerk):
    """Other arguments, or the same a second time: nobody does it, whatever the agent catches."""
    origin = clerk.record([FIND, REFUND])
    for script, refused in (
        ([["refund", "17", 200]], 'tool refund {"order":"17","cents":200}'),
        ([REFUND, REFUND, FIND], 'tool refund {"order":"17","cents":100}'),
    ):
        again = clerk.rerun(origin, script)
        assert isinstance(again.error, CrossingRefused)
        result = again.result
        assert (result.report.status, result.report.code) == (RerunStatus.REFUSED, "refused")
        assert result.report.refused == (refused,)
        assert dict(result.answers)["refused"] == 1
        assert not result.alike
        assert "refund" in result.parted.came
    assert len(clerk.world.writes) == 1


def test_a_rehearsal_takes_the_place_of_a_write_and_may_call_a_sandbox(clerk):
    """A tool with a dry run is rehearsed, against the sandbox that its dry run calls; the bank sees nothing."""
    origin = clerk.record([FIND])
    again = clerk.rerun(origin, [FIND, ["note", "hello"]])
    assert again.done[1] == {"rehearsed": True}
    assert (again.sources["note"], clerk.world.rehearsed) == ("dry_run", [{"text": "hello"}])
    assert (clerk.world.writes, dict(again.result.answers)) == ([], {"dry_run": 1, "tape": 1})
    assert again.result.off_tape == 0.5


def test_a_tool_with_a_sandbox_runs_its_own_code_there(clerk, monkeypatch):
    """Each of its requests goes below the sandbox's URL, path and body kept, and is told as edited; none elsewhere."""
    sandbox = os.environ["SHOP_URL"] + "/sandbox"

    @replay.tool(side_effect="write", sandbox=sandbox)
    def transfer(cents):
        posted = rerun_agents.post(os.environ["PAY_URL"], f"/transfers?cents={cents}", {"cents": cents})
        return [posted, rerun_agents.undeclared_post("/receipts")]

    monkeypatch.setitem(rerun_agents.ACTIONS, "transfer", transfer)
    origin = clerk.record([["transfer", 5]])
    assert [path for path, _ in clerk.world.writes] == ["/transfers?cents=5", "/receipts"]
    again = clerk.rerun(origin, [["transfer", 5], ["transfer", 7]])
    assert again.done == [[{"paid": True}, {"paid": True}], [{"rehearsed": True}, {"rehearsed": True}]]
    assert len(clerk.world.writes) == 2
    assert (clerk.world.rehearsed, again.sources["transfer"]) == ([{"cents": 7}, {"by": "nobody"}], "dry_run")
    sent = [node.call for node in again.recorded.nodes if node.kind is Kind.HTTP]
    assert [call.head.url for call in sent] == [f"{sandbox}/transfers?cents=7", f"{sandbox}/receipts"]
    assert all(any("instead of" in note for note in call.notes) for call in sent)


def test_a_request_that_cannot_go_to_the_sandbox_goes_nowhere(clerk, monkeypatch):
    """A library that chooses its connection before we see the request: the run stops before anything is sent."""
    import requests

    @replay.tool(side_effect="write", sandbox=os.environ["SHOP_URL"])
    def transfer(cents):
        return requests.post(os.environ["PAY_URL"] + "/transfers", json={"cents": cents}, timeout=20).json()

    monkeypatch.setitem(rerun_agents.ACTIONS, "transfer", transfer)
    again = clerk.rerun(clerk.record([FIND]), [["transfer", 7]])
    assert isinstance(again.error, ReplayInterrupt)
    assert "cannot go to its sandbox" in str(again.error)
    assert (clerk.world.writes, clerk.world.rehearsed) == ([], [])


@pytest.mark.parametrize("sandbox", ["sandbox.example", "ftp://sandbox.example", "https://", "https://a/?b=1"])
def test_a_sandbox_is_a_url(sandbox):
    """What is no place to send a request to is refused where the tool is declared."""
    with pytest.raises(ConfigurationError, match="is not like"):
        replay.tool(side_effect="write", sandbox=sandbox)(print)
    with pytest.raises(ConfigurationError, match="not both"):
        replay.tool(side_effect="write", sandbox="https://a", dry_run=print)(print)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the thread's own end
@pytest.mark.parametrize("action", [["letter", "y"], ["undeclared_post", "/any"], ["by_thread", "/any"]])
def test_nothing_undeclared_runs_live(clerk, action):
    """An undeclared tool, plain HTTP of the agent, and of its thread: from the tape where it is there, else refused."""
    same = clerk.record([action])
    assert len(clerk.world.writes) == 1
    alike = clerk.rerun(same, [action])
    assert (alike.result.report.status, len(clerk.world.writes)) == (RerunStatus.FINISHED, 1)
    other = clerk.rerun(clerk.record([FIND]), [action])
    assert other.result.report.status is RerunStatus.REFUSED
    assert len(clerk.world.writes) == 1


def test_plain_http_that_reads_is_live_only_by_name(clerk):
    """A GET that no tool declares is refused, unless the person who re-runs names it."""
    origin = clerk.record([FIND])
    seen = len(clerk.world.read)
    assert clerk.rerun(origin, [["get", "/status"]]).result.report.status is RerunStatus.REFUSED
    assert len(clerk.world.read) == seen
    host = urlsplit(os.environ["SHOP_URL"]).netloc
    again = clerk.rerun(origin, [["get", "/status"]], live=(f"GET {host}/status",))
    assert (again.result.report.status, len(clerk.world.read)) == (RerunStatus.FINISHED, seen + 1)


def test_other_runs_answer_reads_and_say_which_run_it_was(clerk):
    """What this run never read another one did: its answer is given, no shop is asked."""
    other, origin = clerk.record([["find", "18"]]), clerk.record([FIND])
    asked = len(clerk.world.read)
    again = clerk.rerun(origin, [FIND, ["find", "18"]], pool=[other])
    assert (dict(again.result.answers), len(clerk.world.read)) == ({"pool": 1, "tape": 1}, asked)
    span = next(item.span for item in again.recorded.spans if item.node and item.node.source is AnswerSource.POOL)
    assert span.attributes["agent_replay.pool.run_id"] == other.run.run_id.hex()


def test_runs_that_contradict_each_other_answer_nothing(clerk):
    """Two runs read two things: the declared read goes live, and why is said."""
    first = clerk.record([["find", "18"]])
    clerk.world.orders["18"] = "closed"
    second, origin = clerk.record([["find", "18"]]), clerk.record([FIND])
    asked = len(clerk.world.read)
    again = clerk.rerun(origin, [["find", "18"]], pool=[first, second])
    assert (again.sources["find"], len(clerk.world.read)) == ("live", asked + 1)
    assert "contradict" in again.result.report.pool_misses[0]
    assert again.result.report.reads_unknown == 1
    assert again.result.report.drifted == ()


def test_live_reads_are_held_against_the_recording(clerk):
    """Asked live by name: an equal answer is checked, another one has drifted, and the model is not blamed."""
    origin = clerk.record([FIND])
    same = clerk.rerun(origin, [FIND], live=("find",)).result.report
    assert (same.reads_checked, same.drifted) == (1, ())
    clerk.world.orders["17"] = "lost"
    again = clerk.rerun(origin, [FIND], live=("find",))
    (drift,) = again.result.report.drifted
    assert (drift.name, drift.recorded_step, drift.other_writes) == ("find", 2, False)
    assert again.result.alike  # the agent did the same


def test_a_read_after_other_writes_is_live_and_says_so(clerk):
    """What the recording read after a write does not answer a run that has not written it."""
    origin = clerk.record([REFUND, FIND])
    clerk.world.orders["17"] = "other"
    again = clerk.rerun(origin, [FIND])
    assert again.sources["find"] == "live"
    assert again.result.report.drifted[0].other_writes


def test_an_approval_holds_for_the_same_action_and_arguments_only(clerk):
    """The recorded yes pays what it was for; another amount is asked of nobody."""
    origin = clerk.record([["may_pay", "17", 5], ["pay", "17", 5]])
    again = clerk.rerun(origin, [["may_pay", "17", 5], ["pay", "17", 5]])
    assert dict(again.result.answers) == {"tape": 2}
    other = clerk.rerun(origin, [["may_pay", "17", 6], ["pay", "17", 6]])
    assert (other.result.report.status, other.result.report.refused) == (
        RerunStatus.REFUSED,
        ('approval may_pay {"order":"17","cents":6}',),
    )
    assert len(clerk.world.writes) == 1


def test_an_approval_under_another_policy_is_none(clerk):
    """The agent goes by another version of the policy than the person knew who said yes."""

    @replay.agent(name="clerk", policy_version="2")
    def stricter(order):
        return rerun_agents.may_pay(order, 5)

    origin = clerk.record([["may_pay", "17", 5]])
    again = clerk.rerun(origin, agent=stricter)
    assert again.result.report.refused == ('approval may_pay {"order":"17","cents":5}',)
    assert any("policy was '1', now '2'" in text for text in again.result.unfrozen)


def test_an_approval_holds_under_the_same_policy_that_is_kept_masked(clerk):
    """A policy whose version names a secret is the same policy on record, where the secret is masked."""

    @replay.agent(name="clerk", policy_version="of sk-Po3Mn7Kp1Qs9Tz5Bx2Lw8")
    def masked(order):
        return rerun_agents.may_pay(order, 5)

    again = clerk.rerun(clerk.record([], agent=masked), agent=masked)
    assert again.sources["may_pay"] == "tape"
    assert not any("policy" in text for text in again.result.unfrozen)


def test_an_approval_for_another_tool_is_none(clerk):
    """The approval function of today grants another action than the recorded one did."""

    @replay.approval(name="may_pay", action="refund")
    def may_refund(order, cents):
        return True

    @replay.agent(name="clerk", policy_version="1")
    def other(order):
        return may_refund(order, 5)

    origin = clerk.record([["may_pay", "17", 5]])
    refused = clerk.rerun(origin, agent=other).result.report.refused
    assert refused == ('approval may_pay {"order":"17","cents":5}',)


ASKED = "Shall I refund order 17?"


@pytest.mark.parametrize(
    ("said", "closely"),
    [(ASKED, 0), ("So, shall I refund order 17 now?", 1)],
)
def test_the_users_turn_comes_from_the_tape_while_it_fits(clerk, said, closely):
    """The same words, or a question of the same kind about the same order."""
    origin = clerk.record([["ask_user", ASKED]])
    again = clerk.rerun(origin, [["ask_user", said]])
    assert again.done == ["as on record: Sha"]
    assert (again.sources["ask_user"], again.result.report.turns_closely) == ("tape", closely)


@pytest.mark.parametrize("said", ["Shall I refund order 18?", "I refund order 17.", "Which colour for 17?"])
def test_a_turn_that_no_longer_fits_stops_the_run(clerk, said):
    """Another order, no question, another question: nobody invents an answer, and no later turn is taken either."""
    origin = clerk.record([["ask_user", ASKED], ["ask_user", "Anything else?"]])
    again = clerk.rerun(origin, [["ask_user", said], FIND])
    assert isinstance(again.error, TurnMisfit)
    assert again.result.report.status is RerunStatus.STOPPED
    assert "the user's turn no longer fits" in again.result.report.reason


def test_a_script_and_then_a_simulator_go_on_for_the_user(clerk):
    """Where the recorded user is gone the script answers, after it the simulator; the recorded one never comes back."""
    heard = []

    def simulator(message, turns):
        heard.append((message, turns))
        return "simulated"

    origin = clerk.record([["ask_user", ASKED], ["ask_user", "Anything else?"]])
    script = [["ask_user", "Which colour?"], ["ask_user", "Anything else?"], ["ask_user", "Sure?"]]
    again = clerk.rerun(origin, script, script=("blue", {"no": 1}), simulator=simulator)
    assert again.done == ["blue", {"no": 1}, "simulated"]
    assert heard == [("Sure?", ("Which colour?", "blue", "Anything else?", {"no": 1}))]
    assert {node.source for node in again.recorded.nodes if node.kind is Kind.INPUT} == {AnswerSource.FIXTURE}
    over = clerk.rerun(origin, script, script=("blue",))
    assert "the script is over" in over.result.report.reason


def test_no_override_makes_a_write_live(clerk):
    """Naming a tool that writes on record is refused before anything runs; a declaration that changed does not help."""
    origin = clerk.record([REFUND])
    with pytest.raises(ConfigurationError, match="would let a write happen"):
        clerk.rerun(origin, [REFUND], live=("refund",))
    unwritten = clerk.record([FIND])
    again = clerk.rerun(unwritten, [REFUND], live=("refund", "letter"))
    assert again.result.report.status is RerunStatus.REFUSED
    assert len(clerk.world.writes) == 1


def test_what_is_stubbed_is_never_called(clerk):
    """A stubbed read is answered from recordings or refused; `*` stubs all but what is named live."""
    origin = clerk.record([FIND, ["count", "abc"]])
    asked = len(clerk.world.read)
    assert clerk.rerun(origin, [["find", "18"]], stub=("find",)).result.report.status is RerunStatus.REFUSED
    assert clerk.rerun(origin, [["count", "ab"]], stub=("*",)).result.report.status is RerunStatus.REFUSED
    assert clerk.rerun(origin, [["count", "abc"]], stub=("*",)).sources["count"] == "tape"
    assert len(clerk.world.read) == asked
    again = clerk.rerun(origin, [["find", "18"], ["count", "abc"]], stub=("*",), live=("find",))
    assert again.result.report.status is RerunStatus.FINISHED
    assert len(clerk.world.read) == asked + 1
    with pytest.raises(ConfigurationError, match="say one of the two"):
        clerk.rerun(origin, [], stub=("find",), live=("find",))


def test_a_run_stops_before_the_call_that_it_may_not_pay(clerk):
    """Tokens, money without a known price, and steps: each a hard stop, in words."""
    origin = clerk.record([["ask", "1"], ["ask", "2"]])
    asked = len(clerk.world.asked)
    script = [["ask", "1"], ["ask", "2"], ["ask", "3"]]
    again = clerk.rerun(origin, script, spending=Spending(tokens=150))
    assert isinstance(again.error, SpendingLimit)
    assert (again.result.report.status, again.result.report.code) == (RerunStatus.STOPPED, "spending_limit")
    assert len(clerk.world.asked) - asked == 2
    unpriced = clerk.rerun(origin, script, spending=Spending(usd=1.0))
    assert "no price is known for new" in unpriced.result.report.reason
    priced = Candidate(model="new", price=(1.0, 10.0))  # 190 millionths a call
    cheap = clerk.rerun(origin, script, spending=Spending(usd=0.0003), candidate=priced)
    assert "it has spent 0.000380 USD of 0.0003" in cheap.result.report.reason
    assert cheap.result.use.cost_usd == pytest.approx(0.00038)
    assert clerk.rerun(origin, script, spending=Spending(usd=1.0), candidate=priced).result.report.code == ""
    assert isinstance(clerk.rerun(origin, script, max_steps=2).error, StepLimit)
    clerk.world.tells_use = False
    untold = clerk.rerun(origin, script, spending=Spending(tokens=10**6))
    assert "does not tell what it used" in untold.result.report.reason
    assert clerk.rerun(origin, script).result.report.status is RerunStatus.FINISHED


def test_agents_that_an_agent_calls_are_run_again_too(clerk):
    """The inner run has a recording of its own, and its re-run is one of its own, linked to it."""
    origin = clerk.record([["helper", "17"]])
    lake = clerk.runtime.settings.lake
    from otel_agent_replay.lake.catalog import Lake

    inner = next(one.run for one in Lake(lake).runs() if one.run.agent == "helper")
    asked = len(clerk.world.read)
    again = clerk.rerun(origin, [["helper", "17"]], inner=[Lake(lake).load(inner.run_id)])
    assert again.result.report.status is RerunStatus.FINISHED
    assert [body["model"] for body in clerk.world.asked[-2:]] == ["new", "new"]
    assert len(clerk.world.read) == asked
    clerk.runtime.journal.rotate()
    from otel_agent_replay.export.sealer import seal

    seal(lake)
    linked = [one.run for one in Lake(lake).runs() if one.run.agent == "helper" and one.run.replay]
    assert [run.origin_run_id for run in linked] == [inner.run_id]


def test_the_baseline_says_when_another_model_answers(clerk):
    """The same version once more: the snapshot that answered then is gone, and the result says so."""
    clerk.world.served = "old-2025-01"
    origin = clerk.record([FIND])
    clerk.world.served = "old-2026-06"
    again = clerk.rerun(origin, candidate=Candidate(), lane=BASELINE)
    assert again.result.alike
    assert "the model that answers is old-2026-06, was old-2025-01" in again.result.unfrozen
    assert [body["model"] for body in clerk.world.asked] == ["old", "old"]


def test_the_candidate_may_live_elsewhere_with_a_key_of_its_own(clerk):
    """Model, endpoint and key are changed at the transport; the agent still names its old server and key."""
    origin = clerk.record([FIND])
    with ScriptedProvider(clerk.world.model) as other:
        candidate = Candidate(model="new", base_url=other.url + "/gateway/v1")
        again = clerk.rerun(origin, [FIND], candidate=candidate, key="sk-candidate")
        (request,) = other.seen
    assert again.result.alike
    assert request.path == "/gateway/v1/chat/completions"
    assert request.header("authorization") == "Bearer sk-candidate"
    assert request.header("host") == urlsplit(other.url).netloc
    node = next(node for node in again.recorded.nodes if node.kind is Kind.MODEL)
    assert any("sent to" in note for note in node.call.notes)
    assert b"sk-candidate" not in b"".join(path.read_bytes() for path in clerk.runtime.settings.lake.rglob("*.log"))


def test_prompt_and_marks_are_on_the_record(clerk):
    """The candidate's prompt is what was sent; lane, repeat and candidate stand on the re-run's root."""
    origin = clerk.record([FIND])
    again = clerk.rerun(origin, [FIND], prompt="Be brief.")
    assert clerk.world.asked[-1]["messages"][0]["content"] == "Be brief."
    root = next(item.span for item in again.recorded.spans if item.node and item.node.kind is Kind.RUN)
    assert root.attributes["agent_replay.run.lane"] == "candidate"
    assert list(root.attributes["agent_replay.run.candidate"]) == ["model=new", "edited: prompt"]
    assert observed(origin).use.input_tokens == 90


def test_a_re_run_replays_exactly_from_its_own_lake(clerk):
    """The agent asks what it asked, before that was edited: it gets the re-run's answers, and nothing is live."""
    origin = clerk.record([FIND, REFUND])
    again = clerk.rerun(origin, [FIND, ["note", "x"]], prompt="Be brief.")
    asked = len(clerk.world.asked)
    recording = clerk.runtime.recording
    runs = ReplayRuns([again.recorded], target=again.recorded.run.run_id, opener=recording.open, closer=recording.close)
    with opening_runs(runs):
        assert rerun_agents.clerk("17") == again.done
    assert runs.verdict().exit_code == 0, runs.verdict().to_json()
    assert len(clerk.world.asked) == asked
    assert len(clerk.world.rehearsed) == 1

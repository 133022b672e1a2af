"""`agent-replay steps`: every model step of a cohort put to a candidate."""

from __future__ import annotations

import dataclasses
import json
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.model import Fidelity, HttpRequestHead, Kind
from otel_agent_replay.replay.ask.results import Results
from otel_agent_replay.replay.audit import AuditLog
from otel_agent_replay.replay.cohort import CohortRun, read_cohort, write_cohort
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.provider import Reply
from otel_agent_replay.testing.replies import anthropic_message
from tests.support.asked_runs import FakeModel, asked_run, body_of, document, invoke, lake_of, question, with_fidelity
from tests.support.lake_runs import RunMaker

SEARCH, REFUND, TEXT = ("search", {"q": "x"}), ("refund", {"order": 7}), "Done."
RUNS = {number: [SEARCH, REFUND, TEXT] for number in range(4)}
RECORDED = {question(number, place): one for number, run in RUNS.items() for place, one in enumerate(run)}


@pytest.fixture
def lake(tmp_path):
    return lake_of(tmp_path / "lake", [asked_run(number, decisions) for number, decisions in RUNS.items()])


def run_id(number):
    return asked_run(number, RUNS[number]).run.run_id.hex()


def steps(lake, out, url, *more, where="agent = 'clerk'", candidate="model=gpt-5-mini,"):
    cohort = ("--where", where) if where else ()
    return invoke(lake, "steps", *cohort, "--candidate", f"{candidate}base_url={url}/v1", "--out", out, *more)


def screened(lake, out, changes, *more, **options):
    """The JSON of asking a model that answers as recorded but for `changes`; and the model."""
    model = FakeModel({**RECORDED, **changes})
    with ScriptedProvider(model) as provider:
        done = steps(lake, out, provider.url, "--json", *more, **options)
    return document(done), model, done


def test_a_candidate_that_does_what_was_recorded_agrees_everywhere(lake, tmp_path):
    """Every model step is asked once, agrees, and the exit code is 0."""
    found, model, done = screened(lake, tmp_path / "out", {})
    assert done.exit_code == 0
    assert sorted(content for _, content in model.asked) == sorted(RECORDED)
    lane = found["lanes"]["candidate"]
    assert (lane["runs"], lane["runs_agreeing"], lane["runs_differing"]) == (4, 4, 0)
    assert lane["in_sight"]["agree"] == 12
    assert lane["in_sight"]["agreement"] == 1
    assert found["disagreements"] == []


def test_exactly_the_planted_changes_are_found_each_with_what_is_at_stake(lake, tmp_path):
    """Each change is found at its step, under its tool and its risk; what comes after a run's first is beyond."""
    changes = {
        question(0, 1): ("refund", {"order": 8}),  # a write with other arguments
        question(2, 0): REFUND,  # a write instead of a read
        question(2, 2): "Other words.",  # beyond, and no disagreement
        question(3, 2): ("search", {"q": "z"}),  # a read instead of text
    }
    found, _, done = screened(lake, tmp_path / "out", changes, "--disagreeing", tmp_path / "again.jsonl")
    assert done.exit_code == 1
    told = {(one["run"], one["step"]): (one["match"], one["risk"]) for one in found["disagreements"]}
    assert told == {
        (run_id(0), 3): ("other arguments", "write"),
        (run_id(2), 1): ("other tools", "write"),
        (run_id(3), 5): ("tools instead of text", "read"),
    }
    lane = found["lanes"]["candidate"]
    assert (lane["in_sight"]["steps"], lane["beyond"]["steps"]) == (9, 3)
    assert lane["by_risk"]["write"] == lane["by_risk"]["write"] | {"steps": 4, "differ": 2}
    assert lane["by_tool"]["refund"]["differ"] == 1
    assert lane["by_tool"]["search"]["differ"] == 1
    assert lane["by_tool"]["(text)"]["differ"] == 1
    cohort = read_cohort(tmp_path / "again.jsonl")
    assert [run.run_id.hex() for run in cohort] == [run_id(0), run_id(2), run_id(3)]
    assert cohort[0].notes == {"step": 3, "risk": "write", "match": "other arguments"}


def test_a_brief_of_it_names_each_disagreement_and_how_to_see_it(lake, tmp_path):
    """`brief` of what was printed says how many steps were asked, what disagrees, and the commands that show it."""
    found, _, _ = screened(lake, tmp_path / "out", {question(0, 1): ("refund", {"order": 8}), question(2, 0): REFUND})
    report = tmp_path / "steps.json"
    report.write_text(json.dumps(found))
    told = invoke(lake, "brief", report).stdout
    assert "12 model steps were asked again; 2 disagreements are listed." in told
    assert f"agent-replay show {run_id(0)} --step 3" in told
    assert f"agent-replay show {run_id(2)} --step 1" in told
    assert "other arguments" in told
    assert len(told) < 20_000


def test_the_cohort_that_disagrees_can_be_asked_again(lake, tmp_path):
    """What --disagreeing wrote is a cohort for --cohort."""
    screened(lake, tmp_path / "one", {question(1, 0): "No."}, "--disagreeing", tmp_path / "again.jsonl")
    found, model, _ = screened(lake, tmp_path / "two", {}, "--cohort", tmp_path / "again.jsonl", where=None)
    assert found["steps"] == 3
    assert {content for _, content in model.asked} == {question(1, place) for place in range(3)}


def test_disagreements_are_shown_the_riskiest_first(lake, tmp_path):
    """The report names run, step, both actions and where they differ; writes come before reads."""
    changes = {question(0, 0): ("search", {"q": "z"}), question(3, 1): ("refund", {"order": 8})}
    with ScriptedProvider(FakeModel({**RECORDED, **changes})) as provider:
        done = steps(lake, tmp_path / "out", provider.url)
    shown = [line for line in done.stdout.splitlines() if run_id(0) in line or run_id(3) in line]
    assert [line.split()[0] for line in shown] == [run_id(3), run_id(0)]
    assert "[other arguments; refund(order): 7 -> 8]" in done.stdout
    assert "2 agree throughout, 2 disagree" in done.stdout


def test_nothing_is_asked_twice_and_the_report_can_be_had_again(lake, tmp_path):
    """The same command again asks nothing and says the same; more repeats ask only what is new."""
    model = FakeModel({**RECORDED, question(0, 1): "No."})
    with ScriptedProvider(model) as provider:
        first = document(steps(lake, tmp_path / "out", provider.url, "--json"))
        again = document(steps(lake, tmp_path / "out", provider.url, "--json"))
        assert len(model.asked) == 12
        repeated = document(steps(lake, tmp_path / "out", provider.url, "--json", "--repeats", 3))
    assert again == first
    assert len(model.asked) == 36
    assert repeated["disagreements"][0]["answers"] == 3


def test_a_results_file_belongs_to_one_cohort_and_candidate(lake, tmp_path):
    """Answers of another candidate or cohort are not mixed into a file: it is refused, and says whose it is."""
    screened(lake, tmp_path / "out", {})
    other = invoke(lake, "steps", "--where", "true", "--candidate", "model=x", "--out", tmp_path / "out")
    assert other.exit_code == 2
    assert "holds answers for another" in other.stderr


def test_a_plan_asks_nothing_and_tells_the_price(lake, tmp_path):
    """Questions, tokens and price of each lane; a model whose price nobody knows is named; nothing is sent or kept."""
    with ScriptedProvider(FakeModel(RECORDED)) as provider:
        plan = invoke(lake, "steps", "--where", "true", "--candidate", f"model=gpt-4o,base_url={provider.url}/v1",
                      "--baseline", "--repeats", 3, "--plan", "--json")  # fmt: skip
        unknown = invoke(lake, "steps", "--where", "true", "--candidate", f"model=home-made,base_url={provider.url}/v1",
                         "--plan")  # fmt: skip
        assert provider.seen == []
    found = document(plan)
    assert (found["runs"], found["steps"]) == (4, 12)
    assert {lane["lane"]: lane["questions"] for lane in found["lanes"]} == {"candidate": 36, "baseline": 36}
    lane = found["lanes"][0]
    assert lane["input_tokens"] == 36 * 10
    assert 0 < lane["about_usd"] < lane["most_usd"]
    assert unknown.exit_code == 0
    assert "no price is known of home-made (12 questions" in unknown.stderr
    assert not list(tmp_path.glob("*.steps"))


def test_a_budget_is_never_exceeded(lake, tmp_path):
    """No question goes whose most would not fit; what is left is said, and a higher budget goes on from there."""
    budgeted = "model=gpt-5-mini,price=100000/0,"  # ten tokens cost a dollar, at most 1.4
    found, model, done = screened(lake, tmp_path / "out", {}, "--budget", "4.5", "--parallel", 1, candidate=budgeted)
    assert done.exit_code == 125
    assert "--budget 4.5 is reached" in found["stopped"]
    assert len(model.asked) == 4
    assert found["steps"] == 4
    assert found["skipped"]["not asked yet"] >= 1
    with ScriptedProvider(FakeModel(RECORDED)) as provider:
        refused = steps(lake, tmp_path / "unpriced", provider.url, "--budget", "5", candidate="model=home-made,")
        assert refused.exit_code == 2
        assert "no price is known of home-made" in refused.stderr
        assert provider.seen == []


def test_a_number_of_calls_is_never_exceeded_over_all_goes(lake, tmp_path):
    """--max-calls holds for all goes at a results file together; raised, the rest is asked, and nothing twice."""
    model = FakeModel(RECORDED)
    with ScriptedProvider(model) as provider:
        codes = [steps(lake, tmp_path / "out", provider.url, "--max-calls", most).exit_code for most in (5, 5, 8, 100)]
    assert codes == [125, 125, 125, 0]
    assert sorted(content for _, content in model.asked) == sorted(RECORDED)


def test_repeats_and_the_baseline_lane(tmp_path):
    """A step agrees when more than half of its answers do; what the recorded model does otherwise too is noise."""
    seen = {}

    def script(request):
        body = request.json
        content = body["messages"][-1]["content"]
        number = seen[body["model"], content] = seen.get((body["model"], content), 0) + 1
        if content == question(0, 0) and body["model"] == "gpt-5-mini" and number == 1:
            return Reply(body_of("Only once.", model="m"))
        if content == question(1, 1):
            return Reply(body_of("Both models do so.", model="m"))
        return Reply(body_of(RECORDED[content], model="m"))

    with ScriptedProvider(script) as provider:
        # The recorded address is where nobody listens; the baseline has to go where the fake is.
        moved = lake_of(tmp_path / "moved", [moved_to(asked_run(n, RUNS[n]), provider.url) for n in RUNS])
        done = steps(moved, tmp_path / "out", provider.url, "--repeats", 3, "--baseline", "--json")
    found = document(done)
    assert set(seen.values()) == {3}
    assert [(one["run"], one["step"], one["agreeing"]) for one in found["disagreements"]] == [(run_id(1), 3, 0)]
    assert found["disagreements"][0]["baseline_differs"] is True
    assert found["noise"] == 1
    assert found["lanes"]["candidate"]["matches"]["text instead of tools"] == 4
    assert found["lanes"]["baseline"]["runs_differing"] == 1


def moved_to(run, url):
    """The same run, recorded at another address."""

    def move(item):
        node = item.node
        if node is None or node.call is None or node.call.head is None:
            return item
        head = dataclasses.replace(node.call.head, url=f"{url}/v1/chat/completions")
        return dataclasses.replace(item, node=dataclasses.replace(node, call=dataclasses.replace(node.call, head=head)))

    return dataclasses.replace(run, spans=tuple(move(item) for item in run.spans))


def test_what_is_in_doubt_is_not_asked_again_unless_wanted(lake, tmp_path):
    """A question whose answer broke off may have been paid for: it is counted, left alone, and asked with --again."""
    broken = question(1, 1)
    model = FakeModel(RECORDED)

    def script(request):
        reply = model(request)
        cut = broken in request.body.decode() and sum(content == broken for _, content in model.asked) == 1
        return Reply(reply.body, ending="cut") if cut else reply

    with ScriptedProvider(script) as provider:
        first = document(steps(lake, tmp_path / "out", provider.url, "--json"))
        second = steps(lake, tmp_path / "out", provider.url, "--json")
        assert sum(content == broken for _, content in model.asked) == 1
        third = steps(lake, tmp_path / "out", provider.url, "--json", "--again")
    assert first["in_doubt"] == 1
    assert first["lanes"]["candidate"]["in_sight"]["no_answer"] == 1
    assert first["lanes"]["candidate"]["runs_agreeing"] == 3
    assert second.exit_code == 125
    assert third.exit_code == 0
    assert sum(content == broken for _, content in model.asked) == 2


def test_what_failed_unpaid_is_asked_by_the_next_go(lake, tmp_path):
    """A question that was refused is no answer, is told with the provider's words, and is asked again next time."""
    model = FakeModel(RECORDED)
    wrong = [question(2, 2)]

    def script(request):
        if wrong and wrong[0] in request.body.decode():
            return Reply.of_json({"error": {"message": "context too long"}}, status=400)
        return model(request)

    with ScriptedProvider(script) as provider:
        done = steps(lake, tmp_path / "out", provider.url, "--json")
        wrong.clear()
        again = steps(lake, tmp_path / "out", provider.url, "--json")
    assert done.exit_code == 125
    assert any("context too long" in why for why in document(done)["unanswered"])
    assert again.exit_code == 0
    assert sorted(content for _, content in model.asked) == sorted(RECORDED)


def test_a_wrong_key_ends_it_at_once(lake, tmp_path):
    """A refused key stops everything instead of being tried for every step."""
    with ScriptedProvider([Reply.of_json({"error": "bad key"}, status=401)]) as provider:
        done = steps(lake, tmp_path / "out", provider.url, "--parallel", 1)
        assert len(provider.seen) == 1
    assert done.exit_code == 125
    assert "the endpoint refuses the key" in done.stdout


def test_recordings_of_less_than_exchanges_are_refused(tmp_path):
    """Where no request is there, it says why; where only some runs are so poor, their steps are counted apart."""
    poor = with_fidelity(asked_run(0, RUNS[0]), Fidelity.TEXT)
    lake = lake_of(tmp_path / "poor", [poor])
    done = steps(lake, tmp_path / "out", "http://127.0.0.1:1")
    assert done.exit_code == 125
    assert "fidelity `text`" in done.stderr
    mixed = lake_of(tmp_path / "mixed", [poor, with_fidelity(asked_run(1, RUNS[1]), Fidelity.EXCHANGE)])
    found, _, done = screened(mixed, tmp_path / "two", {})
    assert found["steps"] == 3
    assert sum(found["skipped"].values()) == 3
    assert done.exit_code == 125, "of one run nothing is known"


def test_a_run_that_is_gone_is_counted(lake, tmp_path):
    """A run of the cohort that is not in the lake is named, and the whole cannot be judged as agreeing."""
    write_cohort(tmp_path / "c.jsonl", [CohortRun(bytes.fromhex(run_id(0))), CohortRun(bytes(15) + b"1")])
    found, _, done = screened(lake, tmp_path / "out", {}, "--cohort", tmp_path / "c.jsonl", where=None)
    assert found["missing_runs"] == [(bytes(15) + b"1").hex()]
    assert found["steps"] == 3
    assert done.exit_code == 125


def test_a_condition_keeps_the_runs_that_it_found_first(lake, tmp_path):
    """Runs that came later do not change a cohort that is being asked."""
    model = FakeModel(RECORDED)
    with ScriptedProvider(model) as provider:
        steps(lake, tmp_path / "out", provider.url, "--max-calls", 2)
        lake_of(lake, [asked_run(9, RUNS[0])])
        found = document(steps(lake, tmp_path / "out", provider.url, "--json"))
    assert found["steps"] == 12
    assert sorted(content for _, content in model.asked) == sorted(RECORDED)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--where", "true"], ["--where", "true", "--cohort", "x", "--plan"], ["--where", "colour = 1", "--plan"],
     ["--where", "true", "--plan", "--rate", "fast"], ["--where", "true", "--candidate", "gpt", "--plan"]],
)  # fmt: skip
def test_wrong_usage_is_said(lake, arguments):
    """Which runs and where to keep the answers must be said, in the right form."""
    assert invoke(lake, "steps", *arguments).exit_code == 2


def test_a_file_that_is_no_results_file_is_left_alone(lake, tmp_path):
    """Another file given as --out is refused and not changed."""
    (tmp_path / "notes.txt").write_text("my notes, which are long enough to be no empty database")
    done = steps(lake, tmp_path / "notes.txt", "http://127.0.0.1:1")
    assert done.exit_code == 2
    assert (tmp_path / "notes.txt").read_text().startswith("my notes")


def test_two_goes_at_one_file_do_not_mix(lake, tmp_path):
    """While one process writes a results file, another is refused."""
    screened(lake, tmp_path / "out", {})
    other = sqlite3.connect(tmp_path / "out", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        done = steps(lake, tmp_path / "out", "http://127.0.0.1:1")
        assert done.exit_code == 125
        assert "another process" in done.stderr
    finally:
        other.close()
    with Results(tmp_path / "new"), pytest.raises(CannotJudge, match="another process"):
        Results(tmp_path / "new")


def test_a_results_file_is_its_owners_alone(lake, tmp_path):
    """Answers are as sensitive as the lake: nobody else may read the file, nor what lies beside it meanwhile."""
    screened(lake, tmp_path / "out", {})
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0
    with Results(tmp_path / "out") as results:
        results.run_is(bytes.fromhex(run_id(0)), "waiting")
        results.commit()
        beside = [path for path in tmp_path.iterdir() if path.name.startswith("out")]
        assert len(beside) > 1
        assert all(path.stat().st_mode & 0o077 == 0 for path in beside)


def test_a_file_of_another_database_or_version_is_left_alone(lake, tmp_path):
    """A database that is no results file, and one of a newer version, are refused by name."""
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE mine (x)").connection.close()
    assert "cannot be opened as a results file" in steps(lake, tmp_path / "other", "http://127.0.0.1:1").stderr
    screened(lake, tmp_path / "newer", {})
    with sqlite3.connect(tmp_path / "newer") as newer:
        newer.execute("UPDATE about SET value = '99' WHERE name = 'format'")
    newer.close()
    done = steps(lake, tmp_path / "newer", "http://127.0.0.1:1")
    assert done.exit_code == 2
    assert "newer version (format 99)" in done.stderr


def run_of(number, protocol, path, body, answer):
    """A run of one model step in another protocol."""
    maker = RunMaker(number, agent="clerk")
    head = HttpRequestHead("POST", f"http://127.0.0.1:1{path}")
    given = maker.keep(json.dumps(body).encode())
    facts = {semconv.PROTOCOL: protocol}
    maker.add(Kind.MODEL, protocol, given, maker.keep(answer), attributes=facts, head=head)
    return maker.run()


def test_a_step_that_cannot_be_asked_so_leaves_the_others(tmp_path):
    """A step whose request cannot be translated or changed so is counted with the reason; the others are asked."""
    answer = json.dumps({"choices": [{"text": "Hello", "finish_reason": "stop"}]}).encode()
    old = run_of(7, "openai.completions", "/v1/completions", {"model": "old", "prompt": "Hi"}, answer)
    lake = lake_of(tmp_path / "lake", [asked_run(0, RUNS[0]), old])
    chat = "model=gpt-5-mini,api=openai.chat_completions,"
    found, model, done = screened(lake, tmp_path / "out", {}, candidate=chat)
    assert done.exit_code == 125
    assert len(model.asked) == 3
    (why,) = found["unanswered"]
    assert "openai.completions are not translated" in why
    assert found["in_doubt"] == 0
    changed, model, _ = screened(lake, tmp_path / "two", {}, "--set", "messages[9].content=x")
    assert model.asked == []
    assert sum(changed["unanswered"].values()) == 4


def test_a_cohort_of_another_protocol_is_asked_in_the_candidates_words(tmp_path):
    """Requests are translated, answers of two protocols compare as actions, and what has no word is named."""
    body = {"model": "claude", "max_tokens": 9, "top_k": 3, "messages": [{"role": "user", "content": "Hi"}]}
    claude = run_of(7, "anthropic.messages", "/v1/messages", body, anthropic_message("Hello").body)
    lake = lake_of(tmp_path / "lake", [claude])
    with ScriptedProvider([Reply(body_of("Hello"))]) as provider:
        candidate = "model=gpt-5-mini,api=openai.chat_completions,"
        found = document(steps(lake, tmp_path / "out", provider.url, "--json", candidate=candidate))
        asked = provider.seen[0].json
        run = claude.run.run_id.hex()
        shown = invoke(lake, "ask", run, "--step", 1, "--candidate", f"{candidate}base_url={provider.url}/v1")
    assert asked["messages"] == [{"role": "user", "content": "Hi"}]
    assert found["lanes"]["candidate"]["in_sight"]["agree"] == 1
    assert any("top_k" in what for what in found["lost_in_translation"])
    assert "not asked for" in shown.stdout
    assert "top_k" in shown.stdout


def test_an_error_inside_an_answer_is_in_doubt(lake, tmp_path):
    """A stream that tells of an error after HTTP 200 is no answer and may have been paid for."""
    broken = b'data: {"error": {"type": "overloaded", "message": "later"}}\n\n'
    with ScriptedProvider([Reply.of_events(broken)]) as provider:
        found = document(steps(lake, tmp_path / "out", provider.url, "--json", "--max-calls", 2, "--parallel", 1))
        assert len(provider.seen) == 2
    assert found["in_doubt"] == 2
    assert found["unanswered"] == {"in doubt: overloaded: later": 2}


def test_a_missing_key_stops_before_anything_is_sent(tmp_path):
    """Where a key is not there, the variable is named, and nothing is in doubt afterwards."""
    lake = lake_of(tmp_path / "lake", [moved_to(asked_run(0, RUNS[0]), "https://api.openai.com")])
    ask = ("steps", "--where", "true", "--candidate", "model=m,key_env=NO_SUCH_KEY", "--out", tmp_path / "out")
    for _ in range(2):
        done = invoke(lake, *ask)
        assert done.exit_code == 2
        assert "NO_SUCH_KEY" in done.stderr
    with Results(tmp_path / "out") as results:
        assert results.in_doubt() == 0


def test_a_key_that_the_provider_repeats_is_kept_nowhere(lake, tmp_path):
    """An error that quotes the key is shown and stored with the key masked."""
    (tmp_path / "keys").write_text("MY_KEY=my-very-own-secret\n")
    with ScriptedProvider(lambda asked: Reply(asked.header("authorization").encode(), 401)) as provider:
        done = steps(lake, tmp_path / "out", provider.url, "--env-file", tmp_path / "keys", candidate="key_env=MY_KEY,")
    assert "HTTP 401: Bearer [masked]" in done.stdout
    kept = [path for path in tmp_path.iterdir() if path.is_file() and b"very-own" in path.read_bytes()]
    assert kept == [tmp_path / "keys"]


def test_answers_pass_the_redaction_of_the_recording(lake, tmp_path, monkeypatch):
    """What a rule masks in recordings is masked in new answers too: it is kept nowhere, and is no difference."""
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps([{"action": "mask", "pattern": "card [0-9]{4}"}]))
    monkeypatch.setenv("AGENT_REPLAY_REDACTION", str(rules))
    found, _, _ = screened(lake, tmp_path / "out", {question(0, 2): "Your card 4711 is fine."})
    assert found["lanes"]["candidate"]["in_sight"]["other_words"] == 1
    assert b"4711" not in (tmp_path / "out").read_bytes()
    masked = lake_of(tmp_path / "masked", [asked_run(0, ["Your [masked]* is fine."])])
    found, _, _ = screened(masked, tmp_path / "two", {question(0, 0): "Your card 4711 is fine."})
    assert found["lanes"]["candidate"]["matches"] == {"same": 1}


def test_a_rate_loses_no_question(lake, tmp_path):
    """With a rate every question is asked once, also when nothing is under way between two turns."""
    found, model, done = screened(lake, tmp_path / "out", {}, "--rate", "100/s", "--parallel", 3)
    assert done.exit_code == 0
    assert sorted(content for _, content in model.asked) == sorted(RECORDED)
    assert found["steps"] == 12


def test_one_interrupt_lets_the_answers_under_way_come(lake, tmp_path):
    """After Ctrl-C nothing more is sent, what is under way is kept, and the same command goes on from there."""
    model, reached, release = FakeModel(RECORDED), threading.Event(), threading.Event()

    def script(request):
        reply = model(request)
        if len(model.asked) == 6:
            reached.set()
        return Reply(reply.body, hold={-1: release}) if len(model.asked) > 4 else reply

    options = ["--lake", lake, "--where", "true", "--out", tmp_path / "out", "--parallel", 2, "--json"]
    with ScriptedProvider(script) as provider:
        command = ["steps", *options, "--candidate", f"base_url={provider.url}/v1"]
        child = subprocess.Popen([sys.executable, "-m", "otel_agent_replay", *map(str, command)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        assert reached.wait(60)
        child.send_signal(signal.SIGINT)
        while "waiting for the answers" not in child.stderr.readline():
            assert child.poll() is None
        release.set()
        printed, errors = child.communicate(timeout=60)
        assert printed, errors
        found = json.loads(printed)
        assert child.returncode == 125
        assert found["stopped"] == "it was interrupted"
        assert (found["steps"], found["in_doubt"], len(model.asked)) == (6, 0, 6)
        done = invoke(lake, *map(str, ["steps", *command[3:]]))
    assert done.exit_code == 0
    assert sorted(content for _, content in model.asked) == sorted(RECORDED)


def test_asking_a_cohort_is_entered_in_the_audit_log(lake, tmp_path):
    """One entry says how many questions go where, before the first one goes."""
    with ScriptedProvider(FakeModel(RECORDED)) as provider:
        steps(lake, tmp_path / "out", provider.url)
    (entry,) = AuditLog(lake).entries()
    assert (entry["action"], entry["runs"], entry["questions"]) == ("steps", 4, 12)
    assert f"127.0.0.1:{provider.port}" in entry["allowed"]["endpoints"]
    assert entry["candidates"] == [f"model=gpt-5-mini, at {provider.url}/v1"]

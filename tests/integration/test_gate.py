"""`agent-replay gate` on real recorded cases: what may ship, what may not, and each reason by itself."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import Result

from otel_agent_replay.lake.catalog import Lake
from tests.support.agents import ROOT
from tests.support.gated_cases import CALM, CHATTY, CRASHING, MODULE, NEVER, PROMPTED, SOURCE, Model, Shop, cli, shown
from tests.support.junit_schema import problems_of_junit
from tests.support.reports import read_data


@pytest.fixture(scope="module")
def model():
    """The model server of all tests here."""
    made = Model()
    with made.provider:
        yield made


@pytest.fixture(scope="module")
def kept(tmp_path_factory, model):
    """A shop with a bad case (a lost order was refunded) and a control (a paid one must be)."""
    shop = Shop.recorded(tmp_path_factory.mktemp("shop"), model.provider.url, "17", "18")
    shop.keep("lost-order", "17", must_not_call=["refund"], must_call=["lookup"])
    shop.keep("paid-order", "18", "--control", must_call=["refund"])
    return shop


@contextmanager
def worked_on(kept, model, folder):
    """A copy of the shop to work on, as the current folder; the model was asked nothing yet."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))
        patched.setenv("SERVER", model.provider.url)
        model.asked.clear()
        yield kept.copied(folder)


@pytest.fixture
def shop(kept, model, tmp_path):
    """A copy of it for one test."""
    with worked_on(kept, model, tmp_path) as copy:
        yield copy


@pytest.fixture
def bad(shop):
    """The same without its control: each case of a gate takes a process or two."""
    shutil.rmtree(shop.cases / "paid-order")
    return shop


# --- the code that was recorded, and a fix that is too much: one gate each, at which several tests look ---


@dataclass(frozen=True)
class Gated:
    """What one gate over all cases said and wrote, the cases' files before and after, and what the model was asked."""

    told: Result
    folder: Path
    before: dict[Path, bytes]
    after: dict[Path, bytes]
    asked: list[str]

    @classmethod
    def with_code(cls, shop, model, source, *options):
        """Run the gate with that code, and with every report beside what it prints."""
        shop.code(source)
        before = files_in(shop.cases)
        written = {f"--{kind}": shop.folder / f"gate.{kind}" for kind in ("junit", "markdown", "html")}
        told = shop.gate(*chain.from_iterable(written.items()), *options)
        return cls(told, shop.folder, before, files_in(shop.cases), list(model.asked))


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def unchanged(kept, model, tmp_path_factory):
    """The code that was recorded, gated once, with permission to go live, and its trials kept."""
    folder = tmp_path_factory.mktemp("unchanged")
    with worked_on(kept, model, folder) as shop:
        return Gated.with_code(shop, model, SOURCE, "--live", "--into", folder / "trials")


@pytest.fixture(scope="module")
def too_much(kept, model, tmp_path_factory):
    """A fix that stops every refund, gated once."""
    with worked_on(kept, model, tmp_path_factory.mktemp("too-much")) as shop:
        return Gated.with_code(shop, model, NEVER, "--json")


def test_the_code_that_was_recorded_may_not_ship(unchanged):
    """Unchanged code breaks what the recorded run broke: exit 1, decided exactly, the model asked nothing."""
    assert unchanged.told.exit_code == 1, unchanged.told.output
    assert "May not ship: of 2 cases 1 failed, 1 passed." in unchanged.told.stdout
    assert "broken: must_not_call refund" in unchanged.told.stdout
    assert unchanged.asked == []


def test_a_fix_that_keeps_every_request_is_decided_offline(shop, model):
    """The failing invariant passes and no other breaks: exit 0, for nothing, and what was mended is named."""
    shop.code(CALM)
    document = shop.verdict()
    assert document["exit_code"] == 0
    rows = {row["case"]: row for row in document["cases"]}
    assert rows["lost-order"]["mended"] == ["must_not_call refund"]
    assert {trial["means"] for row in rows.values() for trial in row["trials"]} == {"exact"}
    assert model.asked == []


def test_a_fix_that_is_too_much_breaks_the_control(too_much):
    """What mends the bad case and stops every refund fails on its neighbour."""
    document = json.loads(too_much.told.stdout)
    assert document["exit_code"] == 1
    assert shown(document) == {"lost-order": ("passed", "held"), "paid-order": ("failed", "broken")}
    control = next(row for row in document["cases"] if row["role"] == "control")
    assert control["newly_broken"] == ["must_call refund"]


@pytest.mark.soak
def test_a_good_run_beside_a_bad_case_is_tried_too(shop):
    """The guard set counts: a good run of another case must stay acceptable under today's code."""
    shop.write(shop.cases / "lost-order", lambda content: content.update(good=["../paid-order"]))
    shop.write(shop.cases / "lost-order", lambda content: content["expect"].update(
        must_not_call=[{"tool": "refund", "arguments": {"order": "17"}}], outcome="ok"))  # fmt: skip
    assert cli("case", "seal", shop.cases / "lost-order").exit_code == 0
    assert shop.verdict()["cases"][1]["role"] == "good"
    shop.code(CRASHING)
    document = shop.verdict()
    guards = [row for row in document["cases"] if row["role"] == "good"]
    assert [row["standing"] for row in guards] == ["failed"]


def test_what_departs_is_not_decided_without_permission(bad, model):
    """Without --candidate or --live a case that departs is no pass: exit 125, and it says how to go on."""
    bad.code(PROMPTED)
    told = bad.gate("--json")
    document = json.loads(told.stdout)
    assert told.exit_code == document["exit_code"] == 125
    assert shown(document)["lost-order"] == ("unknown", "departed")
    assert document["cases"][0]["trials"][0]["step"] == 2
    assert "--candidate model=NEW or --live" in bad.gate("--mode", "exact").stdout
    assert model.asked == []


def test_what_departs_goes_live_from_its_departure(bad, model):
    """With permission the model is asked from the departure on only, and the invariants decide on the whole run."""
    bad.code(PROMPTED)
    document = bad.verdict("--candidate", "model=new,price=1/2", "--budget", "1")
    assert document["exit_code"] == 0, document
    assert [(row["trials"][0]["means"], row["trials"][0]["step"]) for row in document["cases"]] == [("live", 2)]
    assert model.asked == ["new"]
    assert document["spent_usd"] == pytest.approx((1000 * 1 + 100 * 2) / 1e6)
    called = {one["name"]: one["state"] for one in document["cases"][0]["trials"][0]["invariants"]}
    assert called == {"must_not_call refund": "held", "must_call lookup": "held"}  # lookup lies before the departure


def test_the_plan_says_what_it_costs_and_spends_nothing(shop, model):
    """--plan names what goes live, from where, its calls and price; the model is asked nothing."""
    shop.code(PROMPTED)
    told = shop.gate("--candidate", "model=new,price=1/2", "--repeats", "3", "--plan", "--json")
    plan = json.loads(told.stdout)
    assert told.exit_code == 0
    assert [(row["case"], row["from step"], row["model calls"]) for row in plan["live"]] == [
        ("lost-order", 2, 3),
        ("paid-order", 2, 3),
    ]
    assert plan["total"]["about_usd"] == pytest.approx(6 * 0.0012)
    assert model.asked == []


def test_the_budget_ends_before_it_is_overdrawn(shop, model):
    """A live trial whose forecast does not fit into what is left is not begun, and its case is not decided."""
    shop.code(PROMPTED)
    document = shop.verdict("--candidate", "model=new,price=1/2", "--budget", "0.0015")
    assert shown(document) == {"lost-order": ("passed", "held"), "paid-order": ("unknown", "over_budget")}
    assert document["exit_code"] == 125
    assert len(model.asked) == 1


@pytest.mark.parametrize("mode", ["auto", "rerun"])
def test_the_budget_ends_a_trial_that_spends_more_than_forecast(bad, model, mode):
    """A forecast is no promise: a trial asks nothing more once its share is spent, and its case is not decided."""
    bad.code(CHATTY)
    document = bad.verdict("--mode", mode, "--candidate", "model=new,price=1/2", "--budget", "0.003")
    assert shown(document) == {"lost-order": ("unknown", "over_budget")}, document
    assert "spent" in document["cases"][0]["detail"]
    assert len(model.asked) == 3  # the third goes over, the fourth is not asked
    assert document["spent_usd"] == pytest.approx(3 * 0.0012)


def test_trials_side_by_side_keep_their_order(shop, model):
    """With --parallel the cases stand in their order, each with all its trials, and what was spent adds up."""
    shop.code(PROMPTED)
    live = ("--candidate", "model=new,price=1/2", "--budget", "1", "--repeats", "2")
    beside = shop.verdict(*live, "--parallel", "4")
    assert list(shown(beside).items()) == [("lost-order", ("passed", "held")), ("paid-order", ("passed", "held"))]
    assert [row["trials_made"] for row in beside["cases"]] == [2, 2]
    assert beside["spent_usd"] == pytest.approx(4 * 0.0012)


def test_side_by_side_the_budget_holds_for_all_together(shop, model):
    """Trials beside each other take shares of one budget; what does not fit is not begun, and is told once."""
    shop.code(PROMPTED)
    document = shop.verdict(
        "--candidate", "model=new,price=1/2", "--budget", "0.003", "--repeats", "4", "--parallel", "4"
    )
    assert document["exit_code"] == 125
    assert len(model.asked) == 2  # 0.0012 each
    assert document["spent_usd"] == pytest.approx(2 * 0.0012)
    reasons = [one["reason"] for row in document["cases"] for one in row["trials"]]
    assert sorted(reasons) == ["held", "held", "over_budget", "over_budget"], reasons


@pytest.mark.soak
def test_flakiness_is_told_as_a_rate(bad, model, monkeypatch):
    """Of four live trials one refunds: the case does not pass, and the rate and its interval are told."""
    answers = iter([False, True, False, False])
    monkeypatch.setattr(model, "refunds", lambda prompt, text: next(answers))
    bad.code(PROMPTED)
    told = bad.gate("--live", "--repeats", "4")
    assert told.exit_code == 125  # the true rate may still be 0.95
    assert "flaky: too few repeats to tell" in told.stdout and "3 of 4 passed" in told.stdout
    assert "true rate lies between" in told.stdout


def test_a_rerun_goes_live_from_the_first_step(bad):
    """Mode rerun asks the candidate for every model step and never happens without permission."""
    bad.code(PROMPTED)
    assert bad.gate("--mode", "rerun").exit_code == 125
    document = bad.verdict("--mode", "rerun", "--candidate", "model=new,price=1/2", "--budget", "1")
    assert shown(document)["lost-order"] == ("passed", "held"), document
    assert document["cases"][0]["trials"][0]["means"] == "rerun"


@pytest.mark.soak
def test_accepted_drift_is_decided_offline_from_then_on(shop, model):
    """--update shows the change and asks for --yes; once accepted the next gate is exact, free, and passes."""
    shop.code(PROMPTED)
    live = ("--candidate", "model=old,price=1/2")
    before = (shop.cases / "lost-order" / "case.yaml").read_bytes()
    told = shop.gate(*live, "--update")
    assert "give --yes" in told.stderr and "+baseline: " in told.stderr
    assert (shop.cases / "lost-order" / "case.yaml").read_bytes() == before
    assert shop.gate(*live, "--update", "--yes").exit_code == 0
    model.asked.clear()
    document = shop.verdict()
    assert document["exit_code"] == 0, document
    assert [row["baseline"] for row in document["cases"]] == [True, True]
    assert {trial["means"] for row in document["cases"] for trial in row["trials"]} == {"exact"}
    assert model.asked == []
    shop.code(SOURCE)  # the old prompt again: it departs from the accepted run
    assert shown(shop.verdict())["lost-order"] == ("unknown", "departed")


HARMS = {
    "recording gone": ("no_recording", lambda case: shutil.rmtree(case / "lake")),
    "invariant gone": ("invariant_removed", lambda case: _edit(case, lambda expect: expect.pop("must_not_call"))),
    "states nothing": ("no_invariant", lambda case: _edit(case, lambda expect: expect.clear())),
    "manifest gone": ("tampered", lambda case: (case / "manifest.json").unlink()),
    "spans flipped": ("tampered", lambda case: _flip(next((case / "lake" / "spans").rglob("*.parquet")))),
    "payloads flipped": ("tampered", lambda case: _flip(next((case / "lake" / "payloads").rglob("*.parquet")))),
    "more stated": ("tampered", lambda case: _add(case, "max_steps: 3")),
    "misspelt": ("wrong", lambda case: _add(case, "must_cal: [refund]")),
}
"""What was done to copies of the bad case, by their names: the reason that the gate must give, and how."""


@pytest.fixture(scope="module")
def harmed(kept, model, tmp_path_factory):
    """The rows of one gate over a control and a copy of the bad case for each harm, by name, and its exit code."""
    with worked_on(kept, model, tmp_path_factory.mktemp("harmed")) as shop:
        shop.code(CALM)
        for name, (_, harm) in HARMS.items():
            harm(shutil.copytree(shop.cases / "lost-order", shop.cases / name))
        document = shop.verdict()
    return {row["case"]: row for row in document["cases"]}, document["exit_code"]


@pytest.mark.parametrize("name", HARMS)
def test_a_case_that_is_no_test_fails_with_its_own_reason(harmed, name):
    """Whatever was done to the folder, the gate fails, says what, and runs nothing of that case."""
    rows, exit_code = harmed
    assert exit_code == 1
    reason, _ = HARMS[name]
    assert (rows[name]["standing"], rows[name]["reason"]) == ("failed", reason)
    assert rows[name]["trials"] == []


def test_a_case_that_is_no_test_keeps_no_other_from_being_one(harmed):
    """Beside them each whole case is tried and decided."""
    rows, _ = harmed
    assert {name for name, row in rows.items() if row["standing"] == "passed"} == {"lost-order", "paid-order"}
    assert len(rows) == len(HARMS) + 2


def test_a_bad_case_must_reject_its_own_run(bad):
    """Invariants that the bad run keeps prove nothing: the case fails for that."""
    case = bad.cases / "lost-order"
    bad.write(case, lambda content: content.update(expect={"must_call": ["lookup"]}))
    assert cli("case", "seal", case).exit_code == 0
    assert shown(bad.verdict())["lost-order"] == ("failed", "accepts_bad")


def test_an_agent_that_raises_has_not_kept_its_promises(bad):
    """An agent that dies before its mistake breaks no `must_not_call`; it fails all the same."""
    bad.code(CRASHING)
    document = bad.verdict()
    assert shown(document)["lost-order"] == ("failed", "failed"), document
    assert "KeyError" in document["cases"][0]["detail"]


def test_an_agent_that_cannot_be_imported_is_not_judged(bad):
    """Code that does not start is no verdict on the case: 125, with what the process said."""
    bad.code("import nowhere_to_be_found\n")
    document = bad.verdict()
    assert document["exit_code"] == 125
    assert "nowhere_to_be_found" in document["cases"][0]["detail"]


def test_a_command_with_another_input_is_not_the_case(shop):
    """A command that calls the agent with something else than on record judges nothing."""
    shutil.rmtree(shop.cases / "lost-order")
    told = cli("gate", shop.cases, "--", sys.executable, f"{MODULE}.py", "17")
    assert told.exit_code == 125, told.output
    assert "called with another input" in told.stdout


@pytest.mark.soak
def test_a_case_on_fixtures_is_decided_by_its_component_run(shop):
    """Without a recorded run the fixtures answer; what a component run does not check is not decided."""
    case = shop.cases / "on-fixtures"
    case.mkdir()
    content = {
        "entry": f"{MODULE}:support",
        "input": {"order": "17"},
        "environment": {"SERVER": "http://model.test"},
        "fixtures": [
            {"tool": "lookup", "attempts": [{"value": {"order": "17", "cents": 1, "state": "lost"}}]},
            {"model": "*", "attempts": [{"message": {"text": "refund"}}]},
            {"tool": "refund", "attempts": [{"value": {}}]},
        ],
        "effects": {"at_most_once": True},
        "expect": {"outcome": "ok"},
    }
    (case / "case.yaml").write_text(yaml.safe_dump(content))
    row = next(row for row in shop.verdict()["cases"] if row["case"] == "on-fixtures")
    assert [(one["means"], one["reason"]) for one in row["trials"]] == [("component", "held")], row
    content["expect"]["must_call"] = ["lookup"]
    (case / "case.yaml").write_text(yaml.safe_dump(content))
    assert shown(shop.verdict())["on-fixtures"] == ("unknown", "undecided")
    del content["expect"]["must_call"]
    content["expect"]["outcome"] = "error"
    (case / "case.yaml").write_text(yaml.safe_dump(content))
    assert shown(shop.verdict("--mode", "component"))["on-fixtures"] == ("failed", "component")


def test_an_empty_gate_fails(tmp_path):
    """A folder without cases may not ship."""
    told = cli("gate", tmp_path, "--entry", "a:b")
    assert (told.exit_code, told.stdout.strip()) == (1, "May not ship: there is no case.")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nowhere", "--entry", "a:b"),
        (".", "--entry", "a:b", "--yes"),
        (".", "--entry", "a:b", "--", "python", "a.py"),
        (".", "--candidate", "model=new,base_url=http://127.0.0.1:1/v1"),  # a fork asks where the recording asked
        (".", "--candidate", "model=new,key_env=NO_SUCH_KEY", "--mode", "rerun"),
        (".", "--limit", "cpu=many"),
    ],
)
def test_what_cannot_be_asked_is_a_usage_error(tmp_path, monkeypatch, arguments):
    """Exit code 2, before any case is opened, with what is wrong on standard error."""
    monkeypatch.chdir(tmp_path)
    told = cli("gate", *arguments)
    assert told.exit_code == 2, told.output
    assert told.stderr.startswith("error[")


def test_a_case_without_an_entry_says_so(shop):
    """Where nobody says what to run, that is a usage error that names the case."""
    for case in shop.cases.iterdir():
        shop.write(case, lambda content: content.pop("entry", None))
        assert cli("case", "seal", case).exit_code == 0
    told = cli("gate", shop.cases)
    assert told.exit_code == 2
    assert "lost-order" in told.stderr and "--entry" in told.stderr


def test_the_recorded_command_can_be_started_instead(bad):
    """Behind `--` stands a command; the n-th run of its process is the n-th on record."""
    bad.code(CALM)
    told = cli("gate", bad.cases, "--", sys.executable, f"{MODULE}.py", "17")
    assert told.exit_code == 0, told.output


def test_reports_for_machines_and_pull_requests(unchanged):
    """JUnit counts failures and errors apart; the Markdown names the case and its broken invariant."""
    written = (unchanged.folder / "gate.junit").read_text()
    suite = ET.fromstring(written).find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    failure = suite.find("testcase[@name='lost-order']/failure")
    assert failure.get("type") == "broken" and "must_not_call refund" in failure.text
    assert problems_of_junit(written) == []
    page = (unchanged.folder / "gate.markdown").read_text()
    assert page.startswith("## ❌ May not ship") and "lost\\-order" not in page.split("<code>")[0]


def test_one_html_file_holds_the_verdict_and_every_diff(too_much):
    """--html writes a page that needs no network: cases, what is broken and why, and each case's aligned diff."""
    page = (too_much.folder / "gate.html").read_text()
    data = read_data(page)
    assert "May not ship: of 2 cases 1 failed, 1 passed." in page
    assert [(one["key"], one["verdict"], one["pair"]) for one in data["cases"]] == [
        ("lost-order", "passed", "lost-order"),
        ("paid-order", "failed", "paid-order"),
    ]
    assert "only in A" in str(data["pairs"]["paid-order"]["details"])
    assert "must_call refund" in page and "broken, and was not before" in page
    assert "mended" in page


def test_the_verdict_as_json_is_briefed(too_much):
    """`brief` says of a gate's JSON what does not pass, why, and how to ask again."""
    (too_much.folder / "gate.json").write_text(too_much.told.stdout)
    told = cli("brief", too_much.folder / "gate.json").stdout
    assert "1 of 2 cases do not pass." in told
    assert "must_call refund" in told and "only A has it" in told and "agent-replay gate CASES" in told


def test_a_report_that_cannot_be_written_is_a_usage_error(shop, tmp_path):
    """Into a folder that is not there nothing is written: exit code 2, and what to name instead."""
    shutil.rmtree(shop.cases)
    shop.cases.mkdir()
    told = shop.gate("--html", tmp_path / "nowhere" / "gate.html")
    assert told.exit_code == 2 and "name a file in a folder that is there" in told.stderr


def test_a_judges_word_is_told_and_decides_nothing(bad, tmp_path):
    """--judge is asked about a final answer that differs; its word stands beside a case that passes."""
    (tmp_path / "gate_judge.py").write_text("def other(before, after):\n    return f'{before} became {after}'\n")
    bad.code(PROMPTED)
    document = bad.verdict("--live", "--judge", "gate_judge:other")
    assert document["exit_code"] == 0
    told = "judge gate_judge:other: another meaning: refund became wait"
    assert document["cases"][0]["trials"][0]["judged"] == told


def test_case_folders_are_never_written(unchanged, too_much):
    """Trials happen on copies: a gate leaves every file of the cases as it was."""
    for gated in (unchanged, too_much):
        assert gated.before and gated.after == gated.before


def test_trials_can_be_kept(kept, unchanged):
    """--into keeps the lakes of the trials, in which the replayed runs are."""
    lakes = [path.parent for path in (unchanged.folder / "trials").rglob("spans")]
    origins = {one.run.origin_run_id.hex() for lake in lakes for one in Lake(lake).runs() if one.run.replay}
    assert origins == set(kept.runs.values())


def _edit(case, change):
    text = case / "case.yaml"
    content = yaml.safe_load(text.read_text())
    change(content["expect"])
    if not content["expect"]:
        del content["expect"]
    text.write_text(yaml.safe_dump(content, sort_keys=False))


def _add(case, line):
    path = case / "case.yaml"
    path.write_text(path.read_text() + line + "\n")


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))

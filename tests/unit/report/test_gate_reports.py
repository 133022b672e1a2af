"""Reports of a gate: what they say, and that recorded text breaks none of them."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from otel_agent_replay.compare import compare
from otel_agent_replay.gate import check
from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Means, Reason, Role, Trial
from otel_agent_replay.report.gate_json import gate_json
from otel_agent_replay.report.gate_junit import gate_junit
from otel_agent_replay.report.gate_lines import gate_lines
from otel_agent_replay.report.gate_markdown import gate_markdown
from otel_agent_replay.report.markdown import LIMIT
from otel_agent_replay.report.terminal import plain_text
from tests.support.case_runs import bad_run, case_of, good_run

HOSTILE = "x\x1b[31m ]]> </failure> | <script> @all `code` \ufffe\x00 \u202e"


def row(name="refund", reason=Reason.BROKEN, detail="", **more) -> CaseVerdict:
    return CaseVerdict(name, Path("cases") / "one", Role.BAD, reason, detail, **more)


def broken() -> CaseVerdict:
    """A case whose trial breaks an invariant that the recorded run keeps too little of."""
    case = case_of(must_call=["check_policy"], must_not_call=["send_mail"])
    results = check(case, bad_run())
    trial = Trial(Means.EXACT, Reason.BROKEN, "x", results, step=3, comparison=compare(good_run(), bad_run()))
    return row(trials=[trial], recorded=check(case, good_run()))


def test_the_terminal_names_what_is_broken_and_where_it_parts():
    """The broken invariants, their evidence, the sentence of the comparison, the verdict last."""
    text = plain_text(gate_lines(GateVerdict([broken()])))
    assert "broken: must_call check_policy" in text
    assert "newly broken: must_call check_policy, must_not_call send_mail" in text
    assert "departs from its recording at step 3" in text
    assert text.splitlines()[-1] == "May not ship: of 1 case 1 failed."


def test_json_has_every_reason_by_a_stable_name():
    """The document survives a round trip and has the reason in lower case, for scripts."""
    document = json.loads(json.dumps(gate_json(GateVerdict([broken(), row("b", Reason.TAMPERED)]))))
    assert [one["reason"] for one in document["cases"]] == ["broken", "tampered"]
    assert document["exit_code"] == 1
    assert document["cases"][0]["trials"][0]["comparison"]["verdict"] == "different"


def test_junit_tells_failures_from_errors():
    """What failed is a failure, what is not decided an error, what passed neither; the counts say so."""
    verdict = GateVerdict([row(), row("b", Reason.DEPARTED), row("c", Reason.HELD)])
    root = ET.fromstring(gate_junit(verdict))
    suite = root.find("testsuite")
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    kinds = [[child.tag for child in test] for test in suite.findall("testcase")]
    assert kinds == [["failure"], ["error"], ["system-out"]]


def test_an_empty_gate_is_a_failed_test():
    """A page of tests that shows nothing would look green: an empty gate is one failure."""
    suite = ET.fromstring(gate_junit(GateVerdict([]))).find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "there is no case" in gate_markdown(GateVerdict([]))


def test_recorded_text_breaks_no_report():
    """Control characters, tags, bars and mentions come through as text: XML parses, Markdown has no tag of theirs."""
    verdict = GateVerdict([row(HOSTILE, detail=HOSTILE, about=HOSTILE)])
    test = ET.fromstring(gate_junit(verdict)).find("testsuite/testcase")
    assert "\\x1b[31m ]]> </failure>" in test.find("failure").get("message")
    page = gate_markdown(verdict)
    assert "<script>" not in page and "\x1b" not in page and "@all" not in page
    assert len([line for line in page.splitlines() if line.startswith("| ")]) == 3
    assert "\x1b" not in plain_text(gate_lines(verdict))


def test_a_comment_never_outgrows_its_page():
    """A thousand broken cases fit into one comment, which counts what it leaves out."""
    page = gate_markdown(GateVerdict([row(f"case {number}", detail="y" * 500) for number in range(1000)]))
    assert len(page) <= LIMIT
    table, _, after = page.partition("\n\n")[2].partition("\n\n")
    shown = table.count("<code>case")
    assert 0 < shown < 1000
    assert f"and {1000 - shown} more" in table and "more: `agent-replay gate --json`" in after

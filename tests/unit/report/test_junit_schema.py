"""Every JUnit document that is written keeps the rules of those who read it: Jenkins, GitLab, GitHub's actions."""

from pathlib import Path

import pytest

from otel_agent_replay.compare import compare
from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Reason, Role
from otel_agent_replay.model import RunStatus
from otel_agent_replay.report.gate_junit import gate_junit
from otel_agent_replay.report.json_report import comparison_json
from otel_agent_replay.report.junit import cohort_junit, comparison_junit
from otel_agent_replay.testing.builders import run
from tests.support.cohort_reports import cohort
from tests.support.junit_schema import problems_of_junit
from tests.support.reports import HOSTILE, pair_document


def cut():
    a = run(seed=1).tool("x", {}, 1).tool("y", {}, 2).build()
    return comparison_json(compare(a, run(seed=2).tool("x", {}, 1).build(status=RunStatus.PENDING)))


def gate():
    rows = [CaseVerdict(f"{one.name} {HOSTILE}", Path("cases"), Role.BAD, one, HOSTILE) for one in Reason]
    return GateVerdict(rows)


@pytest.mark.parametrize(
    "text",
    [
        lambda: comparison_junit(pair_document()),
        lambda: comparison_junit(pair_document(hostile=HOSTILE)),
        lambda: comparison_junit(cut()),
        lambda: cohort_junit(cohort()[0]),
        lambda: cohort_junit(cohort(hostile=HOSTILE)[0]),
        lambda: gate_junit(gate()),
        lambda: gate_junit(GateVerdict([])),
    ],
    ids=["pair", "hostile pair", "not comparable", "cohort", "hostile cohort", "gate of every reason", "empty gate"],
)
def test_every_document_keeps_the_rules(text):
    """Elements, their order, wanted attributes and counts are as a reader expects them."""
    assert problems_of_junit(text()) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<report/>", "the root is report"),
        ('<testsuite name="a" tests="2" failures="0" errors="0"/>', "tests of <testsuite> is 2, there are 0"),
        ('<testsuite name="a" tests="0" failures="0"/>', "<testsuite> has no errors"),
        (
            (
                '<testsuite name="a" tests="1" failures="1" errors="0"><testcase name="b" classname="c"><system-out/>'
                '<failure type="t" message="m"/></testcase></testsuite>'
            ),
            "<testcase> has its elements out of order",
        ),
    ],
)
def test_a_wrong_document_is_noticed(text, told):
    """The rules can be broken, each with its own sentence."""
    assert any(told in one for one in problems_of_junit(text))

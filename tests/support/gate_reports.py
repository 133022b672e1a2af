"""A gate of three cases, one of each standing, as an HTML report."""

from pathlib import Path

from otel_agent_replay.compare import compare
from otel_agent_replay.gate import check
from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Means, Reason, Role, Trial
from otel_agent_replay.report.gate_html import gate_html
from otel_agent_replay.report.gate_json import gate_json
from tests.support.case_runs import bad_run, case_of, good_run


def gate_document(hostile=""):
    """Return the JSON document of the gate; `hostile` stands in every text that a case brings."""
    case = case_of(must_call=["check_policy"], must_not_call=["send_mail"])
    good, bad = good_run(), bad_run()
    compared = compare(good, bad)
    broken = Trial(Means.EXACT, Reason.BROKEN, "x" + hostile, check(case, bad), step=3, comparison=compared)
    kept = Trial(Means.EXACT, Reason.HELD, "", check(case, good), comparison=compare(bad, good))
    folder = Path("cases")
    rows = [
        CaseVerdict("mended" + hostile, folder, Role.BAD, Reason.HELD, trials=[kept], recorded=check(case, bad)),
        CaseVerdict("broken" + hostile, folder, Role.BAD, Reason.BROKEN, trials=[broken], recorded=check(case, good)),
        CaseVerdict("gone" + hostile, folder, Role.CONTROL, Reason.NO_RECORDING, "nothing there" + hostile),
    ]
    return gate_json(GateVerdict(rows))


def gate_report(hostile="", **more):
    return gate_html(gate_document(hostile), **more)

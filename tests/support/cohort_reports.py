"""A cohort of a few cases, some of which differ, as an HTML report."""

from otel_agent_replay.compare import compare
from otel_agent_replay.compare.case_summary import lane_run, pair_summary
from otel_agent_replay.compare.cohort import CaseRow
from otel_agent_replay.compare.cohort_comparison import compare_cohorts
from otel_agent_replay.report.cohort_html import cohort_html
from otel_agent_replay.report.cohort_json import cohort_json
from otel_agent_replay.report.json_report import comparison_json
from otel_agent_replay.testing.builders import run


def cohort(cases=6, hostile=""):
    """Return the document and the pairs of those cases that differ: every third one."""
    rows, pairs = [], {}
    for number in range(cases):
        differs = number % 3 == 0
        a = run("desk", seed=number).tool("look", {"n": number}, "fine" + hostile).build(number)
        built = run("desk", seed=1000 + number).tool("look", {"n": number}, ("broken" if differs else "fine") + hostile)
        b = built.build(number)
        key = f"case {number:02}{hostile}"
        rows.append(CaseRow(key, (lane_run(a),), (lane_run(b),), (pair_summary(a, b),)))
        if differs:
            pairs[key] = comparison_json(compare(a, b))
    return cohort_json(compare_cohorts(rows, a="version 1", b="version 2")), pairs


def cohort_report(hostile="", **more):
    document, pairs = cohort(hostile=hostile)
    return cohort_html(document, pairs, **more)

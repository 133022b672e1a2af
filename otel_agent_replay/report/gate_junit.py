"""A gate as JUnit XML: each case a test; what could not be decided is an error, never a pass.

Characters that XML cannot hold are shown as escapes, so that recorded text breaks no reader.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Reason, Standing
from otel_agent_replay.report.gate_words import case_lines, means_told, row_sentence
from otel_agent_replay.report.safe_text import shortened, visible

_MESSAGE, _TEXT = 1_000, 8_000  # characters
_KINDS = {Standing.FAILED: "failure", Standing.UNKNOWN: "error"}


def gate_junit(verdict: GateVerdict) -> str:
    """Return the verdict as one `testsuites` document. An empty gate is a test that failed."""
    suite = ET.Element("testsuite", {"name": "agent-replay gate"})
    for row in verdict.cases:
        _case(suite, row)
    if not verdict.cases:
        test = ET.SubElement(suite, "testcase", {"classname": "gate", "name": "cases"})
        ET.SubElement(test, "failure", {"message": verdict.sentence, "type": Reason.EMPTY.name.lower()})
    counts = {"tests": len(suite), **{kind + "s": len(suite.findall(f"testcase/{kind}")) for kind in _KINDS.values()}}
    root = ET.Element("testsuites", {"name": "agent-replay"})
    root.append(suite)
    for element in (root, suite):
        for name, count in counts.items():
            element.set(name, str(count))
    suite.set("skipped", "0")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, row: CaseVerdict) -> None:
    test = ET.SubElement(
        suite,
        "testcase",
        {"classname": f"gate.{row.role}", "name": visible(row.name)},
    )
    lines = "\n".join(case_lines(row))
    kind = _KINDS.get(row.standing)
    if kind is None:
        out = ET.SubElement(test, "system-out")
        out.text = visible(shortened("\n".join([means_told(row), lines]).strip(), _TEXT), keep_lines=True)
        return
    message = visible(shortened(row_sentence(row), _MESSAGE))
    found = ET.SubElement(test, kind, {"message": message, "type": row.reason.name.lower()})
    found.text = visible(shortened(lines, _TEXT), keep_lines=True)

"""Comparisons as JUnit XML, for the test page of a CI system. JSON documents in, text out.

Owns what is a test there: of a pair the departure and each question, of a cohort the verdict and each metric.
Unknown is an error, never a pass. Characters that XML cannot hold are shown as escapes, so that recorded text breaks
no reader.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_agent_replay.report.safe_text import shortened, visible

_TEXT = 4_000  # characters of one failure's text


def comparison_junit(document: Mapping[str, Any]) -> str:
    """Return a comparison (`json_report.comparison_json`) as JUnit XML.

    The first test is the verdict; the questions follow. A difference fails, what cannot be told is an error, what
    neither run has is skipped.
    """
    names = f"{document['a']['agent']} {document['a']['run_id'][:13]}...{document['b']['run_id'][:13]}"
    suite = _suite(f"diff {names}")
    verdict = _case(suite, "departure", names)
    if document["verdict"] == "different":
        _outcome(verdict, "failure", _cause(document), document["sentence"], "\n".join(_departure(document)))
    elif document["verdict"] == "not comparable":
        _outcome(verdict, "error", _cause(document), document["sentence"], "\n".join(_departure(document)))
    for question in document["questions"]:
        test = _case(suite, question["asked"], names)
        told = question["detail"] or f"{question['differing']} of {question['compared']} differ"
        if question["reply"] == "changed":
            _outcome(test, "failure", "changed", told, "")
        elif question["reply"] == "cannot be known":
            _outcome(test, "error", "cannot be known", told, "")
        elif question["reply"] == "none in either run":
            ET.SubElement(test, "skipped", {"message": "none in either run"})
    return _document([suite])


def cohort_junit(document: Mapping[str, Any]) -> str:
    """Return a comparison of cohorts (`cohort_json.cohort_json`) as JUnit XML: a test a metric.

    A metric that differs beyond noise fails; one that there is not enough data for is skipped. Departures of single
    cases are no failures by themselves: the old version run again departs too. Where nothing could be judged, the
    verdict is an error.
    """
    group = f"{document['lanes']['a']} ... {document['lanes']['b']}"
    suite = _suite("compare")
    verdict = _case(suite, "verdict", group)
    notes = "\n".join(document["notes"])
    if document["exit_code"] == 1:
        _outcome(verdict, "failure", "different", document["sentence"], notes)
    elif document["exit_code"]:
        _outcome(verdict, "error", "not enough data", document["sentence"], notes)
    for metric in document["metrics"]:
        test = _case(suite, metric["name"], group)
        if metric["judgement"] == "different":
            told = f"A {metric['a']:.4g}, B {metric['b']:.4g} {metric['unit']}"
            _outcome(test, "failure", "different", told, f"{metric['test']}, p corrected {metric['p_adjusted']}")
        elif metric["judgement"] in ("not enough data", "described"):
            ET.SubElement(test, "skipped", {"message": metric["judgement"]})
    return _document([suite])


def _cause(document: Mapping[str, Any]) -> str:
    departure = document["departure"]
    return str(document["verdict"] if departure is None else departure["cause"])


def _departure(document: Mapping[str, Any]) -> Iterator[str]:
    for notice in document["notices"]:
        yield f"note, {notice['run']}: {notice['text']}"
    departure = document["departure"]
    if departure is None:
        return
    yield f"cause: {departure['cause']}"
    yield from departure["evidence"]
    for change in (departure["change"], departure["instead"]):
        for field in () if change is None else change.get("fields", ()):
            for place in field["differences"]:
                yield f"{field['field']} {place['path']}: {place.get('before')!r} -> {place.get('after')!r}"


def _suite(name: str) -> ET.Element:
    return ET.Element("testsuite", {"name": visible(name)})


def _case(suite: ET.Element, name: str, group: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": visible(group), "name": visible(name)})


def _outcome(test: ET.Element, kind: str, why: str, message: str, text: str) -> None:
    """Add a failure or an error; `why` is its `type`, which readers group by."""
    found = ET.SubElement(test, kind, {"type": why, "message": visible(shortened(message, _TEXT))})
    found.text = visible(shortened(text, _TEXT), keep_lines=True)


def _document(suites: Sequence[ET.Element]) -> str:
    root = ET.Element("testsuites")
    for suite in suites:
        suite.set("tests", str(len(suite.findall("testcase"))))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("errors", str(len(suite.findall("testcase/error"))))
        suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
        root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"

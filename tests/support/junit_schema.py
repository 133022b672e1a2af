"""The JUnit format as its readers want it: which elements stand where, with which attributes, counts that add up.

Written after the schema that Jenkins' xUnit plugin and Ant's report tasks share: `testsuites` or `testsuite` at the
top, `testcase` with at most one of `skipped`, `error`, `failure`, then `system-out` and `system-err`.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

_WANTED = {
    "testsuites": {},
    "testsuite": {"name": str, "tests": int, "failures": int, "errors": int},
    "testcase": {"name": str, "classname": str},
    "failure": {"type": str, "message": str},
    "error": {"type": str, "message": str},
    "skipped": {},
    "system-out": {},
    "system-err": {},
    "properties": {},
    "property": {"name": str, "value": str},
}
_ALLOWED = {
    "testsuites": {"name", "tests", "failures", "errors", "skipped", "time", "disabled"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package",
                  "file", "disabled"},
    "testcase": {"name", "classname", "time", "file", "line", "assertions", "status"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set(),
    "system-err": set(),
    "properties": set(),
    "property": {"name", "value"},
}  # fmt: skip
_INSIDE = {
    "testsuites": ("testsuite",),
    "testsuite": ("properties", "testcase", "system-out", "system-err"),
    "testcase": ("properties", "skipped", "error", "failure", "system-out", "system-err"),
    "properties": ("property",),
}
_RESULTS = ("skipped", "error", "failure")


def problems_of_junit(text: str) -> list[str]:
    """Return what a reader of JUnit XML would stumble over, one sentence each; [] where the document is right."""
    root = ET.fromstring(text)
    if root.tag not in ("testsuites", "testsuite"):
        return [f"the root is {root.tag}"]
    return list(_problems(root))


def _problems(element: ET.Element) -> Iterator[str]:
    tag = element.tag
    if tag not in _WANTED:
        yield f"<{tag}> is no element of JUnit"
        return
    for name, kind in _WANTED[tag].items():
        if name not in element.attrib:
            yield f"<{tag}> has no {name}"
        elif kind is int and not element.attrib[name].isdigit():
            yield f"{name} of <{tag}> is no number: {element.attrib[name]!r}"
    yield from (f"<{tag}> may have no {name}" for name in element.attrib if name not in _ALLOWED[tag])
    children = [child.tag for child in element]
    allowed = _INSIDE.get(tag, ())
    yield from (f"<{child}> may not stand in <{tag}>" for child in children if child not in allowed)
    places = [allowed.index(child) for child in children if child in allowed]
    if tag in ("testsuite", "testcase") and places != sorted(places):
        yield f"<{tag}> has its elements out of order: {children}"
    if tag == "testcase" and sum(child in _RESULTS for child in children) > 1:
        yield "a <testcase> has more than one result"
    if tag in ("testsuite", "testsuites"):
        yield from _counts(element)
    for child in element:
        yield from _problems(child)


def _counts(element: ET.Element) -> Iterator[str]:
    cases = list(element.iter("testcase"))
    found = {"tests": len(cases)}
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        found[name] = sum(case.find(kind) is not None for case in cases)
    for name, count in found.items():
        if name in element.attrib and element.attrib[name] != str(count):
            yield f"{name} of <{element.tag}> is {element.attrib[name]}, there are {count}"

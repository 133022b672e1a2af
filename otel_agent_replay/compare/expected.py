"""Whether a change hit the step that it was meant for. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from otel_agent_replay.compare.changes import NodeRef
from otel_agent_replay.compare.comparison import Comparison
from otel_agent_replay.compare.questions import Asked, Question, Reply


def expected_change(comparison: Comparison, place: str) -> Question:
    """Return whether the step at `place` changed, and whether the runs part there.

    `place` is a step's number, its name, `kind:name`, or the whole path with `/` between its parts; names may hold `*`.
    """
    there = [row for row in comparison.rows if any(_fits(node, place) for node in (row.a, row.b) if node is not None)]
    if not there:
        return Question(Asked.EXPECTED, Reply.NOTHING, 0, 0, None, f"no step of either run is {place}")
    changed = [row for row in there if row.change is not None]
    if not changed:
        detail = f"{place} is the same in both"
        if comparison.departure is not None:
            detail += f"; the runs part at {comparison.departure.at.title}"
        return Question(Asked.EXPECTED, Reply.NO, len(there), 0, there[0].a or there[0].b, detail)
    departure = comparison.departure
    hit = departure is not None and any(row.change in (departure.change, departure.counterpart) for row in changed)
    detail = f"{place} changed, and the runs part there"
    if not hit and departure is not None:
        detail = f"{place} changed, but the runs part before it, at {departure.at.title}"
    return Question(Asked.EXPECTED, Reply.YES, len(there), len(changed), changed[0].a or changed[0].b, detail)


def _fits(node: NodeRef, place: str) -> bool:
    if place.isdigit():
        return node.step == int(place)
    return any(fnmatchcase(name, place) for name in _names(node))


def _names(node: NodeRef) -> Iterator[str]:
    yield node.name
    yield f"{node.kind}:{node.name}"
    yield "/".join(node.path)

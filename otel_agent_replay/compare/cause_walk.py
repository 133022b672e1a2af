"""From a difference back to its source: which earlier answer a differing request took its parts from, and so on. Pure.

Followed by digests of parts (`telling_parts`), over any number of steps: from a request that differs to the answers
that brought what is new in it, from each of those to what its own request took, until an equal request was answered
unequally, or nothing recorded brought it. Only where no digest is found are texts looked for inside of texts, then
single words; each hop says which of these it rests on.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from otel_agent_replay.compare.answer_index import Changes, Side
from otel_agent_replay.compare.change_list import Sides
from otel_agent_replay.compare.changes import Added, Change, Changed, Removed, reference
from otel_agent_replay.compare.model_forms import differ_in_form
from otel_agent_replay.compare.sources import Found, Sources, Taken
from otel_agent_replay.compare.substance import RunSubstance
from otel_agent_replay.compare.walk import Hop, Walk, WalkEnd
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.payload.difference import MISSING

_NODES = 2_000  # steps that one walk looks at


class Walker:
    """Walks back from changes of one comparison; what a step took is looked up once."""

    def __init__(self, a: RecordedRun, b: RecordedRun, sides: Sides, changes: Sequence[Change]) -> None:
        to_b = {index: pair.b for index, pair in sides.to_b.items()}
        to_a = {index: pair.a for index, pair in sides.to_a.items()}
        in_one_form = differ_in_form(a, b)
        content_a, content_b = (RunSubstance(run, in_one_form=in_one_form) for run in (a, b))
        changed_a, changed_b = Changes(changes, of_a=True), Changes(changes, of_a=False)
        of_a = Side("A", content_a, sides.tree_a, sides.time_a, to_b, changed_a)
        of_b = Side("B", content_b, sides.tree_b, sides.time_b, to_a, changed_b)
        self._a, self._b = Sources(of_a, of_b), Sources(of_b, of_a)

    def walk(self, change: Change) -> Walk | None:
        """Return the way back from a change, None for one that took nothing: a move, another library's span."""
        if isinstance(change, Added):
            return _walk(self._b, change.b.index)
        if isinstance(change, Removed):
            return _walk(self._a, change.a.index)
        if not isinstance(change, Changed) or self._b.mine.node(change.b.index) is None:
            return None
        if any(place.after is not MISSING for item in change.fields for place in item.differences):
            return _walk(self._b, change.b.index)
        return _walk(self._a, change.a.index)


def _walk(sources: Sources, start: int) -> Walk | None:
    """Go back from `start`, later steps first, so that a step is looked at when all that took from it have been."""
    time = sources.mine.time
    waiting: list[tuple[float, int]] = [(-math.inf, start)]
    taken_by: dict[int, tuple[int, Taken]] = {}
    ends: list[tuple[float, int, Found]] = []
    seen: set[int] = set()
    while waiting and len(seen) < _NODES:
        _, index = heapq.heappop(waiting)
        if index in seen:
            continue
        seen.add(index)
        found = sources.of(index)
        if found.end is not None:
            ends.append((time.begin(index), index, found))
        for taken in found.taken:
            if taken.source not in seen:
                taken_by[taken.source] = (index, taken)
                heapq.heappush(waiting, (-time.end(taken.source), taken.source))
    if not ends:
        return None
    answered = [item for item in ends if item[2].end is WalkEnd.ANSWER]
    _, at, last = min(answered or ends, key=lambda item: item[:2])
    if last.end is None:
        raise AssertionError("a walk ends where a step has an end")
    hops: list[Hop] = []
    tree, place = sources.mine.tree, at
    while place != start:
        asker, taken = taken_by[place]
        ends_of_hop = reference(tree, asker), reference(tree, place)
        hops.append(Hop(ends_of_hop[0], taken.path, ends_of_hop[1], taken.source_path, taken.part, taken.basis,
                        taken.words))  # fmt: skip
        place = asker
    hops.reverse()
    return Walk(sources.mine.name, reference(tree, start), hops, last.end, reference(tree, at), last.detail)

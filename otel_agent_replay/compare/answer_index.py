"""Which earlier answer of a run holds a part, looked up by the part's digest. Pure.

Reads a run's answers in the order in which they came, no further than asked for: a departure near the beginning of a
long run costs little. Answers whose content was not kept are counted, never guessed at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from otel_agent_replay.compare.changes import Change, Changed, Field
from otel_agent_replay.compare.substance import RunSubstance, failure_tree
from otel_agent_replay.compare.telling_parts import TellingPart, telling_parts
from otel_agent_replay.compare.timeline import Timeline
from otel_agent_replay.compare.tree import Tree
from otel_agent_replay.model import Kind, Node

PARTS = 1_000_000
"""Parts of a run's answers that are kept in mind, at most."""


class Side:
    """One of the two runs, as the walk asks about it. `other` gives the index of a node's pair in the other run."""

    def __init__(
        self, name: str, substance: RunSubstance, tree: Tree, time: Timeline, other: Mapping[int, int], changes: Changes
    ) -> None:
        self.name, self.tree, self.time, self.other, self.changes = name, tree, time, other, changes
        self._substance = substance
        self._answers: dict[int, Sequence[TellingPart]] = {}
        self._ended = sorted((time.end(node.index), node.index) for node in tree.nodes if _answers_something(node.node))
        self._differing = [(end, index) for end, index in self._ended if self.differs(index)]
        self._all = _ByDigest(self, self._ended)
        self._of_differing = _ByDigest(self, self._differing)
        self.unread = 0
        """How many answers were not kept, or not looked at."""

    def node(self, index: int) -> Node | None:
        """Return the replay side of a node, None for another library's span."""
        return self.tree.nodes[index].node

    def request(self, index: int) -> Sequence[TellingPart]:
        """Return the parts of all that a node asks, its name among them."""
        recorded = self.tree.nodes[index].recorded
        if recorded is None or recorded.node is None:
            return ()
        found = self._substance.request(recorded)
        return [*(() if found is None else telling_parts(found.tree)), *telling_parts(recorded.node.name, "name")]

    def answer(self, index: int) -> Sequence[TellingPart]:
        """Return the parts of what a node answered, or of what it failed with."""
        known = self._answers.get(index)
        if known is None:
            known = self._answers[index] = self._parts_of_answer(index)
        return known

    def differs(self, index: int) -> bool:
        """Whether the other run has no such answer: it has no such step, or that answered otherwise."""
        return index not in self.other or self.changes.answers_differently(index) is not None

    def holders(self, digest: bytes, before: float, *, differing: bool) -> Iterator[tuple[int, str]]:
        """Yield the nodes whose answers came before a moment and hold a part, in order, with its place in each.

        `differing`: of those answers alone that the other run does not have, which are few, so that few are read.
        """
        return (self._of_differing if differing else self._all).holders(digest, before)

    def earlier(self, before: float, *, differing: bool = False) -> Iterator[int]:
        """Yield the nodes whose answers came before a moment, in their order."""
        for end, index in self._differing if differing else self._ended:
            if end > before:
                return
            yield index

    def _parts_of_answer(self, index: int) -> Sequence[TellingPart]:
        recorded = self.tree.nodes[index].recorded
        if recorded is None or recorded.node is None:
            return ()
        outcome = recorded.node.outcome
        if outcome is not None and outcome.failure is not None:
            return telling_parts(failure_tree(outcome.failure), "failure")
        found = self._substance.result(recorded)
        if found is not None and not found.known:
            self.unread += 1
        return () if found is None or not found.known else telling_parts(found.tree)


class _ByDigest:
    """Answers by the digests of their parts, read in the order in which they came."""

    def __init__(self, side: Side, ended: Sequence[tuple[float, int]]) -> None:
        self._side = side
        self._ended = ended
        self._found: dict[bytes, list[tuple[int, str]]] = {}
        self._read = 0
        self._parts = 0

    def holders(self, digest: bytes, before: float) -> Iterator[tuple[int, str]]:
        while self._read < len(self._ended) and self._ended[self._read][0] <= before:
            self._take(self._ended[self._read][1])
            self._read += 1
        for index, path in self._found.get(digest, ()):
            if self._side.time.end(index) <= before:
                yield index, path

    def _take(self, index: int) -> None:
        if self._parts > PARTS:
            self._side.unread += 1
            return
        parts = self._side.answer(index)
        self._parts += len(parts)
        for part in parts:
            self._found.setdefault(part.digest, []).append((index, part.path))


class Changes:
    """The changed pairs of a comparison by their index in one of its runs."""

    def __init__(self, changes: Sequence[Change], *, of_a: bool) -> None:
        self._by_index = {
            (change.a if of_a else change.b).index: change for change in changes if isinstance(change, Changed)
        }

    def asks_differently(self, index: int) -> Changed | None:
        """Return the change of a pair whose requests differ."""
        change = self._by_index.get(index)
        return change if change is not None and any(item.field.is_request for item in change.fields) else None

    def answers_differently(self, index: int) -> Changed | None:
        """Return the change of a pair whose answers differ."""
        change = self._by_index.get(index)
        return change if change is not None and any(_is_answer(item.field) for item in change.fields) else None


def _is_answer(field: Field) -> bool:
    return not field.is_request and field is not Field.ENVIRONMENT


def _answers_something(node: Node | None) -> bool:
    if node is None or node.outcome is None or node.kind in (Kind.RUN, Kind.CHECKPOINT, Kind.SCOPE):
        return False
    return node.end_sequence > 0 and (node.outcome.result is not None or node.outcome.failure is not None)

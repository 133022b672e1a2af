"""What one step took from the steps before it, where its run differs from the other. Pure.

A source counts only where its answer brought something that the paired answer of the other run did not: an answer
that both runs had explains no difference, and is named as that.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.answer_index import Side
from otel_agent_replay.compare.changes import Changed, reference
from otel_agent_replay.compare.telling_parts import TellingPart, telling_parts
from otel_agent_replay.compare.tree import ROOT
from otel_agent_replay.compare.walk import HopBasis, WalkEnd
from otel_agent_replay.model import Read
from otel_agent_replay.payload.difference import MISSING

_WORD = re.compile(r"[^\W_]{4,}")
_LONG = 12  # characters of a text that is looked for inside of another
_SHORT = 5  # the same of one with a digit, such as an id: as a word of its own
_WORDS = 20
_SHOWN = 3
_TEXT = 200_000  # characters of a request in which texts are looked for
_SOURCES = 50  # of one step
_LOOKS = 200_000  # texts looked for, of one step


@dataclass(frozen=True, slots=True)
class Taken:
    """Something a step took: from the answer of `source`, at `source_path`; it stands at `path` of the step."""

    source: int
    path: str
    source_path: str
    part: bytes
    basis: HopBasis
    words: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a step took; `end` says why the walk ends at it where it took nothing that differs."""

    taken: Sequence[Taken] = ()
    end: WalkEnd | None = None
    detail: str = ""


class Sources:
    """Looks up what steps of one run took, against the other run."""

    def __init__(self, mine: Side, other: Side) -> None:
        self.mine = mine
        self._other = other
        self._found: dict[int, Found] = {}
        self._read_texts: Sequence[tuple[int, str, str]] | None = None

    def of(self, index: int) -> Found:
        """Return what the step at `index` took."""
        known = self._found.get(index)
        if known is None:
            known = self._found[index] = self._look(index)
        return known

    def _look(self, index: int) -> Found:
        mine = self.mine
        asks = mine.changes.asks_differently(index)
        if index == ROOT:
            if asks is not None:
                return Found(end=WalkEnd.INPUT)
            return self._answer_of_run(mine.changes.answers_differently(index))
        if index not in mine.other:
            found = self._by_digest(mine.request(index), mine.time.begin(index))
            return found or Found(end=WalkEnd.ONLY_HERE)
        if asks is not None:
            return self._asked(index, asks)
        answers = mine.changes.answers_differently(index)
        if answers is None:  # as after a difference of the environment alone
            return Found(end=WalkEnd.READ, detail="the environment")
        inside = self._inside(index, self._new(answers, request=False))
        return inside or Found(end=WalkEnd.ANSWER)

    def _answer_of_run(self, change: Changed | None) -> Found:
        new = [] if change is None else self._new(change, request=False)
        found = self._by_digest(new, math.inf) or self._by_text(new, math.inf)
        found = found or self._by_equal(new, math.inf) or self._by_words(new, math.inf)
        return found or Found(end=self._nowhere(math.inf), detail=_shown(_new_words(new)))

    def _asked(self, index: int, change: Changed) -> Found:
        new, before = self._new(change, request=True), self.mine.time.begin(index)
        if not new and any(item.by_digest for item in change.fields):
            return Found(end=WalkEnd.HIDDEN)
        found = self._by_digest(new, before) or self._by_read(new, before) or self._by_text(new, before)
        found = found or self._by_equal(new, before) or self._by_input(new) or self._by_words(new, before)
        return found or Found(end=self._nowhere(before), detail=_shown(_new_words(new)))

    def _new(self, change: Changed, *, request: bool) -> list[TellingPart]:
        """Return the parts that only this run's side of a pair has."""
        places = [place for item in change.fields if item.field.is_request is request for place in item.differences]
        ours = [(place.path, place.after if self.mine.name == "B" else place.before) for place in places]
        theirs = [place.before if self.mine.name == "B" else place.after for place in places]
        known = {part.digest for value in theirs if value is not MISSING for part in telling_parts(value)}
        known |= {part.digest for value in theirs if isinstance(value, str) for part in _words_as_parts(value)}
        parts = [part for path, value in ours if value is not MISSING for part in telling_parts(value, path)]
        return [part for part in parts if part.digest not in known]

    def _is_new(self, source: int, digest: bytes) -> bool:
        """Whether the pair of `source` did not answer the part."""
        twin = self.mine.other.get(source)
        return twin is None or all(part.digest != digest for part in self._other.answer(twin))

    def _by_digest(self, parts: Sequence[TellingPart], before: float) -> Found | None:
        """Look the parts up among the answers that only this run has."""
        best: dict[int, tuple[int, Taken]] = {}
        for part in parts:
            for source, path in self.mine.holders(part.digest, before, differing=True):
                if self._is_new(source, part.digest) and (source not in best or best[source][0] < part.size):
                    best[source] = (part.size, Taken(source, part.path, path, part.digest, HopBasis.DIGEST))
        return Found(self._latest([taken for _, taken in best.values()])) if best else None

    def _by_equal(self, parts: Sequence[TellingPart], before: float) -> Found | None:
        """Look the parts up among all answers: one that both runs had is the last of those that hold one."""
        held = [source for part in parts for source, _ in self.mine.holders(part.digest, before, differing=False)]
        return self._equal(max(held, key=self.mine.time.end)) if held else None

    def _by_text(self, parts: Sequence[TellingPart], before: float) -> Found | None:
        """Look for the texts of differing answers inside of the new texts."""
        texts = [(part.path, part.text[:_TEXT]) for part in parts if len(part.text) > _SHORT]
        if not texts:
            return None
        looks = 0
        taken = []
        for source in self.mine.earlier(before, differing=True):
            for part in self.mine.answer(source):
                looks += len(texts)
                if looks > _LOOKS:
                    break
                if not _is_findable(part.text) or not self._is_new(source, part.digest):
                    continue
                place = next((path for path, text in texts if _stands_in(part.text, text)), None)
                if place is not None:
                    taken.append(Taken(source, place, part.path, part.digest, HopBasis.TEXT))
                    break
        return Found(self._latest(taken)) if taken else None

    def _by_words(self, parts: Sequence[TellingPart], before: float) -> Found | None:
        words = _new_words(parts)
        if not words:
            return None
        taken = []
        for source in self.mine.earlier(before, differing=True):
            here = self._words_of(self.mine, source)
            twin = self.mine.other.get(source)
            there = set() if twin is None else self._words_of(self._other, twin)
            shared = [word for word in words if word in here and word not in there]
            if shared:
                taken.append(Taken(source, "", "", b"", HopBasis.WORDS, _shown(shared)))
        if taken:
            return Found(self._latest(taken))
        for source in self.mine.earlier(before):
            if any(word in self._words_of(self.mine, source) for word in words):
                return self._equal(source)
        return None

    def _words_of(self, side: Side, index: int) -> set[str]:
        return {word for part in side.answer(index) if part.text for word in _WORD.findall(part.text)}

    def _by_read(self, parts: Sequence[TellingPart], before: float) -> Found | None:
        texts = [part.text for part in parts if part.text]
        if not texts:
            return None
        theirs = {text for _, text, _ in _reads(self._other)}
        if self._read_texts is None:
            self._read_texts = [read for read in _reads(self.mine) if read[1] not in theirs]
        for sequence, text, name in self._read_texts:
            if sequence < before and any(text == one or (len(text) >= _LONG and text in one) for one in texts):
                return Found(end=WalkEnd.READ, detail=name)
        return None

    def _by_input(self, parts: Sequence[TellingPart]) -> Found | None:
        digests = {part.digest for part in self.mine.request(ROOT)}
        return Found(end=WalkEnd.INPUT) if any(part.digest in digests for part in parts) else None

    def _inside(self, index: int, new: Sequence[TellingPart]) -> Found | None:
        """Return the differing steps inside of a step that brought its answer; else the first that ran there."""
        tree = self.mine.tree
        below: list[int] = list(tree.nodes[index].children)
        differing = []
        while below:
            inner = below.pop()
            below.extend(tree.nodes[inner].children)
            node = self.mine.node(inner)
            if node is None or not node.kind.is_crossing:
                continue
            if self.mine.differs(inner):
                differing.append(inner)
        if not differing:
            return None
        wanted = {part.digest: part for part in new}
        taken = []
        for inner in differing:
            shared = next((part for part in self.mine.answer(inner) if part.digest in wanted), None)
            if shared is not None:
                place = wanted[shared.digest].path
                taken.append(Taken(inner, place, shared.path, shared.digest, HopBasis.DIGEST))
        if not taken:
            first = min(differing, key=self.mine.time.end)
            taken = [Taken(first, "", "", b"", HopBasis.INSIDE)]
        return Found(self._latest(taken))

    def _latest(self, taken: Sequence[Taken]) -> Sequence[Taken]:
        return sorted(taken, key=lambda one: self.mine.time.end(one.source))[-_SOURCES:]

    def _equal(self, source: int) -> Found:
        detail = "the answer of " + reference(self.mine.tree, source).title
        return Found(end=WalkEnd.EQUAL_ANSWER, detail=detail)

    def _nowhere(self, before: float) -> WalkEnd:
        """Return how to call it that no earlier answer holds what is new."""
        for source in self.mine.earlier(before):
            self.mine.answer(source)
            node = self.mine.node(source)
            if node is not None and node.outcome is not None and not node.outcome.exact:
                return WalkEnd.HIDDEN
        return WalkEnd.HIDDEN if self.mine.unread else WalkEnd.OUTSIDE


def _is_findable(text: str) -> bool:
    return len(text) >= _LONG or (len(text) >= _SHORT and any(map(str.isdigit, text)))


def _stands_in(wanted: str, text: str) -> bool:
    """Whether a text holds another; a short one as a word of its own."""
    at = text.find(wanted)
    if len(wanted) >= _LONG:
        return at >= 0
    while at >= 0:
        around = text[at - 1 : at] + text[at + len(wanted) : at + len(wanted) + 1]
        if not any(map(str.isalnum, around)):
            return True
        at = text.find(wanted, at + 1)
    return False


def _words_as_parts(text: str) -> Sequence[TellingPart]:
    return [part for word in set(text.split()) for part in telling_parts(word)]


def _new_words(parts: Sequence[TellingPart]) -> list[str]:
    found = (word for part in parts for word in _WORD.findall(part.text))
    return list(dict.fromkeys(found))[:_WORDS]


def _shown(words: Sequence[str]) -> str:
    return ", ".join(repr(word) for word in words[:_SHOWN])


def _reads(side: Side) -> Iterator[tuple[int, str, str]]:
    """Yield the recorded reads of a run as (sequence, text, function)."""
    for item in side.tree.nodes:
        for read in item.node.reads if item.node is not None else ():
            for text in _spellings(read):
                yield read.sequence, text, read.name


def _spellings(read: Read) -> Iterator[str]:
    if read.masked or read.value is None:
        return
    value = read.value
    if isinstance(value, bytes):
        yield value.hex()
        if len(value) == 16:
            yield str(uuid.UUID(bytes=value))
    elif len(str(value)) >= 4:
        yield str(value)

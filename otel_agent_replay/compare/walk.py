"""The way from a difference back to its source, as data and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.changes import NodeRef
from otel_agent_replay.model import Kind, Word


class HopBasis(Word):
    """What a hop rests on."""

    DIGEST = "an equal part, by its digest"
    TEXT = "the text of an answer inside of a text"
    WORDS = "words of an answer"
    INSIDE = "it ran inside"


class WalkEnd(Word):
    """Where a walk ends. A closed list."""

    ANSWER = "an equal request was answered differently"
    EQUAL_ANSWER = "an answer that both runs had"
    READ = "a recorded read of a clock, chance or the environment"
    INPUT = "the input of the run"
    OUTSIDE = "outside the recorded steps"
    ONLY_HERE = "only one run asked, and no differing answer made it ask"
    HIDDEN = "may stand in an answer that was not kept"


@dataclass(frozen=True, slots=True)
class Hop:
    """`asker` took a part of its request, or of its answer, from the answer of `source`: the places in both.

    `part` is the digest of what was taken, empty where the basis is no digest; `words` are shown for words alone.
    """

    asker: NodeRef
    path: str
    source: NodeRef
    source_path: str
    part: bytes
    basis: HopBasis
    words: str = ""


@dataclass(frozen=True, slots=True)
class Walk:
    """The way back from a difference: `hops` from it on, `at` the node where it ends, all in run `side` ("A" or "B").

    `detail` names what the end is about: a read, some words.
    """

    side: str
    start: NodeRef
    hops: Sequence[Hop]
    end: WalkEnd
    at: NodeRef
    detail: str = ""

    @property
    def sentences(self) -> list[str]:
        """The walk in words: one sentence a hop, and one for its end."""
        return [*(self._hop(hop) for hop in self.hops), self._ended()]

    def told(self, most: int) -> list[str]:
        """Return at most so many sentences: the first ones, how many were left out, and the end."""
        all_of_it = self.sentences
        if len(all_of_it) <= most:
            return all_of_it
        left_out = len(all_of_it) - most + 1
        return [*all_of_it[: most - 2], f"({left_out} more steps of the same way)", all_of_it[-1]]

    def _hop(self, hop: Hop) -> str:
        if hop.basis is HopBasis.INSIDE:
            return f"{hop.asker.title} contains {hop.source.title}, which was answered differently"
        if hop.basis is HopBasis.WORDS:
            return (
                f"{hop.asker.title}: its new words ({hop.words}) came with the answer of {hop.source.title}"
                f" in {self.side}"
            )
        what = hop.path or "what it asks"
        if hop.asker.kind == Kind.RUN.value:
            what = f"its answer at {hop.path}" if hop.path else "its answer"
        place = f" at {hop.source_path}" if hop.source_path else ""
        digest = f" (part {hop.part.hex()[:8]})" if hop.part else ""
        return f"{hop.asker.title}: {what} came with the answer of {hop.source.title}{place} in {self.side}{digest}"

    def _ended(self) -> str:
        here = self.at.title
        if self.end is WalkEnd.ANSWER:
            return f"{here}: equal request, different answer: this is where it comes from"
        if self.end is WalkEnd.EQUAL_ANSWER:
            return f"{here}: what is new came with {self.detail}, which both runs had: the choice among it differs"
        if self.end is WalkEnd.READ:
            return f"{here}: what is new is what {self.detail} gave in {self.side}"
        if self.end is WalkEnd.INPUT:
            return f"{here}: what is new came with the run's input"
        if self.end is WalkEnd.HIDDEN:
            return f"{here}: what is new may stand in an answer that was not kept, or not looked at"
        if self.end is WalkEnd.ONLY_HERE:
            return f"{here}: only {self.side} asked it, and no differing answer brought what it asks with"
        words = f" ({self.detail})" if self.detail else ""
        if self.at.kind == Kind.RUN.value:
            made = "the agent's own code made it, or it came from outside"
            return f"{here}: what is new{words} is in no step's answer: {made}"
        return f"{here}: what is new{words} is in no earlier answer of {self.side}: from outside the recorded steps"

"""What somebody's judge says of two runs' final answers: labelled as a judge's word, and nothing else. Pure.

No model is needed anywhere in a comparison; whoever wants one hands in a function. It is asked only where the two texts
differ, what it says changes no verdict, and a judge that fails has said nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from otel_agent_replay.compare.questions import Asked, Question, Reply
from otel_agent_replay.compare.substance import RunSubstance
from otel_agent_replay.model import RecordedRun, Word

_SAID = 500  # characters of what a judge says


@dataclass(frozen=True, slots=True)
class NamedJudge:
    """A judge and what it is called in reports; `ask(before, after)` says what differs in meaning, None for nothing.

    It is somebody else's function: that it returns a text or None is looked at, not trusted.
    """

    name: str
    ask: Callable[[str, str], object]


class Meaning(Word):
    """What a judge made of two final answers."""

    SAME_TEXT = "the same text: the judge was not asked"
    SAME = "the same meaning"
    OTHER = "another meaning"
    NO_TEXT = "there are no two final answers to judge"
    FAILED = "the judge gave no answer"


@dataclass(frozen=True, slots=True)
class Judged:
    """A judge's word on a pair: `said` are its own words where the meaning is another, or why it gave none."""

    judge: str
    meaning: Meaning
    said: str = ""

    @property
    def is_same(self) -> bool | None:
        """Whether the answers mean the same; None where nobody said."""
        known = {Meaning.SAME_TEXT: True, Meaning.SAME: True, Meaning.OTHER: False}
        return known.get(self.meaning)

    def __str__(self) -> str:
        said = f": {self.said}" if self.said else ""
        return f"judge {self.judge}: {self.meaning}{said}"

    def question(self) -> Question:
        """Return it as a question of a comparison."""
        replies = {True: Reply.NO, False: Reply.YES, None: Reply.UNKNOWN}
        reply = Reply.NOTHING if self.meaning is Meaning.NO_TEXT else replies[self.is_same]
        compared = int(self.is_same is not None)
        return Question(Asked.JUDGED, reply, compared, int(self.is_same is False), None, str(self))


def judge_answers(a: RecordedRun, b: RecordedRun, judge: NamedJudge) -> Judged:
    """Ask a judge about the final answers of two runs. Whatever it raises is told, not raised."""
    before, after = _final_text(a), _final_text(b)
    if before is None or after is None:
        return Judged(judge.name, Meaning.NO_TEXT)
    if before.split() == after.split():
        return Judged(judge.name, Meaning.SAME_TEXT)
    try:
        said = judge.ask(before, after)
    except Exception as error:  # somebody else's code, which may ask a model over a network
        return Judged(judge.name, Meaning.FAILED, f"{type(error).__name__}: {error}"[:_SAID])
    if said is not None and not isinstance(said, str):
        return Judged(judge.name, Meaning.FAILED, f"it returned {type(said).__name__}, and a text or None is wanted")
    return Judged(judge.name, Meaning.OTHER, said[:_SAID]) if said else Judged(judge.name, Meaning.SAME)


def _final_text(recorded: RecordedRun) -> str | None:
    """Return what a run answered as text (JSON for what is none), None where that is not known."""
    root = recorded.root
    found = None if root is None else RunSubstance(recorded).result(root)
    if found is None or not found.known or found.tree is None:
        return None
    return found.tree if isinstance(found.tree, str) else json.dumps(found.tree, ensure_ascii=False, indent=1)

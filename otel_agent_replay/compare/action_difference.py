"""Two answers to the same question, as actions: the same, nearly, or not, and where they differ. Pure.

Of text only its letters are compared, never its meaning: two texts are "other words" with a likeness from 0 to 1,
and that likeness is stated, not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.actions import Action, ActionKind, Stop, ToolUse
from otel_agent_replay.model import Word
from otel_agent_replay.payload.difference import Difference, differences

_COMPARED_TEXT = 20_000  # characters; of longer texts the beginnings are compared


class ActionMatch(Word):
    """How an answer compares with the recorded one."""

    SAME = "same"  # the same calls with the same arguments, or the same words
    OTHER_ORDER = "other order"  # the same calls, told in another order
    OTHER_WORDS = "other words"  # text where text was recorded
    OTHER_ARGUMENTS = "other arguments"  # the same tools, with other arguments
    OTHER_TOOLS = "other tools"  # other tools, or more or fewer calls
    TEXT_FOR_TOOLS = "text instead of tools"  # it talks where tools were called
    TOOLS_FOR_TEXT = "tools instead of text"  # it acts where only text was recorded
    REFUSED = "refused"  # it refuses where the recorded answer did not
    NOT_REFUSED = "not refused"  # it does what was refused
    NOTHING = "nothing said"  # one of the two neither says nor calls anything
    OTHER_STOP = "other stop"  # as far as it goes the same, but one of the two was cut at its limit
    NO_ANSWER = "no answer"  # an error: nothing to compare


AGREEING = frozenset((ActionMatch.SAME, ActionMatch.OTHER_ORDER, ActionMatch.OTHER_WORDS))
"""The matches of an answer that takes the agent the same way."""


@dataclass(frozen=True, slots=True)
class ActionComparison:
    """`match`, and where it differs: `differences` are paths into the arguments of the tools' calls.

    `likeness` is that of the texts, 0 to 1, None where neither has one.
    """

    match: ActionMatch
    likeness: float | None = None
    differences: Sequence[Difference] = ()

    def agrees(self, text_likeness: float = 0.0) -> bool:
        """Whether the answer takes the agent the same way; other words do from a likeness of `text_likeness` on."""
        if self.match is ActionMatch.OTHER_WORDS:
            return (self.likeness or 0.0) >= text_likeness
        return self.match in AGREEING


def compare_actions(recorded: Action, asked: Action) -> ActionComparison:
    """Return how `asked`, a new answer to the same question, compares with the recorded one."""
    if ActionKind.NONE in {recorded.kind, asked.kind}:
        return ActionComparison(ActionMatch.NO_ANSWER)
    likeness = text_likeness(recorded.text, asked.text)
    found: Sequence[Difference] = ()
    if recorded.kind is not asked.kind:
        match = _other_kind(recorded.kind, asked.kind)
    elif recorded.kind is ActionKind.TOOLS:
        match, found = _calls(recorded.calls, asked.calls)
    else:
        match = ActionMatch.SAME if recorded.key == asked.key else ActionMatch.OTHER_WORDS
    if match in AGREEING and (recorded.stop is Stop.LENGTH) != (asked.stop is Stop.LENGTH):
        match = ActionMatch.OTHER_STOP
    return ActionComparison(match, likeness, found)


def text_likeness(one: str, other: str) -> float | None:
    """Return how alike the letters of two texts are, 0 to 1 (their longest common subsequence); None: both empty."""
    if not one.strip() and not other.strip():
        return None
    if one.split() == other.split():
        return 1.0
    from rapidfuzz import fuzz

    return float(fuzz.ratio(one[:_COMPARED_TEXT], other[:_COMPARED_TEXT])) / 100


_OTHER_KINDS = {
    (ActionKind.TOOLS, ActionKind.TEXT): ActionMatch.TEXT_FOR_TOOLS,
    (ActionKind.TEXT, ActionKind.TOOLS): ActionMatch.TOOLS_FOR_TEXT,
}


def _other_kind(recorded: ActionKind, asked: ActionKind) -> ActionMatch:
    if asked is ActionKind.REFUSAL:
        return ActionMatch.REFUSED
    if recorded is ActionKind.REFUSAL:
        return ActionMatch.NOT_REFUSED
    return _OTHER_KINDS.get((recorded, asked), ActionMatch.NOTHING)


def _calls(recorded: Sequence[ToolUse], asked: Sequence[ToolUse]) -> tuple[ActionMatch, Sequence[Difference]]:
    keys, other = [call.key for call in recorded], [call.key for call in asked]
    if keys == other:
        return ActionMatch.SAME, ()
    if Counter(keys) == Counter(other):
        return ActionMatch.OTHER_ORDER, ()
    if Counter(call.name for call in recorded) != Counter(call.name for call in asked):
        return ActionMatch.OTHER_TOOLS, ()
    return ActionMatch.OTHER_ARGUMENTS, _argument_differences(recorded, asked)


def _argument_differences(recorded: Sequence[ToolUse], asked: Sequence[ToolUse]) -> list[Difference]:
    """Return where the arguments differ: calls of a tool that are equal face each other, the rest in their order."""
    left = Counter(call.key for call in asked)
    facing: list[ToolUse] = []
    for call in recorded:
        if left[call.key]:
            left[call.key] -= 1
        else:
            facing.append(call)
    rest = [call for call in reversed(asked) if _taken(left, call)][::-1]
    found = []
    for call in facing:
        place = next(place for place, one in enumerate(rest) if one.name == call.name)
        found += [
            Difference(f"{call.name}({one.path})", one.before, one.after)
            for one in differences(call.arguments, rest.pop(place).arguments)
        ]
    return found


def _taken(left: Counter[tuple[str, bytes]], call: ToolUse) -> bool:
    if not left[call.key]:
        return False
    left[call.key] -= 1
    return True

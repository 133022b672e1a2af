"""Two texts as words that both have, that only A has, and that only B has: computed once, for every report.

Pure. Words, not characters: a paraphrase is shown as phrases. What is too long to be aligned is shown whole, and said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

WORDS_ALIGNED = 6_000
"""Words of a text, common ends cut off, that are still aligned; longer ones are shown whole."""
_WORD = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")
_Part = tuple[str, str]  # (sign, text)


@dataclass(frozen=True, slots=True)
class WordDiff:
    """`parts` are ("=", "-" or "+", text), in order. `complete` is False where the texts were too long to align."""

    parts: Sequence[_Part]
    complete: bool = True


def word_diff(before: str, after: str) -> WordDiff:
    """Return the difference of two texts. The parts without "+" spell `before`, those without "-" `after`.

    >>> word_diff("the red car", "the blue car").parts
    [('=', 'the'), ('-', ' red'), ('+', ' blue'), ('=', ' car')]
    """
    one, other = _WORD.findall(before), _WORD.findall(after)
    head = _common(one, other)
    tail = _common(one[head:][::-1], other[head:][::-1])
    middle_a, middle_b = one[head : len(one) - tail], other[head : len(other) - tail]
    complete = max(len(middle_a), len(middle_b)) <= WORDS_ALIGNED
    middle = _aligned(middle_a, middle_b) if complete else [("-", "".join(middle_a)), ("+", "".join(middle_b))]
    parts = [("=", "".join(one[:head])), *middle, ("=", "".join(one[len(one) - tail :]))]
    return WordDiff(list(_joined(parts)), complete)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _aligned(one: Sequence[str], other: Sequence[str]) -> list[_Part]:
    numbers: dict[str, int] = {}  # rapidfuzz compares by hash: dense numbers cannot collide
    coded = [[numbers.setdefault(word, len(numbers)) for word in words] for words in (one, other)]
    parts: list[_Part] = []
    for step in Levenshtein.opcodes(*coded):
        if step.tag == "equal":
            parts.append(("=", "".join(one[step.src_start : step.src_end])))
            continue
        parts.append(("-", "".join(one[step.src_start : step.src_end])))
        parts.append(("+", "".join(other[step.dest_start : step.dest_end])))
    return parts


def _joined(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Join neighbours to phrases: a single word between two changes is part of both, so that nobody reads confetti."""
    gone = come = ""
    for place, (sign, text) in enumerate(parts):
        if sign == "-":
            gone += text
        elif sign == "+":
            come += text
        elif text:
            inside = 0 < place < len(parts) - 1 and (gone or come) and any(piece for _, piece in parts[place + 1 : -1])
            if inside and len(_WORD.findall(text)) == 1:
                gone, come = gone + text, come + text
                continue
            yield from (part for part in (("-", gone), ("+", come)) if part[1])
            gone = come = ""
            yield "=", text
    yield from (part for part in (("-", gone), ("+", come)) if part[1])

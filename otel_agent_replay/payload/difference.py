"""Where two JSON-like trees differ, by path: `messages[3].content: 'a' -> 'b'`.

Pure structure: it knows no protocol. Arrays are aligned, so that one inserted item is one difference.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, TypeGuard

from otel_agent_replay.payload.prefix import common_prefix
from otel_agent_replay.payload.where import step

_SHOWN = 120  # characters of a value in a difference's text
_CONTEXT = 20  # characters shown before the first difference of two long texts
_ALIGNED = 2_000  # items; longer arrays are compared by position once their common ends are cut off
_EQUAL_PAIRS = 100_000  # equal items, each with each; arrays with more are compared by position too
WORK = 3_000_000
"""Values that are looked at, at most, when two trees are compared; each is looked at a few times."""


class _Missing:
    """What a difference holds on the side where there is nothing."""

    def __repr__(self) -> str:
        return "(nothing)"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
"""`before` of what was added, `after` of what was removed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two trees differ. `path` is empty when the whole values do.

    In an array the position is that of `before`, or of `after` for an item that was added.
    """

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        before, after = _shown(self.before, self.after)
        return f"{self.path or 'value'}: {before} -> {after}"


def differences(before: Any, after: Any, *, limit: int = 200) -> list[Difference]:
    """Return the differences from `before` to `after` in document order, at most `limit`.

    Both are what `json.loads` or the typed codec gives. Numbers are compared by class and value (1 is not 1.0
    and not True); the order of an object's keys is no difference, that of an array's items is.

    >>> [str(d) for d in differences({"m": [1, 2, 3]}, {"m": [1, 9, 2, 3]})]
    ['m[1]: (nothing) -> 9']
    """
    return list(islice(_Search(None).walk(before, after, ""), limit))


def differences_within(before: Any, after: Any, *, limit: int = 200, work: int = WORK) -> tuple[list[Difference], bool]:
    """Return the differences as `differences` does, and whether the trees were looked at to their end or the limit.

    After `work` values the search stops: what it found so far stands, and more may differ.
    """
    search = _Search(work)
    found: list[Difference] = []
    try:
        for difference in islice(search.walk(before, after, ""), limit):
            found.append(difference)  # noqa: PERF402 - what was found before the work ran out is kept
    except _WorkDone:
        return found, False
    return found, True


class _WorkDone(Exception):
    """As many values as may be looked at have been."""


class _Search:
    """One comparison of two trees; `work` is how many values it may look at, None for without end."""

    def __init__(self, work: int | None) -> None:
        self._left: float = math.inf if work is None else work

    def spend(self, values: int = 1) -> None:
        """Count values that are looked at. Raises _WorkDone when they were too many."""
        self._left -= values
        if self._left < 0:
            raise _WorkDone

    def walk(self, before: Any, after: Any, path: str) -> Iterator[Difference]:
        """Yield the differences in document order."""
        self.spend()
        if before is after:
            return
        if _is_object(before) and _is_object(after):
            yield from self._objects(before, after, path)
        elif _is_array(before) and _is_array(after) and type(before) is type(after):
            yield from self._arrays(before, after, path)
        elif not self._same(before, after):
            yield Difference(path.removeprefix("."), before, after)

    def _objects(self, before: Mapping[Any, Any], after: Mapping[Any, Any], path: str) -> Iterator[Difference]:
        for key, value in before.items():
            other = after.get(key, MISSING)
            if type(value) is str and type(other) is str:  # what most values are: no walk for them
                self.spend(2)
                if value != other:
                    yield Difference((path + _step(key)).removeprefix("."), value, other)
            else:
                yield from self.walk(value, other, path + _step(key))
        for key, value in after.items():
            if key not in before:
                yield from self.walk(MISSING, value, path + _step(key))

    def _same(self, before: Any, after: Any) -> bool:
        """Whether two trees are the same; unlike `==` it tells 1 from 1.0 and True, and NaN is the same as NaN."""
        self.spend()
        if before is after:
            return True
        kind = type(before)
        if kind is str:
            return type(after) is str and bool(before == after)
        if _is_object(before) and _is_object(after):
            return before.keys() == after.keys() and all(self._same(value, after[key]) for key, value in before.items())
        if kind is not type(after):
            return False
        if _is_array(before):
            return len(before) == len(after) and all(map(self._same, before, after))
        try:
            return bool(before == after) or (before != before and after != after)  # noqa: PLR0124 - NaN
        except Exception:  # a class whose comparison is no yes or no (arrays of numbers)
            return repr(before) == repr(after)

    def _arrays(self, before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[Difference]:
        start, ends = self._shared_ends(before, after)
        old, new = before[start : len(before) - ends], after[start : len(after) - ends]
        for old_low, old_high, new_low, new_high in self._blocks(old, new):
            paired = min(old_high - old_low, new_high - new_low)
            for index in range(old_low, old_high):
                other = new[new_low + index - old_low] if index < old_low + paired else MISSING
                yield from self.walk(old[index], other, f"{path}[{start + index}]")
            for index in range(new_low + paired, new_high):
                yield from self.walk(MISSING, new[index], f"{path}[{start + index}]")

    def _shared_ends(self, before: Sequence[Any], after: Sequence[Any]) -> tuple[int, int]:
        shortest = min(len(before), len(after))
        start = 0
        while start < shortest and self._same(before[start], after[start]):
            start += 1
        ends = 0
        while ends < shortest - start and self._same(before[-1 - ends], after[-1 - ends]):
            ends += 1
        return start, ends

    def _blocks(self, old: Sequence[Any], new: Sequence[Any]) -> list[tuple[int, int, int, int]]:
        """Return the ranges of `old` and `new` that face each other and differ, equal items between them left out.

        By position, unless more items are equal when some are taken as inserted or removed.
        """
        whole = [(0, len(old), 0, len(new))]
        if not old or not new or len(old) == len(new) == 1 or max(len(old), len(new)) > _ALIGNED:
            return whole
        left, right = [self._frozen(item) for item in old], [self._frozen(item) for item in new]
        counts = Counter(right)
        equal_pairs = sum(counts[item] for item in left)
        if equal_pairs > _EQUAL_PAIRS:
            return whole
        self.spend(equal_pairs)
        in_place = sum(map(operator.eq, left, right))
        matcher = SequenceMatcher(None, left, right, autojunk=False)
        if sum(block.size for block in matcher.get_matching_blocks()) <= in_place:
            return whole
        return [(low, high, other, top) for tag, low, high, other, top in matcher.get_opcodes() if tag != "equal"]

    def _frozen(self, value: Any) -> Hashable:
        """Return something hashable that is equal for the same trees only."""
        self.spend()
        if value is None or isinstance(value, (str, bytes)):
            return value
        if _is_object(value):
            return frozenset((key, self._frozen(item)) for key, item in value.items())
        if _is_array(value):
            return (type(value), *map(self._frozen, value))
        return (type(value), repr(value))


def _is_object(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    kind = type(value)  # asking the abstract class takes ten times as long
    return kind is dict or (kind not in _PLAIN and isinstance(value, Mapping))


def _is_array(value: Any) -> bool:
    return isinstance(value, (list, tuple))


_PLAIN = frozenset((str, int, float, bool, bytes, type(None), list, tuple, _Missing))


def _step(key: Any) -> str:
    return step(key) if isinstance(key, str) else f"[{key!r}]"


_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = _SHOWN
_short.maxdict = _short.maxlist = _short.maxtuple = _short.maxset = _short.maxfrozenset = 6
_short.maxlevel = 3


def _shown(before: Any, after: Any) -> tuple[str, str]:
    """Return both sides as bounded text; of two long texts the part around the first difference."""
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _SHOWN:
        same = common_prefix(before.encode("utf-32-le", "surrogatepass"), after.encode("utf-32-le", "surrogatepass"))
        start = max(0, same // 4 - _CONTEXT)
        return _window(before, start), _window(after, start)
    return _bounded(before), _bounded(after)


def _window(text: str, start: int) -> str:
    end = start + _SHOWN
    return f"{'...' if start else ''}{text[start:end]!r}{'...' if end < len(text) else ''}"


def _bounded(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 1_000:  # Python refuses to print much longer ones
        return f"an integer of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, str) and len(value) <= _SHOWN else _short.repr(value)
    return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}..."

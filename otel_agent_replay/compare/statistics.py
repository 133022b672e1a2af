"""Tests and intervals for paired cases: exact where there are few, close where there are many. Pure.

Plain Python, because half a dozen formulas do not justify a numerical stack in somebody's service. Every function is
symmetric in the two sides, takes cases in any order with the same result once they are sorted by the caller, and
draws random numbers from a seed only.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

ALPHA = 0.05
POWER = 0.8
_EXACT_PAIRS = 60
_EQUAL = 1e-12
_STRATA = 1000
_SWAPS = 1999

_Vector = tuple[tuple[int, float], ...]  # by how much of each numbered thing B shows more than A, in one case


def mcnemar_p(only_a: int, only_b: int) -> float:
    """Return the two-sided exact p-value that a yes-or-no changes as often one way as the other.

    `only_a` cases have it on side A only, `only_b` on side B only; cases that agree say nothing.
    """
    discordant = only_a + only_b
    if not discordant:
        return 1.0
    fewer = min(only_a, only_b)
    if discordant <= 1000:
        tail = sum(math.comb(discordant, count) for count in range(fewer + 1))
        return min(1.0, float(2 * tail / 2**discordant))
    z = (abs(only_a - only_b) - 1) / math.sqrt(discordant)
    return _two_sided(z)


def wilcoxon_p(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test: zeros left out, ties at their mean rank.

    Exact (over all signs, ties included) up to 60 differences, the corrected normal approximation beyond.
    """
    ranks = _signed_double_ranks(differences)
    if not ranks:
        return 1.0
    above = sum(rank for rank in ranks if rank > 0)
    total = sum(abs(rank) for rank in ranks)
    extreme = min(above, total - above)
    if len(ranks) <= _EXACT_PAIRS:
        return min(1.0, 2 * _share_at_most(extreme, [abs(rank) for rank in ranks]))
    variance = sum(rank * rank for rank in ranks) / 4
    z = (total / 2 - extreme - 1) / math.sqrt(variance)  # doubled ranks: the correction of a half is one
    return _two_sided(z)


def _signed_double_ranks(differences: Sequence[float]) -> list[int]:
    """Return twice the rank of each difference that is not 0, with its sign: ties have whole numbers so."""
    moved = sorted((value for value in differences if abs(value) > _EQUAL), key=abs)
    ranks: list[int] = []
    start = 0
    while start < len(moved):
        end = start
        while end < len(moved) and abs(moved[end]) - abs(moved[start]) <= _EQUAL * max(1.0, abs(moved[start])):
            end += 1
        doubled = start + end + 1  # twice the mean of the ranks start + 1 .. end
        ranks += [doubled if value > 0 else -doubled for value in moved[start:end]]
        start = end
    return ranks


def _share_at_most(extreme: int, ranks: Sequence[int]) -> float:
    """Return the share of all choices of signs whose positive ranks add up to at most `extreme`."""
    ways = {0: 1}
    for rank in ranks:
        grown = dict(ways)
        for total, count in ways.items():
            if total + rank <= extreme:
                grown[total + rank] = grown.get(total + rank, 0) + count
        ways = grown
    return float(sum(ways.values()) / 2 ** len(ranks))


def swapping_p(cases: Sequence[tuple[Sequence[Hashable], Sequence[Hashable]]], *, seed: str) -> float:
    """Return the p-value that two lanes have the same distribution of something, each case swapped as a whole.

    A case is what its runs of A and of B show (a tool path). The statistic is the total variation distance of the two
    lanes' shares; under "no difference" the lanes of a case could as well be the other way round. 1,999 seeded draws.
    """
    deltas = [delta for delta in (_delta(side_a, side_b) for side_a, side_b in cases) if delta]
    seen_in = Counter(thing for delta in deltas for thing in delta)
    # What only one case shows adds the same to the distance whichever way round that case is.
    shown = sorted((thing for thing, count in seen_in.items() if count > 1), key=repr)
    if not shown:
        return 1.0
    numbers = {thing: number for number, thing in enumerate(shown)}
    moved: Counter[_Vector] = Counter()
    net: Counter[_Vector] = Counter()
    for delta in deltas:
        one = tuple(sorted((numbers[thing], share) for thing, share in delta.items() if thing in numbers))
        forward = min(one, tuple((number, -share) for number, share in one))
        moved[forward] += 1
        net[forward] += 1 if one == forward else -1
    kinds = sorted(moved)
    seen = _distance(kinds, [net[kind] for kind in kinds], len(shown))
    draw = random.Random(f"{seed} swaps")  # noqa: S311 - a permutation test, no secret
    as_far = sum(
        _distance(kinds, [2 * draw.getrandbits(moved[kind]).bit_count() - moved[kind] for kind in kinds], len(shown))
        >= seen - _EQUAL
        for _ in range(_SWAPS)
    )
    return (as_far + 1) / (_SWAPS + 1)


def _delta(side_a: Sequence[Hashable], side_b: Sequence[Hashable]) -> dict[Hashable, float]:
    """Return B's share minus A's of all that the two show not alike."""
    delta = _shares(side_b)
    for thing, share in _shares(side_a).items():
        delta[thing] = delta.get(thing, 0.0) - share
    return {thing: share for thing, share in delta.items() if abs(share) > _EQUAL}


def _shares(things: Sequence[Hashable]) -> dict[Hashable, float]:
    return {thing: count / len(things) for thing, count in Counter(things).items()}


def _distance(kinds: Sequence[_Vector], counts: Sequence[int], things: int) -> float:
    total = [0.0] * things
    for kind, count in zip(kinds, counts, strict=True):
        for number, share in kind:
            total[number] += share * count
    return sum(map(abs, total))


def correction(tests: Sequence[tuple[float, float]], alpha: float) -> tuple[list[float], int]:
    """Return p-values corrected for there being many, in their order, and for how many they were corrected.

    Each test is its p-value and the smallest one that its data could have given. Tests that could not have been
    significant anyhow do not count (Tarone); Holm's correction over the others keeps the chance of any false alarm
    at or below `alpha`.
    """
    count = next(
        (size for size in range(1, len(tests)) if sum(least <= alpha / size for _, least in tests) <= size),
        max(1, len(tests)),
    )
    able = [place for place, (_, least) in enumerate(tests) if least <= alpha / count]
    adjusted = [1.0] * len(tests)
    worst = 0.0
    for rank, place in enumerate(sorted(able, key=lambda place: tests[place][0])):
        worst = max(worst, min(1.0, (count - rank) * tests[place][0]))
        adjusted[place] = worst
    return adjusted, count


def fewest_cases(alpha: float) -> int:
    """Return how many cases must all differ the same way before any paired test can say so at `alpha`."""
    return max(1, math.ceil(1 - math.log2(alpha) - 1e-9))


@dataclass(frozen=True, slots=True)
class Group:
    """One case: its repeats' values on both sides, its weight, and which side the draws begin with."""

    a: Sequence[float]
    b: Sequence[float]
    weight: float = 1.0
    a_first: bool = True

    @property
    def difference(self) -> float:
        """Mean of B minus mean of A."""
        return _mean(self.b) - _mean(self.a)


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval and its standard error; the bounds are None where it cannot be told."""

    estimate: float
    low: float | None
    high: float | None
    error: float | None


def mean_difference(groups: Sequence[Group], *, seed: str, replicates: int = 500, alpha: float = ALPHA) -> Interval:
    """Return the weighted mean of B minus A with its bootstrap interval: cases are drawn, and in each its repeats.

    Beyond 1,000 cases they are drawn in 1,000 random strata of equal size: the same spread at a bounded cost.
    """
    estimate = _weighted([(group.difference, group.weight) for group in groups])
    if len(groups) < 2:
        return Interval(estimate, None, None, None)
    if len({value for group in groups for value in group.a}) == 1 == len({one for group in groups for one in group.b}):
        return Interval(estimate, estimate, estimate, 0.0)  # whatever is drawn
    draw = random.Random(f"{seed} mean")  # noqa: S311 - a bootstrap, no secret
    if all(len(group.a) == 1 == len(group.b) for group in groups):
        sums = [(group.difference * group.weight, group.weight) for group in groups]
        strata = _strata(sums, draw)
        found = _ratios(strata, draw, replicates)
    else:
        replicates = min(replicates, max(200, 1_000_000 // len(groups)))
        found = [
            _ratio([_redrawn(group, draw) for group in draw.choices(groups, k=len(groups))]) for _ in range(replicates)
        ]
    return _interval(estimate, found, alpha)


def percentile_difference(
    groups: Sequence[Group], share: float, *, seed: str, replicates: int = 400, alpha: float = ALPHA
) -> tuple[float, float, Interval]:
    """Return A's and B's percentile over all runs (weighted), and B minus A with its interval over drawn cases."""
    draw = random.Random(f"{seed} percentile")  # noqa: S311 - a bootstrap, no secret
    strata = [place % _STRATA for place in range(len(groups))]
    draw.shuffle(strata)
    weights = [group.weight for group in groups]
    side_a = _Ranked([group.a for group in groups], weights, strata, share)
    side_b = _Ranked([group.b for group in groups], weights, strata, share)
    count = min(len(groups), _STRATA)
    once = dict.fromkeys(range(count), 1)
    at_a, at_b = side_a.percentile(once), side_b.percentile(once)
    if len(groups) < 2:
        return at_a, at_b, Interval(at_b - at_a, None, None, None)
    found = []
    for _ in range(replicates):
        drawn = Counter(draw.choices(range(count), k=count))
        found.append(side_b.percentile(drawn) - side_a.percentile(drawn))
    return at_a, at_b, _interval(at_b - at_a, found, alpha)


class _Ranked:
    """The values of one side in order, of which those near a percentile are looked at when strata are drawn.

    Those further from it than eight standard errors are only counted: no draw moves the percentile there.
    """

    def __init__(
        self, values: Sequence[Sequence[float]], weights: Sequence[float], strata: Sequence[int], share: float
    ) -> None:
        ranked = sorted(
            (value, strata[place], weights[place] / len(one)) for place, one in enumerate(values) for value in one
        )
        self._share = share
        total = math.fsum(weight for _, _, weight in ranked)
        spread = 8 * math.sqrt(math.fsum(weight * weight for _, _, weight in ranked)) / total if total else 1.0
        self._of_stratum: dict[int, float] = {}
        self._below: dict[int, float] = {}
        self._near = []
        reached = 0.0
        for value, stratum, weight in ranked:
            reached += weight
            self._of_stratum[stratum] = self._of_stratum.get(stratum, 0.0) + weight
            if reached < (share - spread) * total:
                self._below[stratum] = self._below.get(stratum, 0.0) + weight
            elif reached - weight <= (share + spread) * total:
                self._near.append((value, stratum, weight))

    def percentile(self, drawn: Mapping[int, int]) -> float:
        """Return the smallest value with at least the share of all weight at or below it; `drawn` counts strata."""
        total = sum(count * self._of_stratum[stratum] for stratum, count in drawn.items())
        wanted = self._share * total - _EQUAL * total
        reached = sum(count * self._below.get(stratum, 0.0) for stratum, count in drawn.items())
        for value, stratum, weight in self._near:
            reached += weight * drawn.get(stratum, 0)
            if reached >= wanted:
                return value
        return self._near[-1][0]


def smallest_effect(error: float | None, alpha: float) -> float | None:
    """Return the difference that a test at `alpha` would have seen four times out of five, from a standard error."""
    if not error:
        return None
    return (NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(POWER)) * error


def _strata(sums: Sequence[tuple[float, float]], draw: random.Random) -> Sequence[tuple[float, float]]:
    if len(sums) <= _STRATA:
        return sums
    order = list(sums)
    draw.shuffle(order)
    return [
        (sum(value for value, _ in order[at::_STRATA]), sum(weight for _, weight in order[at::_STRATA]))
        for at in range(_STRATA)
    ]


def _redrawn(group: Group, draw: random.Random) -> tuple[float, float]:
    """Draw the repeats of a case anew; the side that comes first does not depend on which one is called A."""
    first, second = (group.a, group.b) if group.a_first else (group.b, group.a)
    one, other = _mean(draw.choices(first, k=len(first))), _mean(draw.choices(second, k=len(second)))
    difference = other - one if group.a_first else one - other
    return difference * group.weight, group.weight


def _ratios(strata: Sequence[tuple[float, float]], draw: random.Random, replicates: int) -> list[float]:
    count, weights = len(strata), {weight for _, weight in strata}
    if len(weights) > 1:
        return [_ratio(draw.choices(strata, k=count)) for _ in range(replicates)]
    total = weights.pop() * count  # of equal weights: the same in every draw
    values = [value for value, _ in strata]
    return [math.fsum(draw.choices(values, k=count)) / total for _ in range(replicates)]


def _ratio(sums: Sequence[tuple[float, float]]) -> float:
    return math.fsum(value for value, _ in sums) / math.fsum(weight for _, weight in sums)


def _interval(estimate: float, found: list[float], alpha: float) -> Interval:
    found = sorted(found)
    cut = int(alpha / 2 * len(found))
    middle = _mean(found)
    error = math.sqrt(math.fsum((value - middle) ** 2 for value in found) / (len(found) - 1))
    return Interval(estimate, found[cut], found[-1 - cut], error)


def _weighted(values: Sequence[tuple[float, float]]) -> float:
    total = math.fsum(weight for _, weight in values)
    return math.fsum(value * weight for value, weight in values) / total if total else 0.0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _two_sided(z: float) -> float:
    return min(1.0, math.erfc(max(0.0, z) / math.sqrt(2)))

"""Which values of a recording's requests no tape gives back: found by replaying it until it is the same.

Each departure names the places in which a request differs; they are left out as volatile, and the replay is made again.
What a first replay departs at is not on the tape; what only another hash seed, or only disturbed threads, bring out is
called that. Pure: who starts a replay is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Run, Word
from otel_agent_replay.replay.matching import Volatile
from otel_agent_replay.replay.proving import Chance, chances
from otel_agent_replay.replay.verdict import Departure, ReplayVerdict, VerdictStatus

MOST_REPLAYS = 16


class Origin(Word):
    """Where a value comes from that no tape gives back."""

    NOT_ON_TAPE = "not on the tape"  # a file, a C library, a clock behind a hook
    HASH_SEED = "the order of a set"  # another PYTHONHASHSEED is enough
    THREADS = "the order of threads"  # other scheduling is enough


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """A place of a request that a replay cannot give back: `text` shows both values, `location` is `file:line`."""

    step: int | None
    path: str
    origin: Origin
    text: str
    location: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What `replays` replays found. Under the volatile paths `rules` all are the same, unless `reason` says why not."""

    found: tuple[Unrecorded, ...]
    rules: tuple[str, ...]
    replays: int
    reason: str = ""


def settle(
    run: Run,
    replay: Callable[[Chance, Sequence[str]], ReplayVerdict],
    *,
    rules_for: Callable[[Sequence[str]], Sequence[str]],
    known: Sequence[str] = (),
    most: int = MOST_REPLAYS,
) -> Settled:
    """Replay `run` with one volatile rule more after each departure, until it is the same whatever chance does.

    `replay` makes one with a chance and volatile paths. `known` are rules that hold already. At most `most` replays.
    """
    other = next(chances(run, 1))
    found: list[Unrecorded] = []
    rules = list(known)
    made = 0
    for origin, chance in (
        (Origin.NOT_ON_TAPE, Chance()),
        (Origin.HASH_SEED, Chance(hash_seed=other.hash_seed)),
        (Origin.THREADS, Chance(shuffle=other.shuffle)),
    ):
        while True:
            if made >= most:
                return Settled(tuple(found), tuple(rules), made, f"still departing after {made} replays")
            made += 1
            verdict = replay(chance, rules)
            if verdict.status is VerdictStatus.SAME:
                break
            departure = verdict.departure
            if verdict.status is VerdictStatus.CANNOT_JUDGE or departure is None:
                return Settled(tuple(found), tuple(rules), made, verdict.reason or "a replay gave no verdict")
            places = [one for one in _places(departure, origin) if not Volatile(rules).covers(one.path)]
            found += places
            fresh = [
                rule for rule in rules_for([place.path for place in places]) if rule not in rules and _is_rule(rule)
            ]
            if not fresh:
                return Settled(tuple(found), tuple(rules), made, _no_rule(departure))
            rules += fresh
    return Settled(tuple(found), tuple(rules), made)


def _places(departure: Departure, origin: Origin) -> list[Unrecorded]:
    places = []
    for text in departure.differences:
        path, _, _values = text.partition(": ")
        # "value" is how the whole of a request is called: no path leads there.
        places.append(Unrecorded(departure.step, "" if path == "value" else path, origin, text, departure.location))
    return places


def _is_rule(path: str) -> bool:
    """Whether a path can be said as a volatile rule."""
    if not path or "," in path:
        return False
    try:
        Volatile([path])
    except ConfigurationError:
        return False
    return "'" not in path and '"' not in path


def _no_rule(departure: Departure) -> str:
    where = "at a call that is not on the tape" if departure.step is None else f"at step {departure.step}"
    at = f" ({departure.location})" if departure.location else ""
    return (
        f"no rule can hide it: the replay departs {where}{at}; expected: {departure.expected}; came: {departure.came}"
    )

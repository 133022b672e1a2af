"""Invariants over the calls of a run: which must, must not, in which order, how often, on which object. Pure.

Each function returns the state and the evidence. A call whose bytes were not kept may be the one that is meant: then
an answer that hangs on it is unknown. So is "it was not called" where calls of the run may have been lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from otel_agent_replay.boundary.tools import KEY_PARAMETER
from otel_agent_replay.gate.facts import MISSING, UNREAD, Made, RunFacts
from otel_agent_replay.gate.pattern import CallPattern, at_path, matches
from otel_agent_replay.gate.result import Evidence, State
from otel_agent_replay.gate.stated import AtMostOnce, ObjectId, Only, Order
from otel_agent_replay.payload.canonical import canonical_json

_Judged = tuple[State, Sequence[Evidence]]
_MOST_SHOWN = 5


def must_call(pattern: CallPattern, facts: RunFacts) -> _Judged:
    """It was called as often as it must be."""
    sure, unsure = _found(pattern, facts.calls)
    times = (
        f"{pattern.at_least} times or more"
        if pattern.at_most is None
        else f"{pattern.at_least} to {pattern.at_most} times"
    )
    if pattern.at_most is not None and len(sure) > pattern.at_most:
        told = [Evidence.at(made, f"called {len(sure)} times, wanted {times}") for made in sure[:_MOST_SHOWN]]
        return State.BROKEN, told
    missing = len(sure) < pattern.at_least
    if not missing and (pattern.at_most is None or not unsure):
        return State.HELD, [Evidence.at(made, f"{made.label} was called") for made in sure[:1]]
    if unsure:
        return State.UNKNOWN, [_unread(made, pattern) for made in unsure[:_MOST_SHOWN]]
    if facts.hidden:
        return State.UNKNOWN, [Evidence(f"called {len(sure)} times, but the recording lost some: {facts.hidden}")]
    if not facts.ended:
        return State.UNKNOWN, [Evidence(f"called {len(sure)} times when the recording ends; the run never ended")]
    near = [made for made in facts.calls if _same_name(pattern, made) and made not in sure]
    told = [Evidence.at(made, "called otherwise", expected=_wanted(pattern), actual=made.arguments) for made in near]
    return State.BROKEN, [
        Evidence(f"{pattern.label} was called {len(sure)} times, wanted {times}"),
        *told[:_MOST_SHOWN],
    ]


def must_not_call(pattern: CallPattern, facts: RunFacts) -> _Judged:
    """It was never called."""
    sure, unsure = _found(pattern, facts.calls)
    if sure:
        told = [Evidence.at(made, f"{made.label} was called", actual=made.arguments) for made in sure[:_MOST_SHOWN]]
        return State.BROKEN, told
    if unsure:
        return State.UNKNOWN, [_unread(made, pattern) for made in unsure[:_MOST_SHOWN]]
    return _absent(facts)


def order(wanted: Order, facts: RunFacts) -> _Judged:
    """No call of one begins before the first of the one listed before it has ended."""
    unknown: list[Evidence] = []
    for earlier, later in pairwise(wanted.calls):
        begun, perhaps = _found(later, facts.calls)
        before, perhaps_before = _found(earlier, facts.calls)
        first = min((made.end_sequence for made in before if made.end_sequence), default=0)
        too_early = [made for made in begun if not first or made.sequence < first]
        if too_early and not _could_come_first(perhaps_before, too_early) and not (not before and facts.hidden):
            told = f"{too_early[0].label} begins before any {earlier.label} has ended"
            shown = [Evidence.at(made, f"{made.label} begins here") for made in before[:1]]
            return State.BROKEN, [Evidence.at(too_early[0], told), *shown]
        if too_early or perhaps:
            unknown += [_unread(made, earlier) for made in (perhaps_before or perhaps)[:_MOST_SHOWN]]
            unknown += [] if unknown else [Evidence(f"the recording lost calls: {facts.hidden}")]
    return (State.UNKNOWN, unknown) if unknown else (State.HELD, [])


def at_most_once(wanted: AtMostOnce, facts: RunFacts) -> _Judged:
    """No two such calls were made for the same arguments, unless both carry one idempotency key.

    Of effects (no call named) those count that came about; one that failed on the way leaves it in doubt.
    """
    made_in_all = [made for made in [*facts.earlier, *facts.calls] if not made.again]
    if wanted.call is None:
        effects = {id(made) for made in [*facts.earlier, *facts.effects] if made.effect and made.happened is not False}
        candidates: list[Made] = [made for made in made_in_all if id(made) in effects]
        unsure: list[Made] = []
    else:
        candidates, unsure = _found(wanted.call, made_in_all)
    by = () if wanted.call is None else wanted.call.by
    first: dict[tuple[str, bytes], Made] = {}
    doubts: list[Evidence] = []
    for made in candidates:
        same = _sameness(made, by)
        if same is None:
            unsure.append(made)
            continue
        before = first.setdefault((made.label, same), made)
        if before is made or (made.key and made.key == before.key):
            continue
        why = "neither has an idempotency key" if not made.key and not before.key else "under another key"
        if wanted.call is None and before.happened is None:
            told = f"{made.label} was made at step {before.step} already and failed there: it may have happened; {why}"
            doubts.append(Evidence.at(made, told, actual=made.arguments))
            continue
        told = f"{made.label} was made at step {before.step} already, {why}"
        return State.BROKEN, [Evidence.at(made, told, actual=made.arguments), Evidence.at(before, "the first")]
    if len(unsure) > 1 or (unsure and first):
        doubts += [Evidence.at(made, f"the arguments of {made.label} were not kept") for made in unsure]
    return (State.UNKNOWN, doubts) if doubts else _absent(facts)


def only(wanted: Only, facts: RunFacts) -> _Judged:
    """No effect happened besides those listed."""
    unknown: list[Made] = []
    for made in facts.effects:
        answers = [pattern.fits(made) for pattern in wanted.calls]
        if True in answers:
            continue
        if None not in answers:
            told = f"{made.label} changes the world and is not among what may"
            return State.BROKEN, [Evidence.at(made, told, actual=made.arguments)]
        unknown.append(made)
    if unknown:
        return State.UNKNOWN, [Evidence.at(made, f"the arguments of {made.label} were not kept") for made in unknown]
    return _absent(facts)


def object_id(wanted: ObjectId, facts: RunFacts) -> _Judged:
    """Every such call names exactly that object."""
    expected = wanted.equals
    if wanted.same_as:
        expected = UNREAD if facts.input is UNREAD else at_path(facts.input, wanted.same_as)
        if expected in (UNREAD, MISSING):
            return State.UNKNOWN, [Evidence(f"the run's input has nothing at {wanted.same_as}, or was not kept")]
    sure, unsure = _found(wanted.call, facts.calls)
    unread = [made for made in sure if made.arguments is UNREAD]
    for made in sure:
        actual = MISSING if made.arguments is UNREAD else at_path(made.arguments, wanted.path)
        if made not in unread and not matches(actual, expected):
            told = f"{made.label} names another object at {wanted.path}"
            return State.BROKEN, [Evidence.at(made, told, expected=expected, actual=actual)]
    if unread or unsure:
        return State.UNKNOWN, [
            Evidence.at(made, f"the arguments of {made.label} were not kept") for made in unread or unsure
        ]
    return _absent(facts)


def _found(pattern: CallPattern, calls: Sequence[Made]) -> tuple[list[Made], list[Made]]:
    """Return the calls that are meant, and those that may be."""
    answers = [(made, pattern.fits(made)) for made in calls]
    return [made for made, fits in answers if fits], [made for made, fits in answers if fits is None]


def _absent(facts: RunFacts) -> _Judged:
    """Return held, unless calls may have been lost."""
    if facts.hidden:
        return State.UNKNOWN, [Evidence(f"the recording lost calls: {facts.hidden}")]
    return State.HELD, []


def _could_come_first(perhaps: Sequence[Made], calls: Sequence[Made]) -> bool:
    return any(made.end_sequence and made.end_sequence <= calls[0].sequence for made in perhaps)


def _same_name(pattern: CallPattern, made: Made) -> bool:
    return bool(CallPattern(pattern.kind, pattern.name).fits(made))


def _wanted(pattern: CallPattern) -> dict[str, Any]:
    return dict(pattern.arguments or {})


def _unread(made: Made, pattern: CallPattern) -> Evidence:
    return Evidence.at(made, f"this may be {pattern.label}: its arguments or its answer were not kept")


def _sameness(made: Made, by: Sequence[str]) -> bytes | None:
    """Return what two calls must share to be the same one, None where it was not kept."""
    given = made.arguments
    if given is UNREAD:
        return None
    if by:
        found = {path: at_path(given, path) for path in by}
        return canonical_json({path: None if value is MISSING else [value] for path, value in found.items()})
    if isinstance(given, Mapping):
        given = {name: value for name, value in given.items() if name != KEY_PARAMETER}
    return canonical_json(None if given is MISSING else given)

"""The verdict in one sentence, the same in every output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from otel_agent_replay.compare.changes import Added, Change, Changed, Moved, Removed
from otel_agent_replay.compare.consequences import Basis, Consequence
from otel_agent_replay.compare.departure import Cause, Departure

_PHRASES = {
    Cause.MODEL_ANSWER: "same request, different answer of the model",
    Cause.ANSWER: "same request, different result",
    Cause.MODEL_OR_PARAMETERS: "the model or its parameters changed",
    Cause.TOOLS: "the tools offered changed",
    Cause.INSTRUCTIONS: "the instructions changed",
    Cause.ORDER: "the request holds the same in another order",
    Cause.ERROR: "same request, but only one of them failed",
    Cause.EDITED: "its answer was edited",
}


def verdict_sentence(departure: Departure | None, reordered: int, volatile: Mapping[str, int], compared: int) -> str:
    """Return the verdict: one line, without a full stop only where the line ends in a list."""
    if departure is not None:
        return _departed(departure)
    aside = f" (volatile, not counted: {_listed(volatile)})" if volatile else ""
    if reordered:
        return f"The runs do the same; {_count(reordered, 'step')} came in another order among concurrent ones{aside}."
    return f"The runs are identical: {_count(compared, 'node')} compared, nothing of substance differs{aside}."


def _departed(departure: Departure) -> str:
    what = phrase(departure)
    where = departure.at.title
    if not departure.cause.is_comparable:
        return (
            f"From {where} on the runs cannot be compared: {departure.cause}. {_later(departure.consequences)}".rstrip()
        )
    if departure.too_different:
        later = (
            f"; {_count(len(departure.consequences), 'more difference')} beside it" if departure.consequences else ""
        )
        return f"The runs are too different to name a cause. The first difference is at {where}: {what}{later}."
    return f"B departs from A at {where}: {what}. {_later(departure.consequences)}".rstrip()


def phrase(departure: Departure) -> str:
    """Return what happened at the departure, in a few words."""
    change = departure.change
    if isinstance(change, (Added, Removed)):
        instead = _instead(departure.counterpart)
        return ("only B has it" if isinstance(change, Added) else "only A has it") + instead
    if isinstance(change, Moved):
        return "the same step ran at another place"
    if departure.cause in _PHRASES:
        return _PHRASES[departure.cause]
    return f"{_places(change)} differ{'s' if len(change.fields) == 1 else ''}"


def _places(change: Changed) -> str:
    named = []
    for item in change.fields:
        if not item.field.is_request and any(other.field.is_request for other in change.fields):
            continue
        path = item.differences[0].path if item.differences else ""
        named.append(f"{item.field} ({path})" if path else str(item.field))
    return " and ".join(named)


def _instead(counterpart: Change | None) -> str:
    if isinstance(counterpart, Added):
        return f"; B has {counterpart.b.title} instead"
    if isinstance(counterpart, Removed):
        return f"; A has {counterpart.a.title} instead"
    return ""


def _later(consequences: Sequence[Consequence]) -> str:
    if not consequences:
        return "Nothing else differs."
    bases = Counter(consequence.basis for consequence in consequences)
    independent, later = bases.pop(Basis.INDEPENDENT, 0), bases.pop(Basis.LATER, 0)
    following = sum(bases.values())
    parts = []
    if following:
        parts.append(f"{following} follow{'s' if following == 1 else ''} from it")
    if later:
        parts.append(f"{later} came later and may follow")
    if independent:
        parts.append(f"{independent} {'does' if independent == 1 else 'do'} not follow")
    return f"{_count(len(consequences), 'later difference')}: {', '.join(parts)}."


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

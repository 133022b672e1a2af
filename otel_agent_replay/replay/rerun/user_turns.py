"""A user's later turns in a re-run: what they said then while it still fits, then a script or a simulator.

Owns what "fits" means. The n-th turn that the agent asks for is held against the n-th on record, and fits when the
agent says the same; or, closely, when both texts ask something or neither does, name the same values (every word with
a digit in it: orders, amounts, dates), and share at least half of their words. Once one does not fit, the recorded
user is gone for good: later recorded turns answer a conversation that did not happen.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from otel_agent_replay.boundary.crossing import Answer, Place, outside_runs
from otel_agent_replay.errors import DamagedRecording, MissingPayload, ReplayInterrupt, TapeUnreadable, TurnMisfit
from otel_agent_replay.model import Call, Kind, MediaType, Outcome, OutcomeStatus, Payload, Read
from otel_agent_replay.payload.codec import decode, encode
from otel_agent_replay.replay.by_arguments import RecordedAnswer
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import Entry

SHARED_WORDS = 0.5
"""Share of the words of both texts that texts which fit closely have in common."""

_WORD = re.compile(r"\w+")
_OVER = object()
Simulator = Callable[[Any, Sequence[Any]], Any]
"""Called with what the agent says now and the turns so far (agent's and user's); returns the user's answer."""


def fits(recorded: str, said: str) -> bool:
    """Whether an answer to the first text also answers the second, closely (see the module)."""
    if ("?" in recorded) is not ("?" in said):
        return False
    before, now = (set(_WORD.findall(text.casefold())) for text in (recorded, said))
    if {word for word in before if any(map(str.isdigit, word))} != {
        word for word in now if any(map(str.isdigit, word))
    }:
        return False
    return len(before & now) >= SHARED_WORDS * len(before | now)


class RecordedTurns:
    """The user of one recording. Thread-safe. `closely` is how many turns were answered that only fit closely."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._left = [entry for entry in tape.entries if entry.node.kind is Kind.INPUT]
        self._lock = threading.Lock()
        self._gone = ""
        self.closely = 0

    @property
    def why_not(self) -> str:
        """Why the recorded user answers no more, "" while they do."""
        with self._lock:
            return self._gone

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return the recorded turn if it fits what the agent says, else None for this and every later one."""
        with self._lock:
            entry, same = self._next(call)
            if entry is None:
                return None
            self.closely += not same
        try:
            return RecordedAnswer(self._tape.outcome(entry), entry.node.step, same_request=same)
        except (MissingPayload, DamagedRecording) as error:
            raise TapeUnreadable(place.step, str(error)) from error

    def _next(self, call: Call) -> tuple[Entry | None, bool]:
        if self._gone:
            return None, False
        if not self._left:
            self._gone = "the recorded user was asked no more"
            return None, False
        entry = self._left.pop(0)
        if entry.call.name == call.name:
            if entry.call.digest == call.digest:
                return entry, True
            before, now = _text(self._tape.request(entry)), _text(call.request.data)
            if before and now and fits(before, now):
                return entry, False
        self._gone = "the agent says something else than on record"
        return None, False


class GivenTurns:
    """The user where the recorded one is gone: implements `boundary.session.Answerer` for kind input.

    `script` are their turns in order, after which `simulator` is asked; `gone` says why the recorded one is. What it
    cannot answer stops the run: `stop` is told.
    """

    def __init__(
        self,
        script: Sequence[Any] | None,
        simulator: Simulator | None,
        *,
        gone: Callable[[], str],
        stop: Callable[[ReplayInterrupt], ReplayInterrupt],
    ) -> None:
        self._script: Iterator[Any] = iter(() if script is None else script)
        self._has_script = script is not None
        self._simulator = simulator
        self._gone = gone
        self._stop = stop
        self._lock = threading.Lock()
        self._turns: list[Any] = []

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return the next turn; None for other kinds. Raises TurnMisfit where there is none."""
        if call.kind is not Kind.INPUT:
            return None
        said = _value(call.request.data)
        with self._lock:
            value = next(self._script, _OVER)
        if value is not _OVER:
            return self._given(said, value)
        if self._simulator is not None:
            try:
                with outside_runs():
                    return self._given(said, self._simulator(said, tuple(self._turns)))
            except Exception as error:
                why = f"the simulator failed: {type(error).__name__}: {error}"
                raise self._stop(TurnMisfit(place.step, call.name, why)) from error
        why = self._gone() or "the recording has no such turn"
        if self._has_script:
            why = f"{why}, and the script is over"
        place.number()
        raise self._stop(TurnMisfit(place.step, call.name, why))

    def _given(self, said: Any, value: Any) -> Answer:
        self._turns += [said, value]
        data, round_trips, notes = encode(value)
        outcome = Outcome(
            OutcomeStatus.OK, Payload.of(data, MediaType.VALUE.value), round_trips=round_trips, notes=notes
        )
        return RecordedAnswer(outcome, None, same_request=False)

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return None: a user answers no reads."""
        del kind, name, place, strand
        return None

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the refusal of what nobody answers."""
        del read
        return TurnMisfit(place.step, place.name if call is None else call.name, "nobody answers it")


def _value(data: bytes | None) -> Any:
    """Return what the agent says: the only argument of the function that asks, or all of them by name."""
    if data is None:
        return None
    arguments = decode(data)
    if isinstance(arguments, dict) and len(arguments) == 1:
        return next(iter(arguments.values()))
    return arguments


def _text(data: bytes | None) -> str:
    """Return the words of a turn's arguments, "" where they are not kept."""
    return "" if data is None else " ".join(_texts(json.loads(data)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            if key != "$type":
                yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif value is not None:
        yield str(value)

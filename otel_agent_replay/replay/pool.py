"""The pool: what other runs read when they made the same call, for a read that this run's own tape does not answer.

Pure: recorded runs in, an answer with where it comes from or a reason out. An answer is given only when nothing speaks
against it; each rule that does has its reason. It answers no writes, and nothing that another replay was told.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from otel_agent_replay.model import EMPTY_DIGEST, AnswerSource, Call, Node, Outcome, OutcomeStatus, RecordedRun
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import Entry
from otel_agent_replay.replay.writes import NOTHING_WRITTEN, Key, key_of, repeats, writes_in

_NOT_NOW = frozenset({408, 425, 429})
"""HTTP statuses that say something of the moment and nothing of what was asked; so does every 5xx."""


class Found(NamedTuple):
    """The recorded answer, and the run it comes from."""

    node: Node
    run: RecordedRun


class Miss(NamedTuple):
    """Why no other run answers, in a few words."""

    reason: str


class _Answer(NamedTuple):
    entry: Entry
    run: int
    written: int  # by that run, before it asked


class _Write(NamedTuple):
    begun_ns: int
    ended_ns: int
    sequence: int
    run: int
    call: Call


class Pool:
    """Recorded runs that may answer for another one.

    `max_age_ns` is how old an answer may be. `own_worlds` tells that each run had a world of its own (a benchmark, a
    sandbox), so that no run's writes are in another's. Where the world is one, an answer does not count once its own
    run has written anything after it, or another run something that shares an argument with it (or whose arguments,
    or the read's own, are none or not known). In either case the run that asks must have written just what the
    answering run had, and answers that contradict each other are none.
    """

    def __init__(self, runs: Iterable[RecordedRun], *, max_age_ns: int | None = None, own_worlds: bool = False) -> None:
        self._runs = list(runs)
        self._max_age_ns = max_age_ns
        self._own_worlds = own_worlds
        self._answers: dict[Key, list[_Answer]] = {}
        self._writes: list[_Write] = []
        self._values: dict[tuple[int, bytes], frozenset[str]] = {}
        for number, recorded in enumerate(self._runs):
            self._add(number, recorded)
        self._writes.sort(key=lambda write: write.begun_ns)
        self._begins = [write.begun_ns for write in self._writes]
        self._unended = [write for write in self._writes if not write.ended_ns]
        self._longest_ns = max((write.ended_ns - write.begun_ns for write in self._writes), default=0)

    def find(self, call: Call, before_ns: int, *, written: int = NOTHING_WRITTEN) -> Found | Miss:
        """Return the latest answer to `call` that was there at `before_ns` (Unix nanoseconds), or why none is.

        `written` is what the asking run has written so far (`writes`).
        """
        if not repeats(call):
            return Miss("only reads of the world are answered by other runs")
        left = self._answers.get(key_of(call), [])
        reason = "no other run made this call"
        for narrower, otherwise in (
            (self._usable, "other runs got no whole answer that could be given again"),
            (lambda one: one.written == written, "other runs asked after other writes than this one has made"),
            (lambda one: 0 < one.entry.span[1] <= before_ns, "other runs asked later"),
            (lambda one: not self._too_old(one, before_ns), "the answers of other runs are too old"),
        ):
            if left:
                left, reason = [one for one in left if narrower(one)], otherwise
        if left and not self._own_worlds:
            left, reason = self._unwritten(left, call, before_ns), "a write since may have changed the answer"
        if not left:
            return Miss(reason)
        said = {_said(one.entry.node.outcome) for one in left}
        if len(said) > 1:
            return Miss(f"{len(left)} answers of other runs contradict each other ({len(said)} different ones)")
        latest = max(left, key=lambda one: one.entry.span[1])
        return Found(latest.entry.node, self._runs[latest.run])

    def _add(self, number: int, recorded: RecordedRun) -> None:
        entries = Tape(recorded).entries
        written = writes_in(entries)
        for entry in entries:
            if id(entry) in written.made:
                begun_ns, ended_ns = entry.span
                self._writes.append(_Write(begun_ns, ended_ns, entry.node.sequence, number, entry.call))
            elif repeats(entry.call):
                answer = _Answer(entry, number, written.before[id(entry)])
                self._answers.setdefault(key_of(entry.call), []).append(answer)

    def _usable(self, answer: _Answer) -> bool:
        node = answer.entry.node
        outcome = node.outcome
        if node.source is not AnswerSource.LIVE or outcome is None or outcome.status is not OutcomeStatus.OK:
            return False
        if outcome.closed_early or not (outcome.exact and outcome.round_trips):
            return False
        status = 200 if outcome.head is None else outcome.head.status
        if status >= 500 or status in _NOT_NOW:
            return False
        result = outcome.result
        if result is None or result.data is not None or result.digest == EMPTY_DIGEST:
            return True
        return self._runs[answer.run].payload(result.digest) is not None

    def _too_old(self, answer: _Answer, before_ns: int) -> bool:
        return self._max_age_ns is not None and answer.entry.span[0] < before_ns - self._max_age_ns

    def _unwritten(self, answers: list[_Answer], call: Call, before_ns: int) -> list[_Answer]:
        """Return the answers that no write up to `before_ns` may have changed."""
        asked = _arguments(call, call.request.data)
        first_ns = min(one.entry.span[0] for one in answers)
        touched_ns = 0
        own: dict[int, int] = {}  # run: its last write
        begin = bisect_left(self._begins, first_ns - self._longest_ns)
        end = bisect_right(self._begins, before_ns)
        for write in (*self._writes[begin:end], *(one for one in self._unended if one.begun_ns <= before_ns)):
            own[write.run] = max(own.get(write.run, 0), write.sequence)
            over_ns = write.ended_ns or before_ns  # one that never ended may still be under way
            if over_ns >= first_ns and over_ns > touched_ns and self._touches(write, asked):
                touched_ns = over_ns
        return [
            one for one in answers if one.entry.span[0] > touched_ns and own.get(one.run, 0) < one.entry.node.sequence
        ]

    def _touches(self, write: _Write, asked: frozenset[str]) -> bool:
        request = write.call.request
        key = write.run, write.call.digest
        values = self._values.get(key)
        if values is None:
            data = self._runs[write.run].bytes_of(request)
            values = self._values[key] = _arguments(write.call, data)
        return not asked or not values or not asked.isdisjoint(values)


def _said(outcome: Outcome | None) -> tuple[bytes, int]:
    result = None if outcome is None else outcome.result
    head = None if outcome is None else outcome.head
    return b"" if result is None else result.digest, 0 if head is None else head.status


def _arguments(call: Call, data: bytes | None) -> frozenset[str]:
    """Return the values that a call names, as texts; none where they are not known."""
    if data is None:
        return frozenset()
    found: set[str] = set()
    if data:
        try:
            found.update(_values(json.loads(data)))
        except (ValueError, RecursionError):
            return frozenset()
    if call.head is not None:
        parts = urlsplit(call.head.url)
        found.update(part for part in parts.path.split("/") if part)
        found.update(value for _, value in parse_qsl(parts.query))
    return frozenset(found)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            if key != "$type":
                yield from _values(one)
    elif isinstance(value, list):
        for one in value:
            yield from _values(one)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
        yield str(value)

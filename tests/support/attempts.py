"""One agent's doings, recorded in one go or in several attempts, each in a journal of its own."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.sealer import SealReport, seal
from otel_agent_replay.model import Kind, RecordedRun, new_run_id
from tests.support.journal_runs import NOW_NS, JournalRun, value

Deed = tuple[str, str]
"""`tool`, `read`, `enter` or `leave`, and a name."""


@dataclass
class Standing:
    """What a resuming process knows of the run: which deeds are done, numbers to go on from."""

    run_id: bytes
    sequence: int = 1
    step: int = 1


class Doing:
    """Does the `deeds` of one agent, from `first` to before `last`, as one attempt."""

    def __init__(self, lake: Path, deeds: Sequence[Deed], standing: Standing, *, attempt: int, **facts: Any) -> None:
        self.deeds = deeds
        self.standing = standing
        self.journal = Journal(lake)
        self.run = JournalRun(
            self.journal,
            run_id=standing.run_id,
            first_sequence=standing.sequence,
            first_step=standing.step,
            given=value("in"),
            attempt=attempt,
            mode="record" if attempt == 1 else "resume",
            **facts,
        )
        self.scopes: list[bytes] = []

    def go(self, first: int, last: int, *, again: int, in_flight: bool) -> int:
        """Do what is there. `again` is the step of the first deed, a call that was in flight (0: it was none).

        With `in_flight` the last deed is a call that does not end; returns its step.
        """
        numbers: dict[tuple[str, ...], int] = {}
        path: list[str] = []
        step = 0
        for place, (what, name) in enumerate(self.deeds[:last]):
            key = (*path, what, name)
            if what in ("tool", "enter"):
                numbers[key] = numbers.get(key, -1) + 1
            if what == "enter":
                path.append(f"{name}{numbers[key]}")
                is_over = self._left(place) < first  # all of it lies in earlier attempts
                span = (
                    b""
                    if is_over
                    else self.run.begin(name, kind=Kind.SCOPE, parent=self._around(), occurrence=numbers[key])
                )
                self.scopes.append(span)
            elif what == "leave":
                path.pop()
                span = self.scopes.pop()
                if span:
                    self.run.end(span)
            elif place < first:
                continue
            elif what == "read":
                self.run.reads([(Kind.CLOCK, name, place)], self._around())
            else:
                step = again if again and place == first else self.standing.step
                self.standing.step = max(self.standing.step, step + 1)
                request = value([name, place])
                span = self.run.begin(name, request, parent=self._around(), occurrence=numbers[key], step=step)
                if not (in_flight and place == last - 1):
                    self.run.end(span, value({"at": place}))
        return step if in_flight else 0

    def close(self, *, ends: bool) -> None:
        """End the run, or die."""
        if ends:
            self.run.finish(output=value("out"))
        self.standing.sequence = next(self.run._sequence)
        self.journal.close()

    def _around(self) -> bytes:
        return self.scopes[-1] if self.scopes else self.run.root

    def _left(self, place: int) -> int:
        """Return where the scope that is entered at `place` is left."""
        depth = 0
        for later in range(place, len(self.deeds)):
            depth += {"enter": 1, "leave": -1}.get(self.deeds[later][0], 0)
            if not depth:
                return later
        return len(self.deeds)


def record(folder: Path, deeds: Sequence[Deed], cuts: Sequence[tuple[int, bool]]) -> list[tuple[Path, JournalRun]]:
    """Record a run that dies before each of `cuts` (a deed, and whether the call before is in flight) and goes on.

    Returns each attempt's folder with its journal in it.
    """
    standing = Standing(new_run_id(NOW_NS // 1_000_000))
    made = []
    first = again = 0
    for number, (last, in_flight) in enumerate([*cuts, (len(deeds), False)], 1):
        lake = folder / f"attempt{number}"
        doing = Doing(lake, deeds, standing, attempt=number)
        again = doing.go(first, last, again=again, in_flight=in_flight)
        doing.close(ends=number > len(cuts))
        first = last - 1 if again else last
        made.append((lake, doing.run))
    return made


def bring(attempt: Path, lake: Path) -> None:
    """Put an attempt's segments into a lake's journal."""
    (lake / "journal").mkdir(parents=True, exist_ok=True)
    for path in (attempt / "journal").glob("*.log"):
        shutil.copy(path, lake / "journal")


def bring_and_seal(attempts: Sequence[Path], lake: Path) -> SealReport:
    """Put several attempts' segments into a lake and seal."""
    for attempt in attempts:
        bring(attempt, lake)
    return seal(lake)


def told(recorded: RecordedRun) -> list[object]:
    """Return what a run says whatever attempts it took: all but ids, times and numbers of the order."""
    paths = {item.span.span_id: item.node.path for item in recorded.spans if item.node is not None}
    found: list[object] = []
    for item in recorded.spans:
        node = item.node
        assert node is not None
        results = [
            None if payload is None else recorded.payload(payload.digest)
            for payload in (node.call and node.call.request, node.outcome and node.outcome.result)
        ]
        reads = [(read.name, read.value) for read in node.reads]
        status = node.outcome and node.outcome.status
        parent = paths.get(item.span.parent_span_id)
        found.append((node.path, node.kind, node.step, status, bool(node.end_sequence), parent, reads, results))
    return found

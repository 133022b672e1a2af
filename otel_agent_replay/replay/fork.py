"""A fork: where it leaves its origin, what is changed there, and who answers beyond.

Owns the plan (data that travels in a file from the command line to the forked process) and what is made of it. The
origin is only read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from otel_agent_replay.boundary.request_changes import RequestRewriter
from otel_agent_replay.boundary.session import Answerer, Session
from otel_agent_replay.errors import ConfigurationError, ReplayInterrupt
from otel_agent_replay.model import AnswerSource, Call, Kind, RecordedRun
from otel_agent_replay.protocols.request_edits import RequestEdits
from otel_agent_replay.replay.by_arguments import ByArguments
from otel_agent_replay.replay.continued import ContinuedPlayback
from otel_agent_replay.replay.edited_answers import EditedAnswers
from otel_agent_replay.replay.edited_requests import EditedRequests
from otel_agent_replay.replay.seeded import SeededReads
from otel_agent_replay.replay.spending import Meter, MeteredRequests, Spending
from otel_agent_replay.replay.virtual_clock import VirtualClock

LONGEST_SLEEP_S = 1.0
"""How long one wait may take beyond the fork's step; agents that back off for minutes are not waited for."""


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """Exact before step `at`, then on its own: `edits` change the model requests from there, `results` give single
    steps another result (JSON values), `seed` draws what the tape has not, and with `live_clock` clocks show today.
    With `jumps` the agent is entered at a checkpoint where it can be. `spending` is what its own model calls may use,
    at `price` (US dollars a million tokens given and made) or the known ones.
    """

    at: int
    edits: RequestEdits = field(default_factory=RequestEdits)
    results: Mapping[int, Any] = field(default_factory=dict)
    seed: str = "fork"
    live_clock: bool = False
    jumps: bool = True
    spending: Spending = field(default_factory=Spending)
    price: tuple[float, float] | None = None

    @classmethod
    def from_arguments(
        cls,
        at: int,
        *,
        settings: Sequence[str] = (),
        results: Sequence[str] = (),
        message: str | None = None,
        seed: str = "fork",
        live_clock: bool = False,
        jumps: bool = True,
        read: Callable[[str], str],
    ) -> ForkPlan:
        """Return the plan that a command line tells: `name=value` settings, `STEP=@file` or `STEP=JSON` results.

        `read(path)` returns a file's text. Raises ConfigurationError.
        """
        if at < 1:
            raise ConfigurationError(f"a fork leaves its origin at a step from 1 on, not at {at}")
        given = [*settings, *([f"message={message}"] if message is not None else [])]
        edits = RequestEdits.from_arguments(given, read=read) if given else RequestEdits()
        return cls(at, edits, dict(_result(text, at, read) for text in results), seed, live_clock, jumps)

    def write(self, path: Path) -> None:
        """Write it to a file."""
        plan = {
            "at": self.at,
            "edits": self.edits.to_json(),
            "results": dict(self.results),
            "seed": self.seed,
            "live_clock": self.live_clock,
            "jumps": self.jumps,
            "spending": asdict(self.spending),
            "price": self.price,
        }
        path.write_text(json.dumps(plan), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> ForkPlan:
        """Return the plan in a file. Raises ConfigurationError."""
        try:
            plan = json.loads(path.read_text(encoding="utf-8"))
            results = {int(step): value for step, value in plan["results"].items()}
            edits = RequestEdits.from_json(plan["edits"])
            price = None if plan["price"] is None else (float(plan["price"][0]), float(plan["price"][1]))
            spending = Spending(**plan["spending"])
            live_clock, jumps = plan["live_clock"] is True, plan["jumps"] is True
            return cls(int(plan["at"]), edits, results, str(plan["seed"]), live_clock, jumps, spending, price)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(f"{path} is no plan of a fork: {error}") from error


def _result(text: str, at: int, read: Callable[[str], str]) -> tuple[int, Any]:
    step, equals, value = text.partition("=")
    if not equals or not step.strip().isdecimal():
        raise ConfigurationError(f"a tool's result is given as STEP=JSON or STEP=@file, not {text!r}")
    if int(step) < at:
        raise ConfigurationError(f"the result of step {step} cannot be set: the fork is exact up to step {at}")
    try:
        return int(step), json.loads(read(value[1:]) if value.startswith("@") else value)
    except ValueError as error:
        raise ConfigurationError(f"the result of step {step} is no JSON: {error}") from error


class PreparedFork:
    """A plan on its origin, ready to be opened; implements `continued_runs.ForkRoute`."""

    def __init__(
        self, origin: RecordedRun, plan: ForkPlan, meter: Meter | None = None, *, beside: VirtualClock | None = None
    ) -> None:
        self.at: int = plan.at
        self.jumps: bool = plan.jumps
        self.plan = plan
        steps = [node.step for node in origin.nodes if node.step is not None]
        if plan.at > max(steps, default=0) + 1:
            raise ConfigurationError(
                f"run {origin.run.run_id.hex()} has {max(steps, default=0)} steps: it cannot be left at step {plan.at}"
            )
        begins = [node.sequence for node in origin.nodes if node.step is not None and node.step >= plan.at]
        self._clock = clock = VirtualClock(origin, until=min(begins, default=None), beside=beside)
        shared = min(begins) - 1 if begins else max((node.sequence for node in origin.nodes), default=0)
        self._by_arguments = by_arguments = ByArguments(origin, until=shared, clock=None if plan.live_clock else clock)
        self.beyond: Mapping[AnswerSource, Answerer] = {
            AnswerSource.TAPE: by_arguments,
            AnswerSource.SEEDED: SeededReads(f"{plan.seed}/{origin.run.run_id.hex()}", now_ns=clock.now_ns),
            **({} if plan.live_clock else {AnswerSource.VIRTUAL: clock}),
        }
        self._results = EditedAnswers(origin, plan.results, by_arguments)
        self.edited: Mapping[AnswerSource, Answerer] = {AnswerSource.EDITED: self._results} if plan.results else {}
        self.edited_steps: Sequence[int] = tuple(plan.results)
        self._edits: RequestRewriter | None = EditedRequests(plan.edits) if plan.edits else None
        self._meter = meter or Meter(plan.spending, plan.price)  # one for all runs that the fork's code begins
        self.sleeps_at_most_s: float | None = LONGEST_SLEEP_S

    def shares(self, playback: ContinuedPlayback) -> None:
        """Take what answers the part that is shared, before anything is asked."""
        self._results.shares(playback)

    def take(self, session: Session) -> None:
        """Make an open session go this way: its model requests are changed, and held to what they may cost."""

        def stop(interrupt: ReplayInterrupt) -> ReplayInterrupt:
            session.interrupt = session.interrupt or interrupt
            return session.interrupt

        session.sleeps_at_most_s = self.sleeps_at_most_s
        session.asleep = None if self.plan.live_clock else self._clock.asleep
        if self.plan.spending == Spending():
            session.edits = self._edits
            return
        session.edits = MeteredRequests(self._meter, self._edits, stop)
        session.watch = self._meter.ended

    def goes_beyond(self, call: Call) -> None:
        """The fork makes a call that the recording does not answer: from here on real time passes."""
        self._clock.start()
        self._by_arguments.goes_beyond(call)

    def of_inner(self, recorded: RecordedRun) -> PreparedFork:
        """Return how a run goes that the fork's code begins beyond the step: nothing of it is changed."""
        plan = replace(self.plan, at=1, edits=RequestEdits(), results={}, jumps=False)
        return PreparedFork(recorded, plan, self._meter, beside=self._clock)

    def told(self) -> list[str]:
        """Return what was changed, one line each, and whether it was asked for."""
        parts = ", ".join(self.plan.edits.parts)
        lines = [f"model requests from step {self.at} on: {parts}"] if parts else []
        lines += [f"clocks from step {self.at} on: they show today"] if self.plan.live_clock else []
        lines += [
            f"result of step {step}: set" + ("" if step in self._results.used else " (but that call was never made)")
            for step in self.plan.results
        ]
        return lines or [f"nothing but that it runs on from step {self.at} by itself"]


def model_endpoints(origin: RecordedRun) -> list[str]:
    """Return the endpoints (`host:port`) that the run's model calls went to: a fork asks the model there."""
    found = []
    for node in origin.nodes:
        head = node.call.head if node.kind is Kind.MODEL and node.call is not None else None
        parts = urlsplit(head.url) if head is not None else None
        if parts is not None and parts.hostname:
            found.append(f"{parts.hostname}:{parts.port or (80 if parts.scheme == 'http' else 443)}")
    return list(dict.fromkeys(found))

"""What there is to ask of a cohort: the questions that its results file does not answer yet, one at a time.

Reads one run after the other, lists its steps and the side effects of its tools in the results, and makes the
questions. A run whose questions are all settled is not read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from otel_agent_replay import semconv
from otel_agent_replay.errors import CannotJudge, ConfigurationError, RecordingError
from otel_agent_replay.model import Kind, RecordedRun, SideEffect
from otel_agent_replay.replay.ask.candidate import Candidate, Question
from otel_agent_replay.replay.ask.estimate import most_usd
from otel_agent_replay.replay.ask.keys import NoKey
from otel_agent_replay.replay.ask.pace import Limits
from otel_agent_replay.replay.ask.request import RecordedStep, model_steps
from otel_agent_replay.replay.ask.results import CallKey, Results

CANDIDATE, BASELINE = "candidate", "baseline"

LoadRun = Callable[[bytes], RecordedRun]


@dataclass(frozen=True, slots=True)
class Work:
    """One question to send, and what it may cost at most (US dollars, None: not known)."""

    key: CallKey
    candidate: Candidate
    question: Question
    most_usd: float | None


def open_works(
    load: LoadRun,
    results: Results,
    lanes: Mapping[str, Candidate],
    limits: Limits,
    environment: Mapping[str, str],
) -> Iterator[Work]:
    """Yield what is to be asked, run by run. Raises NoKey.

    What cannot be asked is noted in `results`: runs that are not there, steps that are left out, changes that do not
    fit a step.
    """
    return _Works(results, lanes, limits, environment).of_runs(load)


class _Works:
    def __init__(
        self, results: Results, lanes: Mapping[str, Candidate], limits: Limits, environment: Mapping[str, str]
    ) -> None:
        self._results, self._lanes, self._limits, self._environment = results, lanes, limits, environment

    def of_runs(self, load: LoadRun) -> Iterator[Work]:
        for run_id, state in self._results.runs():
            states = self._results.states(run_id)
            wanted = len(self._lanes) * self._limits.repeats
            settled = sum(1 for key, known in states.items() if self._is_wanted(key) and not self._is_open(known))
            if state == "listed" and settled >= self._results.askable(run_id) * wanted:
                continue
            try:
                recorded = load(run_id)
            except RecordingError as error:
                self._results.run_is(run_id, "missing", str(error))
                continue
            for name, effect in tool_effects(recorded).items():
                self._results.add_tool(name, effect)
            for step in model_steps(recorded):
                self._results.add_step(step)
                if isinstance(step, RecordedStep):
                    yield from self._asked(step, states)
            self._results.run_is(run_id, "listed")

    def _asked(self, step: RecordedStep, states: Mapping[tuple[int, str, int], str]) -> Iterator[Work]:
        for lane, candidate in self._lanes.items():
            repeats = [
                repeat
                for repeat in range(1, self._limits.repeats + 1)
                if self._is_open(states.get((step.step, lane, repeat), ""))
            ]
            keys = [CallKey(step.run_id, step.step, lane, repeat) for repeat in repeats]
            question = self._question(step, candidate, keys) if keys else None
            if question is not None:
                price = most_usd(step, question, candidate)
                for key in keys:
                    yield Work(key, candidate, question, price)

    def _question(self, step: RecordedStep, candidate: Candidate, keys: Sequence[CallKey]) -> Question | None:
        """Return what to send; None, and the reason in the results, where a change does not fit this very step."""
        try:
            return candidate.question(step, self._environment)
        except NoKey:
            raise
        except (ConfigurationError, CannotJudge) as error:
            for key in keys:
                self._results.intend(key, None)
                self._results.unanswered(key, f"not sent: {error}", in_doubt=False)
            return None

    def _is_wanted(self, key: tuple[int, str, int]) -> bool:
        return key[1] in self._lanes and key[2] <= self._limits.repeats

    def _is_open(self, state: str) -> bool:
        """Whether a question is to be asked: never sent, failed unpaid, or in doubt and wanted all the same."""
        return state in {"", "failed"} or (state == "in_doubt" and self._limits.again)


def tool_effects(recorded: RecordedRun) -> dict[str, SideEffect]:
    """Return the side effects of the tools that a run called, by name; of two the riskier counts."""
    found: dict[str, SideEffect] = {}
    order = list(SideEffect)
    for item in recorded.spans:
        node = item.node
        if node is not None and node.kind is Kind.TOOL:
            called = item.span.attributes.get(semconv.TOOL_NAME)
            for name in {node.name, called if isinstance(called, str) else node.name}:
                found[name] = max(found.get(name, SideEffect.NONE), node.side_effect, key=order.index)
    return found

"""Many answers asked again, beside the recorded ones: how often they agree, where, and with what at stake. Pure.

Steps come in, run by run and in order; only counts and the current run stay in memory. Each question was put with the
recorded context, so what a model answers after its first disagreement in a run is an answer to a conversation that
it would not have had: those steps are counted apart, as beyond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_agent_replay.compare.action_difference import AGREEING, ActionComparison, ActionMatch, compare_actions
from otel_agent_replay.compare.actions import Action, ActionKind
from otel_agent_replay.model import SideEffect, Word

NO_TOOL = "no tool"
_REASONS, _TOLD = 50, 120
RISKS = (*map(str, reversed(SideEffect)), NO_TOOL)
"""What is at stake, the worst first: the side effect of the riskiest tool that either answer calls."""


class StepVerdict(Word):
    """What the answers to one question say, taken together."""

    AGREES = "agrees"  # more than half of them take the agent the same way
    OTHER_WORDS = "other words"  # so they do, in other words
    DIFFERS = "differs"
    NO_ANSWER = "no answer"  # none of them is an answer


@dataclass(frozen=True, slots=True)
class ScreenedStep:
    """One question: what was recorded, and what was answered in each lane, the lane that is judged first."""

    run_id: bytes
    step: int
    recorded: Action
    lanes: Mapping[str, Sequence[Action]]


@dataclass(slots=True)
class Tally:
    """Steps by verdict; `answers` of them in all, `agreeing` of which agree."""

    steps: int = 0
    agree: int = 0
    other_words: int = 0
    differ: int = 0
    no_answer: int = 0
    answers: int = 0
    agreeing: int = 0

    @property
    def agreement(self) -> float | None:
        """The share of the answered steps that agree, other words among them; None when none was answered."""
        answered = self.steps - self.no_answer
        return (self.agree + self.other_words) / answered if answered else None

    def add(self, judged: Judged) -> None:
        """Count a step."""
        self.steps += 1
        self.agree += judged.verdict is StepVerdict.AGREES
        self.other_words += judged.verdict is StepVerdict.OTHER_WORDS
        self.differ += judged.verdict is StepVerdict.DIFFERS
        self.no_answer += judged.verdict is StepVerdict.NO_ANSWER
        self.answers += judged.answers
        self.agreeing += judged.agreeing


@dataclass(frozen=True, slots=True)
class Judged:
    """One question in one lane. `typical` is the answer that stands for the others, and how it compares.

    `answers` leave out those that are none; `compared` has all. `risk` is one of RISKS.
    """

    verdict: StepVerdict
    answers: int
    agreeing: int
    risk: str
    compared: Sequence[ActionComparison] = ()
    typical: Action | None = None
    comparison: ActionComparison | None = None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A step where the judged lane differs. `noise`: the other lane differs there too (None: there is none)."""

    run_id: bytes
    step: int
    judged: Judged
    recorded: Action
    is_first: bool
    noise: bool | None


@dataclass(slots=True)
class Measured:
    """Sums over answers: tokens and cost of those that told them, and how long answers took. Nanoseconds, dollars."""

    answers: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    priced: int = 0
    latency_ns: int = 0
    timed: int = 0

    def add(self, action: Action) -> None:
        """Count an answer."""
        self.answers += 1
        self.input_tokens += action.input_tokens or 0
        self.output_tokens += action.output_tokens or 0
        if action.cost_usd is not None:
            self.cost_usd += action.cost_usd
            self.priced += 1
        if action.latency_ns is not None:
            self.latency_ns += action.latency_ns
            self.timed += 1


@dataclass(slots=True)
class LaneReport:
    """One lane against the recording. All but `beyond` and `measured` stops at each run's first disagreement.

    `matches` counts answers; `runs_whole` are runs all of whose steps were asked, answered and agree, `runs_differing`
    those with a disagreement; of the others nobody knows. `likeness` is the sum over `worded` answers in other words.
    """

    tally: Tally = field(default_factory=Tally)
    beyond: Tally = field(default_factory=Tally)
    by_tool: dict[str, Tally] = field(default_factory=dict)
    by_risk: dict[str, Tally] = field(default_factory=dict)
    matches: Counter[ActionMatch] = field(default_factory=Counter)
    measured: Measured = field(default_factory=Measured)
    runs: int = 0
    runs_whole: int = 0
    runs_differing: int = 0
    likeness: float = 0.0
    worded: int = 0


@dataclass(slots=True)
class ScreeningReport:
    """All lanes, and what was left out: steps that could not be asked, by reason.

    `lost` is what questions of the judged lane did not say that was recorded, with how many of them. `noise`
    counts first disagreements of the judged lane at steps where the other one differs too.
    """

    lanes: dict[str, LaneReport]
    recorded: Measured = field(default_factory=Measured)
    steps: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    noise: int = 0


class _RunSoFar:
    """What one lane did in the run that is being added."""

    def __init__(self) -> None:
        self.differs = False
        self.whole = True


class Screening:
    """Counts steps as they are added. `effects` are the side effects of tools by name; unknown tools are external.

    `lanes` names the lanes, the judged one first; other words agree from a likeness of `text_likeness` on.
    """

    def __init__(self, lanes: Sequence[str], effects: Mapping[str, SideEffect], *, text_likeness: float = 0.0) -> None:
        self.report = ScreeningReport({lane: LaneReport() for lane in lanes})
        self._effects = effects
        self._text_likeness = text_likeness
        self._run_id: bytes | None = None
        self._so_far: dict[str, _RunSoFar] = {}

    def add(self, step: ScreenedStep) -> Disagreement | None:
        """Count a step; return it where the judged lane disagrees. Steps of a run come together and in order."""
        self._enter(step.run_id)
        self.report.steps += 1
        self.report.recorded.add(step.recorded)
        judged = {lane: self.judge(step.recorded, step.lanes.get(lane, ())) for lane in self.report.lanes}
        was_beyond = {lane: so_far.differs for lane, so_far in self._so_far.items()}
        for lane, found in judged.items():
            self._count(lane, step, found)
        first = next(iter(judged))
        if judged[first].verdict is not StepVerdict.DIFFERS:
            return None
        others = [found.verdict is StepVerdict.DIFFERS for lane, found in judged.items() if lane != first]
        is_first = not was_beyond[first]
        self.report.noise += is_first and any(others)
        return Disagreement(
            step.run_id, step.step, judged[first], step.recorded, is_first, any(others) if others else None
        )

    def skip(self, run_id: bytes, reason: str) -> None:
        """Count a step that could not be asked: its run is then not known whole."""
        self._enter(run_id)
        self.report.skipped[reason] += 1
        for so_far in self._so_far.values():
            so_far.whole = False

    def lose(self, what: str) -> None:
        """Count something that a question did not say, because another protocol has no word for it."""
        _count_bounded(self.report.lost, what)

    def finish(self) -> ScreeningReport:
        """Return the report."""
        self._leave()
        return self.report

    def judge(self, recorded: Action, asked: Sequence[Action]) -> Judged:
        """Return what the answers to one question say of it, taken together."""
        compared = [(action, compare_actions(recorded, action)) for action in asked]
        told = [(action, found) for action, found in compared if found.match is not ActionMatch.NO_ANSWER]
        risk = self._risk([recorded, *(action for action, _ in told)])
        if not told:
            return Judged(StepVerdict.NO_ANSWER, 0, 0, risk, [found for _, found in compared])
        agreeing = [pair for pair in told if pair[1].agrees(self._text_likeness)]
        differing = [pair for pair in told if not pair[1].agrees(self._text_likeness)]
        agrees = len(agreeing) * 2 > len(told)
        winning = agreeing if agrees else differing
        action, found = _typical(winning)
        verdict = StepVerdict.DIFFERS
        if agrees:
            verdict = StepVerdict.OTHER_WORDS if found.match is ActionMatch.OTHER_WORDS else StepVerdict.AGREES
        return Judged(verdict, len(told), len(agreeing), risk, [one for _, one in compared], action, found)

    def _count(self, lane: str, step: ScreenedStep, judged: Judged) -> None:
        report, so_far = self.report.lanes[lane], self._so_far[lane]
        asked = step.lanes.get(lane, ())
        for action in asked:
            if action.kind is ActionKind.NONE:
                _count_bounded(self.report.unanswered, action.error)
            else:
                report.measured.add(action)
        if so_far.differs:
            report.beyond.add(judged)
            return
        report.tally.add(judged)
        for name in sorted(set(step.recorded.tools)) or [f"({step.recorded.kind})"]:
            report.by_tool.setdefault(name, Tally()).add(judged)
        report.by_risk.setdefault(judged.risk, Tally()).add(judged)
        for found in judged.compared:
            report.matches[found.match] += 1
            if found.match is ActionMatch.OTHER_WORDS:
                report.likeness += found.likeness or 0.0
                report.worded += 1
        so_far.differs = judged.verdict is StepVerdict.DIFFERS
        so_far.whole = so_far.whole and judged.verdict in {StepVerdict.AGREES, StepVerdict.OTHER_WORDS}

    def _risk(self, actions: Sequence[Action]) -> str:
        effects = [str(self._effects.get(name, SideEffect.EXTERNAL)) for action in actions for name in action.tools]
        return min(effects, key=RISKS.index, default=NO_TOOL)

    def _enter(self, run_id: bytes) -> None:
        if run_id != self._run_id:
            self._leave()
            self._run_id = run_id
            self._so_far = {lane: _RunSoFar() for lane in self.report.lanes}

    def _leave(self) -> None:
        for lane, so_far in self._so_far.items():
            report = self.report.lanes[lane]
            report.runs += 1
            report.runs_differing += so_far.differs
            report.runs_whole += so_far.whole and not so_far.differs
        self._run_id, self._so_far = None, {}


def _count_bounded(counts: Counter[str], why: str) -> None:
    """Count a reason; providers put ids into their words, so only so many are told apart."""
    told = why[:_TOLD]
    counts[told if told in counts or len(counts) < _REASONS else "further reasons"] += 1


def _typical(pairs: Sequence[tuple[Action, ActionComparison]]) -> tuple[Action, ActionComparison]:
    """Return the answer that was given most often, of several such the first."""
    counts = Counter(action.key for action, _ in pairs)
    return max(pairs, key=lambda pair: (counts[pair[0].key], pair[1].match in AGREEING))


@dataclass(frozen=True, slots=True)
class DistinctAction:
    """An action that was answered `count` times; `first` of them stands for all."""

    first: Action
    comparison: ActionComparison
    count: int


def distinct_actions(recorded: Action, asked: Sequence[Action]) -> list[DistinctAction]:
    """Return the distinct actions among answers to the same question, the most frequent first."""
    groups: dict[object, list[Action]] = {}
    for action in asked:
        groups.setdefault(action.key, []).append(action)
    found = [DistinctAction(group[0], compare_actions(recorded, group[0]), len(group)) for group in groups.values()]
    return sorted(found, key=lambda one: -one.count)

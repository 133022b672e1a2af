"""Two cohorts case by case: what of each run and of each pair is kept, and what all of them come to. Pure data.

A case is one input with its runs on side A, on side B and, where there is one, in the baseline lane (the old version
run again: the noise floor). Only these small summaries stay in memory, never a pair's rows. How they are made of runs
is `case_summary`'s business, what is computed from them `metrics`'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_agent_replay.compare.comparison import Verdict
from otel_agent_replay.compare.departure import Cause
from otel_agent_replay.model import Word


@dataclass(frozen=True, slots=True)
class LaneRun:
    """One run in a few facts. Nanoseconds, US dollars; None where no model call told.

    `tool_path` names the tools in the order in which they were called. `answers` counts by answer source what a replay
    asks of recordings ((): it is no replay); `effects` counts writes and external effects by `effect tool`.
    `invariants` are None where the recording does not say.
    """

    run_id: bytes
    status: str
    tool_path: tuple[str, ...] = ()
    steps: int = 0
    model_calls: int = 0
    refusals: int = 0
    errors: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_ns: int | None = None
    answers: tuple[tuple[str, int], ...] = ()
    effects: tuple[tuple[str, int], ...] = ()
    invariants: tuple[tuple[str, bool | None], ...] = ()

    @property
    def off_tape(self) -> float | None:
        """Share (0 to 1) of what is asked of recordings that the run's own did not answer; None for nothing asked."""
        total = sum(count for _, count in self.answers)
        return 1 - dict(self.answers).get("tape", 0) / total if total else None


@dataclass(frozen=True, slots=True)
class PairSummary:
    """One comparison in a few facts. `by_digest`: equal throughout by digests, so nothing was aligned.

    `argument_changes` counts by tool the paired calls whose arguments differ. `departure_step` is A's where it has
    one. `changed_steps` are A's steps that changed (and whether they are gone), `added` counts
    changes that only B has. `judged` is a judge's word on final answers (None: nobody said), `judge_said` what.
    """

    verdict: Verdict
    sentence: str = ""
    cause: Cause | None = None
    departure_step: int | None = None
    departure_at: str = ""
    changes: int = 0
    similarity: float = 1.0
    by_digest: bool = False
    tool_path_changed: bool = False
    argument_changes: tuple[tuple[str, int], ...] = ()
    changed_steps: tuple[tuple[int, bool], ...] = ()
    added: int = 0
    judged: bool | None = None
    judge_said: str = ""

    @property
    def is_same(self) -> bool:
        """Whether nothing of substance differs."""
        return self.verdict in (Verdict.IDENTICAL, Verdict.REORDERED)


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One case: its runs on both sides and in the baseline lane, and how each of them compares with A's first run.

    `key` names the case and sorts it; `weight` is how many cases of the population it stands for. `a_pairs` are A's
    further runs beside its first.
    """

    key: str
    a: Sequence[LaneRun]
    b: Sequence[LaneRun]
    pairs: Sequence[PairSummary]
    baseline: Sequence[LaneRun] = ()
    baseline_pairs: Sequence[PairSummary] = ()
    a_pairs: Sequence[PairSummary] = ()
    weight: float = 1.0

    @property
    def differs(self) -> bool:
        """Whether any pair is not the same."""
        return not all(pair.is_same for pair in self.pairs)


class Judgement(Word):
    """What may be said of one metric."""

    DIFFERENT = "different"  # beyond chance after correction for all metrics, and beyond the baseline lane
    WITHIN_NOISE = "within noise"  # beyond chance, but the old version run again does it too
    NOT_SEEN = "no difference seen"  # one of the size of `smallest_effect` would have been
    NOT_ENOUGH = "not enough data"  # no outcome of this many cases could have been significant
    DESCRIBED = "described"  # there is no test of it here, or no baseline lane to hold it against


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric over the cohort: means over cases (weighted), each case a mean over its repeats.

    `difference` is B minus A; with a baseline lane it is tested and bounded against that lane (`against` says which).
    `low` and `high` are the bootstrap interval of it. `p` is of a paired test, `p_adjusted` after Holm's correction;
    None where nothing was tested. `smallest_effect` is the difference that would have been seen four times out of five.
    `cases` have a value on both sides. `noise` is baseline minus A.
    """

    name: str
    unit: str
    cases: int
    a: float | None
    b: float | None
    difference: float | None
    low: float | None
    high: float | None
    judgement: Judgement
    test: str = ""
    p: float | None = None
    p_adjusted: float | None = None
    smallest_effect: float | None = None
    against: str = "a"
    baseline: float | None = None
    noise: float | None = None


@dataclass(frozen=True, slots=True)
class ShareOf:
    """How often something was, on each side: counts, and shares (0 to 1, weighted) of all that were counted there."""

    name: str
    a: int
    b: int
    share_a: float
    share_b: float
    baseline: int = 0
    share_baseline: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """Of one tool: calls of A's runs, and how many of them have other arguments in B and in the baseline lane."""

    tool: str
    calls: int
    changed: int
    baseline_changed: int = 0


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Runs that no pair was found for."""

    a: int = 0
    b: int = 0
    baseline: int = 0


class CohortVerdict(Word):
    """What a comparison of cohorts comes to."""

    SAME = "no difference beyond noise"
    DIFFERENT = "different"
    CANNOT_JUDGE = "not enough data"

    @property
    def exit_code(self) -> int:
        """The exit code of a command."""
        return {"SAME": 0, "DIFFERENT": 1}.get(self.name, 125)


@dataclass(frozen=True, slots=True)
class CohortComparison:
    """Everything about two cohorts. `a`, `b` and `baseline` say what the sides are ("": no baseline lane).

    `cases` come in the order of their keys. `verdicts` and `causes` count pairs of B with A, `baseline_verdicts` those
    of the baseline lane; `by_digest` of all pairs were decided without being aligned. `notes` are sentences that belong
    before any claim. `drawn` says how the cohort was drawn, where its file tells.
    """

    a: str
    b: str
    baseline: str
    verdict: CohortVerdict
    sentence: str
    cases: Sequence[CaseRow]
    unpaired: Unpaired
    metrics: Sequence[MetricResult]
    tool_paths: Sequence[ShareOf]
    arguments: Sequence[ToolArguments]
    answer_sources: Sequence[ShareOf]
    effects: Sequence[ShareOf]
    verdicts: Mapping[str, int]
    baseline_verdicts: Mapping[str, int]
    causes: Mapping[str, int]
    notes: Sequence[str] = ()
    alpha: float = 0.05
    seed: str = ""
    by_digest: int = 0
    drawn: Mapping[str, object] = field(default_factory=dict)

"""`compare(a, b)`: two recorded runs in, everything that can be said about their difference out.

Pure: no storage, no tracing, no clock. `compare(b, a)` is the mirror of `compare(a, b)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from otel_agent_replay.compare.by_hand import StepPair, told, with_hints
from otel_agent_replay.compare.change_list import Sides, list_changes
from otel_agent_replay.compare.changes import Change, Reordered, TimingOnly
from otel_agent_replay.compare.consequences import follow
from otel_agent_replay.compare.departure import Cause, Departure, find_departure
from otel_agent_replay.compare.fingerprint import Interner, Payloads, keys_of
from otel_agent_replay.compare.measures import Measures, NodeMeasures, measure_nodes, measure_runs
from otel_agent_replay.compare.model_forms import differ_in_form
from otel_agent_replay.compare.node_changes import PairComparer
from otel_agent_replay.compare.notices import Notice, notice_of_forms, notice_of_work, notices_of
from otel_agent_replay.compare.on_demand import OnDemand
from otel_agent_replay.compare.questions import Question, answer_questions
from otel_agent_replay.compare.rows import Row, merge_rows
from otel_agent_replay.compare.sentence import verdict_sentence
from otel_agent_replay.compare.substance import RunSubstance
from otel_agent_replay.compare.tree import build_tree
from otel_agent_replay.compare.tree_alignment import Alignment, align_trees
from otel_agent_replay.model import RecordedRun, Run, Word

SIMILARITY_FLOOR = 0.25
"""Below this share of paired nodes no cause is named: the runs are too different."""


class Verdict(Word):
    """What a comparison comes to."""

    IDENTICAL = "identical"  # nothing of substance differs, and nothing is in another order
    REORDERED = "reordered"  # only the order of concurrent steps differs
    DIFFERENT = "different"
    NOT_COMPARABLE = "not comparable"  # from the departure on nothing can be said


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the pairing carries: nodes of each run, how many were paired, and their share of all (0 to 1)."""

    nodes_a: int
    nodes_b: int
    paired: int
    unobserved: int

    @property
    def similarity(self) -> float:
        """Paired nodes as a share of all that could be paired."""
        total = self.nodes_a + self.nodes_b - self.unobserved
        return 2 * self.paired / total if total else 1.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of two runs. A is the base of every relative number.

    `notices` (what was lost or not looked at) come before any claim. `changes` are what counts, in the order in
    which it happened; `reordered`, `timing` and `volatile` (name to count) do not count. `questions`, `nodes` and
    `rows` are made when they are looked at.
    """

    a: Run
    b: Run
    verdict: Verdict
    sentence: str
    notices: Sequence[Notice]
    questions: Sequence[Question]
    changes: Sequence[Change]
    departure: Departure | None
    reordered: Sequence[Reordered]
    timing: Sequence[TimingOnly]
    volatile: Mapping[str, int]
    totals: Measures
    nodes: Sequence[NodeMeasures]
    rows: Sequence[Row]
    alignment: Alignment
    trust: Trust


def compare(a: RecordedRun, b: RecordedRun, *, by_hand: Sequence[StepPair] = ()) -> Comparison:
    """Compare run B against run A. Never raises for what a recording lacks: it is said in `notices`.

    `by_hand` are steps of A and of B that belong together, as a person says.
    """
    in_one_form = differ_in_form(a, b)
    substance_a, substance_b = RunSubstance(a, in_one_form=in_one_form), RunSubstance(b, in_one_form=in_one_form)
    tree_a, tree_b = build_tree(a), build_tree(b)
    payloads_a, payloads_b, intern = Payloads.of(tree_a), Payloads.of(tree_b), Interner()
    shared = payloads_a.shared(payloads_b)
    keys_a = keys_of(tree_a, payloads_a, substance_a, shared, intern)
    keys_b = keys_of(tree_b, payloads_b, substance_b, shared, intern)
    keys_a, keys_b = with_hints(tree_a, keys_a, tree_b, keys_b, by_hand, intern)
    alignment, hinted = told(align_trees(tree_a, keys_a, tree_b, keys_b), tree_a, tree_b, by_hand)
    sides = Sides.of(tree_a, tree_b, alignment)
    comparer = PairComparer(substance_a, substance_b)
    changes = list_changes(sides, comparer, a_first=keys_a.digest <= keys_b.digest)
    consequences = follow(changes.placed, sides, substance_a, substance_b)
    hidden = len(alignment.unobserved_a) + len(alignment.unobserved_b)
    trust = Trust(len(tree_a.nodes), len(tree_b.nodes), len(alignment.pairs), hidden)
    departure = _doubted(find_departure(a, b, changes.placed, sides, consequences), trust)
    if departure is None:
        verdict = Verdict.REORDERED if changes.reordered else Verdict.IDENTICAL
    else:
        verdict = Verdict.DIFFERENT if departure.cause.is_comparable else Verdict.NOT_COMPARABLE
    volatile = dict(sorted(comparer.volatile.items()))
    return Comparison(
        a=a.run,
        b=b.run,
        verdict=verdict,
        sentence=verdict_sentence(departure, len(changes.reordered), volatile, len(alignment.pairs)),
        notices=[
            *notices_of(a, b, sides, substance_a, substance_b),
            *hinted,
            *notice_of_forms(in_one_form),
            *notice_of_work(changes.placed),
        ],
        questions=OnDemand(lambda: answer_questions(a, b, sides, changes.placed)),
        changes=[placed.change for placed in changes.placed],
        departure=departure,
        reordered=changes.reordered,
        timing=changes.timing,
        volatile=volatile,
        totals=measure_runs(tree_a, tree_b),
        nodes=OnDemand(lambda: measure_nodes(sides)),
        rows=OnDemand(lambda: merge_rows(sides, changes)),
        alignment=alignment,
        trust=trust,
    )


def _doubted(departure: Departure | None, trust: Trust) -> Departure | None:
    """Withdraw the cause where two runs have little in common; what was seen at the first difference stays evidence."""
    if departure is None or trust.similarity >= SIMILARITY_FLOOR or not departure.cause.is_comparable:
        return departure
    why = f"the runs are too different to name a cause: {trust.similarity:.0%} of their nodes could be paired"
    return replace(departure, cause=Cause.UNKNOWN, evidence=[why, *departure.evidence], too_different=True)

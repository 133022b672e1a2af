"""What changed between two recorded runs: pure data in, frozen dataclasses out.

Never touches storage or tracing. Whether a change may ship is not decided here.
"""

from otel_agent_replay.compare.changes import (
    Added,
    Change,
    Changed,
    Field,
    FieldChange,
    Moved,
    NodeRef,
    Removed,
    Reordered,
    TimingOnly,
)
from otel_agent_replay.compare.comparison import Comparison, Trust, Verdict, compare
from otel_agent_replay.compare.consequences import Basis, Consequence
from otel_agent_replay.compare.departure import Cause, Departure
from otel_agent_replay.compare.expected import expected_change
from otel_agent_replay.compare.explanation import explain, final_answer
from otel_agent_replay.compare.measures import Measure, Measures, NodeMeasures
from otel_agent_replay.compare.notices import Notice
from otel_agent_replay.compare.questions import Asked, Question, Reply
from otel_agent_replay.compare.risk import RankedChange, RiskRule, rank_changes, risk_rules
from otel_agent_replay.compare.rows import Mark, Row
from otel_agent_replay.compare.text_facts import FactDifference, FactKind, TextComparison, compare_texts
from otel_agent_replay.compare.tree_alignment import Alignment, Pair, Rule
from otel_agent_replay.compare.walk import Hop, HopBasis, Walk, WalkEnd

__all__ = [
    "Added",
    "Alignment",
    "Asked",
    "Basis",
    "Cause",
    "Change",
    "Changed",
    "Comparison",
    "Consequence",
    "Departure",
    "FactDifference",
    "FactKind",
    "Field",
    "FieldChange",
    "Hop",
    "HopBasis",
    "Mark",
    "Measure",
    "Measures",
    "Moved",
    "NodeMeasures",
    "NodeRef",
    "Notice",
    "Pair",
    "Question",
    "RankedChange",
    "Removed",
    "Reordered",
    "Reply",
    "RiskRule",
    "Row",
    "Rule",
    "TextComparison",
    "TimingOnly",
    "Trust",
    "Verdict",
    "Walk",
    "WalkEnd",
    "compare",
    "compare_texts",
    "expected_change",
    "explain",
    "final_answer",
    "rank_changes",
    "risk_rules",
]

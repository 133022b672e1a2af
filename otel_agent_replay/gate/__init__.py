"""What must hold of a run, and what is said of runs that break it: cases, invariants, mutants.

Pure: recorded runs and a case's document in, frozen data out. Never touches storage or tracing.
"""

from otel_agent_replay.gate.case import Case, CaseKind
from otel_agent_replay.gate.invariants import Rows, check
from otel_agent_replay.gate.pattern import CallPattern
from otel_agent_replay.gate.result import Evidence, InvariantResult, State
from otel_agent_replay.gate.stated import (
    AtMostOnce,
    Budget,
    Citation,
    Expected,
    Invariant,
    ObjectId,
    Only,
    Order,
    Query,
    Refusal,
    Rule,
)

__all__ = [
    "AtMostOnce",
    "Budget",
    "CallPattern",
    "Case",
    "CaseKind",
    "Citation",
    "Evidence",
    "Expected",
    "Invariant",
    "InvariantResult",
    "ObjectId",
    "Only",
    "Order",
    "Query",
    "Refusal",
    "Rows",
    "Rule",
    "State",
    "check",
]

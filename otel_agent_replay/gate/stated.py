"""What a case may state: the forms of invariants, each with what it takes. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay.casefile.transitions import Transitions
from otel_agent_replay.gate.pattern import CallPattern
from otel_agent_replay.model import Word
from otel_agent_replay.payload.canonical import canonical_json


class Rule(Word):
    """Every form of invariant, by its key in `case.yaml`."""

    OUTCOME = "outcome"
    ERROR = "error"
    RESULT = "result"
    FINAL_STATE = "final_state"
    TRANSITIONS = "transitions"
    MUST_CALL = "must_call"
    MUST_NOT_CALL = "must_not_call"
    ORDER = "order"
    AT_MOST_ONCE = "at_most_once"
    ONLY = "only"
    OBJECT_ID = "object_id"
    MUST_CITE = "must_cite"
    MUST_REFUSE = "must_refuse"
    BUDGET = "budget"
    SQL = "sql"


@dataclass(frozen=True, slots=True)
class Expected:
    """A value that must come out: of `outcome` and `error` a text, of `result` and `final_state` what it must hold."""

    value: Any
    transitions: Transitions = field(default_factory=Transitions)


@dataclass(frozen=True, slots=True)
class Order:
    """Two calls or more: none of one begins before the one listed before it has ended."""

    calls: Sequence[CallPattern]


@dataclass(frozen=True, slots=True)
class AtMostOnce:
    """Calls made at most once for the same arguments; `call` None: every effect of the run."""

    call: CallPattern | None = None


@dataclass(frozen=True, slots=True)
class Only:
    """The effects that may happen: no other may."""

    calls: Sequence[CallPattern] = ()


@dataclass(frozen=True, slots=True)
class ObjectId:
    """Every such call names exactly this object at `path` of its arguments: `equals`, or what the input has there."""

    call: CallPattern
    path: str
    equals: Any = None
    same_as: str = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that the final answer must name; `retrieved`: and that the run must have read before."""

    source: str
    retrieved: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """The run makes no effect and ends in a refusal; `says` is a regular expression its final answer must fit."""

    says: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """A ceiling: `measure` is tokens, input_tokens, output_tokens, cost_usd, steps, model_calls or seconds."""

    measure: str
    most: float


@dataclass(frozen=True, slots=True)
class Query:
    """SQL over the views of the run that must return no row."""

    sql: str


Spec = Expected | Transitions | CallPattern | Order | AtMostOnce | Only | ObjectId | Citation | Refusal | Budget | Query


@dataclass(frozen=True, slots=True)
class Invariant:
    """One thing that must hold. `name` is unique in its case and stays the same while what it says does."""

    name: str
    rule: Rule
    spec: Spec
    why: str = ""
    given: Any = None
    """What `case.yaml` says of it, as plain values: what its digest is made of."""

    @property
    def content(self) -> bytes:
        """What it says, in canonical form; its name and reason are no part of it."""
        given = self.given
        if isinstance(given, Mapping):
            given = {key: value for key, value in given.items() if key not in ("name", "why")}
        return canonical_json({self.rule.value: given})

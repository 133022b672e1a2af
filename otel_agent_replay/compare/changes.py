"""What can differ between two runs, as typed data, in the order in which it happened.

Owns the list of kinds of changes and of fields. How a change came about is `departure`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.tree import Tree
from otel_agent_replay.compare.tree_alignment import Rule
from otel_agent_replay.model import Kind, Word
from otel_agent_replay.payload.difference import Difference


class Field(Word):
    """A part of a node that may differ."""

    NAME = "name"
    MODEL = "model"  # the model asked for
    PARAMETERS = "parameters"  # temperature, limits, stream ...
    TOOLS = "tools offered"
    INSTRUCTIONS = "instructions"  # system and developer messages
    MESSAGES = "messages"
    ENDPOINT = "endpoint"  # method, URL, meaningful headers
    REQUEST = "request"  # arguments, state, a body
    SIDE_EFFECT = "side effect"
    ENVIRONMENT = "environment"  # variables the code read
    STATUS = "status"
    FAILURE = "failure"
    TEXT = "text"  # what the model said
    TOOL_CALLS = "tool calls"  # what the model asked for
    FINISH_REASON = "finish reason"
    ANSWERING_MODEL = "answering model"
    RESULT = "result"

    @property
    def is_request(self) -> bool:
        """Whether it is known when the node begins."""
        return self in _REQUEST_FIELDS


_REQUEST_FIELDS = frozenset(
    {
        Field.NAME,
        Field.MODEL,
        Field.PARAMETERS,
        Field.TOOLS,
        Field.INSTRUCTIONS,
        Field.MESSAGES,
        Field.ENDPOINT,
        Field.REQUEST,
        Field.SIDE_EFFECT,
    }
)


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A node of one of the runs. `index` is its place in preorder; `kind` is "span" for another library's span.

    `source` is where a crossing's answer came from (an answer source), "" for what is no crossing.
    """

    index: int
    path: tuple[str, ...]
    step: int | None
    kind: str
    name: str
    span_id: bytes
    source: str = ""

    @property
    def title(self) -> str:
        """For example `step 7 · tool search`."""
        if self.kind == Kind.RUN.value:
            return f"the run {self.name}".rstrip()
        what = f"{self.kind} {self.name}"
        return what if self.step is None else f"step {self.step} · {what}"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that differs, at one place or more (`payload.difference.MISSING` on a side that has nothing there).

    `complete` is False when more places differ than are listed.
    `by_digest` tells that the content was not kept: only that it differs is known.
    """

    field: Field
    differences: Sequence[Difference]
    complete: bool = True
    by_digest: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """A step that only run B has; `below` more hang under it. `wraps`: steps of A go on inside it."""

    b: NodeRef
    below: int = 0
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """A step that only run A has."""

    a: NodeRef
    below: int = 0
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """One step of both runs of which something differs. `rule` says why the two were taken for one."""

    a: NodeRef
    b: NodeRef
    fields: Sequence[FieldChange]
    rule: Rule


@dataclass(frozen=True, slots=True)
class Moved:
    """The same step at another place: under another parent, or before instead of after a step it did not overlap."""

    a: NodeRef
    b: NodeRef


@dataclass(frozen=True, slots=True)
class Reordered:
    """The same step in another order among steps that ran at the same time: no change of substance."""

    a: NodeRef
    b: NodeRef


@dataclass(frozen=True, slots=True)
class TimingOnly:
    """Equal steps whose durations (nanoseconds) differ beyond the tolerance: no change of substance."""

    a: NodeRef
    b: NodeRef
    before_ns: int
    after_ns: int


Change = Added | Removed | Changed | Moved
"""What counts as a difference."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A change with its moment: how many events of paired steps went before it, in the run where that is less."""

    change: Change
    moment: int


def reference(tree: Tree, index: int) -> NodeRef:
    """Return the reference to a node of `tree`."""
    recorded = tree.nodes[index].recorded
    if recorded is None:
        return NodeRef(index, (), None, Kind.RUN.value, "", b"")
    node, span = recorded.node, recorded.span
    if node is None:
        return NodeRef(index, (), None, "span", span.name, span.span_id)
    source = node.source.value if node.kind.is_crossing else ""
    return NodeRef(index, node.path, node.step, node.kind.value, node.name, span.span_id, source)

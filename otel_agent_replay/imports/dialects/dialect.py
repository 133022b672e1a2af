"""What a dialect is: a table that says where an instrumentation puts what. Data, no code.

A **source** is a text that names a place on a span:

    llm.model_name                    the attribute of that key
    llm.input_messages.*              all attributes below that key, put together: numbers are places in a list
    langfuse.usage_details::input     a member of the attribute's JSON, `::` again for each level
    @input, @output                   the messages that the span's events tell (see `span_events`)
    @name                             the span's name

Of several sources the first that tells something counts. A sign is a source of the first two kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_agent_replay.model import Fidelity, Kind

Sources = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One instrumentation's way of writing spans.

    A span speaks it when the name of its scope or of itself begins with one of `scopes` or `span_names`, or one of
    `signs` is there. `kinds` is looked up by the values of `kind_sources` (lower case, then the part before a space);
    where those tell nothing, the first sign of `kinds_by_sign` that is there decides. A span whose value is among
    `wrappers` stands around the calls below it: it is one itself only where there is none.

    A scope with one tool's message at `tool_message` is that tool: some frameworks' tools are known by nothing else.
    `request` and `response` may hold a provider's own JSON. The answer is `messages_out`, or is put together from
    `answer_text`, `answer_calls` and `answer_reasoning`. `facts` maps an attribute of ours to its sources.
    """

    name: str
    title: str
    scopes: tuple[str, ...] = ()
    span_names: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    kind_sources: Sources = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    kinds_by_sign: Mapping[str, Kind] = field(default_factory=dict)
    wrappers: frozenset[str] = frozenset()
    request: Sources = ()
    response: Sources = ()
    system: Sources = ()
    messages_in: Sources = ()
    messages_out: Sources = ()
    answer_text: Sources = ()
    answer_calls: Sources = ()
    answer_reasoning: Sources = ()
    tools: Sources = ()
    tool_name: Sources = ()
    tool_call_id: Sources = ()
    tool_arguments: Sources = ()
    tool_result: Sources = ()
    tool_message: Sources = ()
    query: Sources = ()
    documents: Sources = ()
    facts: Mapping[str, Sources] = field(default_factory=dict)
    thread: Sources = ()
    subject: Sources = ()

    @property
    def best(self) -> Fidelity:
        """The best fidelity that a model call in it can have."""
        if self.request and self.response:
            return Fidelity.EXCHANGE
        return Fidelity.MESSAGES if self.messages_in or self.messages_out else Fidelity.TEXT

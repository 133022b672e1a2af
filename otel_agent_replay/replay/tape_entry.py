"""What lies on a tape: recorded crossings, and ends of threads among them."""

from __future__ import annotations

from otel_agent_replay import semconv
from otel_agent_replay.model import Call, Kind, Node, Read

Path = tuple[str, ...]
"""A logical place, as in `Node.path`."""


class Entry:
    """One recorded crossing on the tape.

    `span` gives its recorded Unix nanoseconds (begin, end; 0 when unknown). `below` tells that it happened
    inside another crossing: when that one is answered from the tape, nobody asks for this one. `taken` tells
    that it was handed out. `step` is 0 when it has none, `key` its idempotency key. `begin_turn` and `end_turn` belong
    to `order`, `canonical` to `playback`.
    """

    # What each answer needs lies here too: a long tape is not near the processor, and each hop from object to object
    # is felt.
    __slots__ = (
        "begin_turn", "below", "call", "canonical", "end_turn", "key", "node", "outcome", "span", "step", "strand",
        "taken",
    )  # fmt: skip

    def __init__(self, node: Node, call: Call, span: tuple[int, int], below: bool) -> None:
        self.node = node
        self.call = call
        self.outcome = node.outcome
        self.step = node.step or 0
        self.key = call.idempotency_key
        self.strand = node.strand
        self.span = span
        self.below = below
        self.taken = False
        self.begin_turn = -1
        self.end_turn = -1
        self.canonical: bytes | None = None


class ThreadEnd:
    """The end of a thread or a pool's task, a put on a queue, a wait that was given up: `sequence` in the run's order.
    The rest is `order`'s.
    """

    __slots__ = ("begin_turn", "end_turn", "sequence", "span", "step", "strand")

    def __init__(self, read: Read) -> None:
        at = read.value if isinstance(read.value, int) else 0
        self.sequence = read.sequence
        self.strand = read.strand
        self.span = (at, at)
        self.step = 0
        self.begin_turn = -1
        self.end_turn = -1


def is_background_save(call: Call) -> bool:
    """Whether a call is a save of LangGraph's: it makes them in threads of its own, beside what its nodes do."""
    return call.kind is Kind.CHECKPOINT and semconv.LANGGRAPH_THREAD_ID in call.attributes

"""A run as it comes out of the lake: spans, the replay side of each, and its payloads on demand.

This is what playback, comparison and reports take in; none of them knows where it was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from otel_agent_replay.model.exchange import Call, Outcome
from otel_agent_replay.model.kinds import AnswerSource, Fidelity, Kind, SideEffect
from otel_agent_replay.model.loss import Loss
from otel_agent_replay.model.making import maker_of
from otel_agent_replay.model.payload import Payload
from otel_agent_replay.model.run import Attempt, Run
from otel_agent_replay.model.span import Span

CLIENT_STRAND = "client"
"""Strand of the environment reads kept so that a replay can build the same model clients: no agent made them."""


THREAD_END = "thread.end"
"""Name of the clock read that stands for the end of a thread or a pool's task: when it was done, in its strand."""

QUEUE_PUT = "queue.put"
"""Name of the clock read that stands for something put on a queue by a thread: when, in its strand."""

ORDER_MARKS = frozenset((THREAD_END, QUEUE_PUT))
"""Names of reads that give no value: what happened then has its place among the run's ends."""

WAIT = "wait."
"""How the names of clock reads begin that tell of a wait with a deadline: 0, what was waited for came; else when the
waiter gave up, in Unix nanoseconds, which has its place among the run's ends too."""

TIMER = WAIT + "timer "
"""How they go on for a timer of an event loop; its number in its thread of control follows. 0: it was cancelled."""

FUTURES_DONE = "futures.done"
"""Name of the clock read after a `wait.futures`: which of the futures were done, by their places, `0 2` say."""


class Read(NamedTuple):
    """One bulk read: a clock, a draw, an identifier, an environment variable.

    `name` is the function (`time.time`) or `os.environ[NAME]`; `strand` labels the thread of control inside
    the span ("" for the one that opened it). `value` is int, float, str, bytes or None (a missing variable);
    `masked` tells that redaction replaced it. A tuple, because it is made at every read: a frozen dataclass costs
    three times as much.
    """

    kind: Kind
    name: str
    value: int | float | str | bytes | None
    strand: str = ""
    sequence: int = 0
    masked: bool = False

    @property
    def has_turn(self) -> bool:
        """Whether what it tells of has its place among the run's ends."""
        return self.name in ORDER_MARKS or (self.name.startswith(WAIT) and self.value != 0)

    @property
    def shows_time(self) -> bool:
        """Whether it is what a clock showed to the code that made it."""
        told = self.name in ORDER_MARKS or self.name == FUTURES_DONE or self.name.startswith(WAIT)
        return self.kind is Kind.CLOCK and not told


@dataclass(frozen=True, slots=True)
class Node:
    """The replay side of a span of ours: where it lies in the run, what was asked, what came back.

    `run_id` is the run that recorded it: in a fork, what it shares with its origin carries the origin's.

    `path` is the logical place: one `kind:name#occurrence` part per ancestor, root first, itself last; ids and
    times have no part in it. `step` rises by one as steps begin (None for scopes); `sequence` and
    `end_sequence` order all begins and ends of the run (`end_sequence` 0: never ended), with gaps: up to two turns
    of an event loop after each end use up a number each, so that ends of one turn can be told from later ones.
    """

    run_id: bytes
    kind: Kind
    name: str
    path: tuple[str, ...]
    sequence: int
    end_sequence: int = 0
    step: int | None = None
    side_effect: SideEffect = SideEffect.NONE
    source: AnswerSource = AnswerSource.LIVE
    fidelity: Fidelity = Fidelity.WIRE
    call: Call | None = None
    outcome: Outcome | None = None
    reads: Sequence[Read] = ()
    strand: str = ""
    origin_step: int | None = None
    key_id: str = ""

    @property
    def parent_path(self) -> tuple[str, ...]:
        """The path of the node that contains this one."""
        return self.path[:-1]

    @property
    def occurrence(self) -> int:
        """Its number among the siblings of the same kind and name, from 0."""
        return int(self.path[-1].rpartition("#")[2])


make_node = maker_of(Node)
"""Makes a `Node` from the same arguments, quicker."""


@dataclass(frozen=True, slots=True)
class RecordedSpan:
    """A span with its replay side; `node` is None for a span that another instrumentation emitted."""

    span: Span
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A whole run. `spans` come in order of `sequence`, then start time.

    `payload(digest)` returns the bytes behind a digest, or None when they were never kept or are gone.
    Payload objects inside the nodes may come with `data` None until asked for through it. `attempts` are the goes at
    the run, in order, where that is known; `superseded` are spans of earlier attempts that a later one made again:
    they are history, not part of `spans`.
    """

    run: Run
    spans: Sequence[RecordedSpan]
    payload: Callable[[bytes], bytes | None]
    losses: Sequence[Loss] = field(default_factory=tuple)
    attempts: Sequence[Attempt] = ()
    superseded: Sequence[RecordedSpan] = ()

    @property
    def nodes(self) -> list[Node]:
        """The replay sides, in order."""
        return [recorded.node for recorded in self.spans if recorded.node is not None]

    @property
    def root(self) -> RecordedSpan | None:
        """The span of the run itself; None where its begin is not on record."""
        return next((one for one in self.spans if one.node is not None and one.node.kind is Kind.RUN), None)

    @property
    def input(self) -> Payload | None:
        """The arguments that the agent was called with, by name; None where they are not on record."""
        root = self.root
        return None if root is None or root.node is None or root.node.call is None else root.node.call.request

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None where that is not on record."""
        root = self.root
        return None if root is None or root.node is None else root.node.outcome

    def bytes_of(self, payload: Payload) -> bytes | None:
        """Return the bytes of a payload of a node, its own or those behind its digest; None where there are none."""
        return self.payload(payload.digest) if payload.data is None else payload.data

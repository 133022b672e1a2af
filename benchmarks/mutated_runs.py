"""Runs of an imaginary agent, and the same runs with known mutations: the truth of which node is which is kept.

A run is a root over steps; a step is a model call, then up to five tools, some of them side by side, with spans below
them, now and then a sub-agent with steps of its own. Labels are few, as in real runs, and loops look alike; what
tells calls apart is what they ask.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from otel_agent_replay.model import (
    Call,
    Kind,
    MediaType,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    RecordedRun,
    RecordedSpan,
    Run,
    RunStatus,
    SideEffect,
    Span,
)

TOOLS = ("search", "fetch_page", "read_file", "run_tests", "query_db", "send_mail")
BELOW = ("GET", "SELECT", "cache get", "embed")
MIDDLEWARE = ("middleware", "guard", "retry wrapper")


@dataclass
class Piece:
    """One node: `uid` stays the same through mutations; `side_by_side` children ran at the same time."""

    uid: int
    kind: Kind
    name: str
    asks: str = ""
    answers: str = ""
    side_by_side: bool = False
    children: list[Piece] = field(default_factory=list)

    def all(self) -> Iterator[Piece]:
        """Yield this node and all below it, in preorder."""
        yield self
        for child in self.children:
            yield from child.all()

    def copy(self) -> Piece:
        """Return a copy of the whole subtree."""
        return replace(self, children=[child.copy() for child in self.children])


@dataclass(frozen=True)
class Mutation:
    """One change that was made: its kind, and the nodes (uids) that it touched, in either run."""

    kind: str
    touched: frozenset[int]


class Maker:
    """Makes runs and mutates them, from one seed."""

    def __init__(self, seed: int, first: int = 0) -> None:
        """Nodes that are made get the uids after `first`."""
        self.random = random.Random(seed)
        self._made = first

    def run(self, nodes: int) -> Piece:
        """Return a run of about `nodes` nodes."""
        root = self._piece(Kind.RUN, "agent")
        while self._made < nodes:
            root.children.append(self._step(depth=0))
        return root

    def _piece(self, kind: Kind, name: str, asks: str = "", answers: str = "") -> Piece:
        self._made += 1
        return Piece(self._made, kind, name, asks, answers)

    def _step(self, depth: int) -> Piece:
        draw = self.random
        step = self._piece(Kind.SCOPE, "step")
        step.children.append(self.leaf(Kind.MODEL))
        tools = [self._tool(depth) for _ in range(draw.randint(0, 5))]
        if len(tools) > 1 and draw.random() < 0.6:
            together = self._piece(Kind.SCOPE, "tools")
            together.side_by_side, together.children = True, tools
            step.children.append(together)
        else:
            step.children += tools
        return step

    def _tool(self, depth: int) -> Piece:
        draw = self.random
        if depth < 2 and draw.random() < 0.06:
            agent = self._piece(Kind.SCOPE, f"agent {draw.choice(('researcher', 'coder'))}")
            agent.children = [self._step(depth + 1) for _ in range(draw.randint(1, 3))]
            return agent
        tool = self.leaf(Kind.TOOL)
        tool.children = [self.leaf(Kind.HTTP) for _ in range(draw.choice((0, 0, 1, 2)))]
        return tool

    def leaf(self, kind: Kind) -> Piece:
        """Return a new call: what it asks is one of few things for a tool, of many for a model."""
        draw = self.random
        if kind is Kind.MODEL:
            return self._piece(kind, "chat", f"question {draw.randrange(10**6)}", f"answer {draw.randrange(10**6)}")
        asked = draw.randrange(30)
        return self._piece(kind, draw.choice(TOOLS if kind is Kind.TOOL else BELOW), f"ask {asked}", f"result {asked}")

    # --- mutations: each returns None where it does not fit ---

    def mutate(self, root: Piece, kinds: tuple[str, ...], share: float) -> tuple[Piece, list[Mutation]]:
        """Return a mutated copy: as many mutations as `share` of the nodes, no node touched twice."""
        copy = root.copy()
        wanted = max(1, round(share * sum(1 for _ in root.all())))
        done: list[Mutation] = []
        touched: set[int] = {root.uid}
        for _ in range(wanted * 20):
            if len(done) == wanted:
                break
            kind = kinds[len(done) % len(kinds)]
            mutation = self._mutations[kind](self, copy, touched)
            if mutation is not None:
                done.append(Mutation(kind, mutation))
                touched |= mutation
        return copy, done

    def _place(self, root: Piece, touched: set[int]) -> tuple[Piece, int] | None:
        """Draw a node that nothing has touched, as its parent and its number among the siblings."""
        places = [(node, number) for node in root.all() for number in range(len(node.children))]
        parent, number = self.random.choice(places)
        return None if parent.children[number].uid in touched else (parent, number)

    def _insert(self, root: Piece, touched: set[int]) -> frozenset[int] | None:
        found = self._place(root, touched)
        if found is None:
            return None
        parent, number = found
        kind = parent.children[number].kind
        new = self._step(2) if kind is Kind.SCOPE and parent.children[number].name == "step" else None
        if new is None:
            new = self.leaf(kind if kind in (Kind.MODEL, Kind.TOOL, Kind.HTTP) else Kind.TOOL)
        parent.children.insert(number, new)
        return frozenset(node.uid for node in new.all())

    def _delete(self, root: Piece, touched: set[int]) -> frozenset[int] | None:
        found = self._place(root, touched)
        if found is None:
            return None
        gone = {node.uid for node in found[0].children[found[1]].all()}
        if gone & touched or len(gone) > 20:
            return None
        del found[0].children[found[1]]
        return frozenset(gone)

    def _payload(self, root: Piece, touched: set[int]) -> frozenset[int] | None:
        found = self._place(root, touched)
        node = None if found is None else found[0].children[found[1]]
        if node is None or node.kind is Kind.SCOPE:
            return None
        if self.random.random() < 0.5:
            node.asks += " altered"
        node.answers += f" {self.random.randrange(10**6)}"
        return frozenset({node.uid})

    def _wrap(self, root: Piece, touched: set[int]) -> frozenset[int] | None:
        found = self._place(root, touched)
        if found is None:
            return None
        parent, number = found
        until = min(len(parent.children), number + self.random.randint(1, 3))
        wrapper = self._piece(Kind.SCOPE, self.random.choice(MIDDLEWARE))
        wrapper.side_by_side = parent.side_by_side
        wrapper.children = parent.children[number:until]
        parent.children[number:until] = [wrapper]
        return frozenset({wrapper.uid})

    def _unwrap(self, root: Piece, touched: set[int]) -> frozenset[int] | None:
        found = self._place(root, touched)
        if found is None:
            return None
        parent, number = found
        gone = parent.children[number]
        if gone.kind is not Kind.SCOPE or gone.name == "step" or not gone.children:
            return None
        parent.children[number : number + 1] = gone.children
        return frozenset({gone.uid})

    def _reorder(self, root: Piece, touched: set[int]) -> frozenset[int] | None:
        groups = [node for node in root.all() if node.side_by_side and len(node.children) > 1]
        if not groups:
            return None
        group = self.random.choice(groups).children
        number = self.random.randrange(len(group) - 1)
        one, other = group[number], group[number + 1]
        alike = (one.kind, one.name, one.asks) == (other.kind, other.name, other.asks)
        if alike or {one.uid, other.uid} & touched:
            return None
        group[number], group[number + 1] = other, one
        return frozenset({one.uid, other.uid})

    def _rename(self, root: Piece, touched: set[int]) -> frozenset[int] | None:
        found = self._place(root, touched)
        node = None if found is None else found[0].children[found[1]]
        if node is None or node.kind is not Kind.TOOL:
            return None
        node.name += "_v2"
        return frozenset({node.uid})

    _mutations: dict[str, Callable[[Maker, Piece, set[int]], frozenset[int] | None]] = {
        "insert": _insert,
        "delete": _delete,
        "payload": _payload,
        "wrap": _wrap,
        "unwrap": _unwrap,
        "reorder": _reorder,
        "rename": _rename,
    }


def recorded(root: Piece, seed: int) -> RecordedRun:
    """Return the run as it would come out of a lake; a span's id is the uid of its node."""
    spans: list[RecordedSpan] = []
    clock = iter(range(1, 10**9))
    run_id = seed.to_bytes(16, "big")
    started = 10**18 + seed * 10**13

    def payload(text: str) -> Payload:
        return Payload.of(json.dumps(text).encode(), MediaType.JSON.value)

    def begin(piece: Piece, path: tuple[str, ...], parent: bytes, number: int) -> Callable[[], None]:
        sequence = next(clock)
        node = Node(
            run_id,
            piece.kind,
            piece.name,
            (*path, f"{piece.kind}:{piece.name}#{number}"),
            sequence,
            step=sequence,
            side_effect=SideEffect.READ if piece.asks else SideEffect.NONE,
            call=Call(piece.kind, piece.name, SideEffect.READ, payload(piece.asks)) if piece.asks else None,
            outcome=Outcome(OutcomeStatus.OK, payload(piece.answers)) if piece.answers else None,
        )
        span_id = piece.uid.to_bytes(8, "big")
        below(piece, node.path, span_id)

        def end() -> None:
            ended = next(clock)
            span = Span(run_id, span_id, piece.name, started + sequence * 10**6, started + ended * 10**6, parent)
            spans.append(RecordedSpan(span, replace(node, end_sequence=ended)))

        return end

    def below(piece: Piece, path: tuple[str, ...], span_id: bytes) -> None:
        seen: dict[tuple[Kind, str], int] = {}
        waiting: list[Callable[[], None]] = []
        for child in piece.children:
            number = seen.get((child.kind, child.name), 0)
            seen[child.kind, child.name] = number + 1
            end = begin(child, path, span_id, number)
            if piece.side_by_side:
                waiting.append(end)
            else:
                end()
        for end in waiting:
            end()

    begin(root, (), b"", 0)()
    run = Run(run_id, run_id, root.uid.to_bytes(8, "big"), "agent", started, status=RunStatus.OK)
    kept = {
        part.digest: part.data
        for item in spans
        if item.node is not None
        for part in (item.node.call and item.node.call.request, item.node.outcome and item.node.outcome.result)
        if part is not None and part.data is not None
    }
    return RecordedRun(run, tuple(spans), kept.get)

"""Attempts put together, and forks with what they share."""

from __future__ import annotations

from dataclasses import replace

from otel_agent_replay import semconv
from otel_agent_replay.lake.whole_run import merged_attempts, merged_facts, with_prefix
from otel_agent_replay.model import (
    CLIENT_STRAND,
    AnswerSource,
    Call,
    Kind,
    LossReason,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    RecordedRun,
    RecordedSpan,
    Run,
    RunStatus,
    SideEffect,
    Span,
    Versions,
)

ROOT = "run:desk#0"
OK, PENDING, ERROR = OutcomeStatus.OK, OutcomeStatus.PENDING, OutcomeStatus.ERROR


class Making:
    """One attempt, node by node. `number` makes its ids."""

    def __init__(self, number: int = 1, *, run_id: bytes = b"r" * 16, **facts: object) -> None:
        self.number = number
        self.trace_id = bytes([number]) * 16
        self.root = self.span_id(0)
        self.run = Run(
            run_id, self.trace_id, self.root, "desk", started_ns=number * 1000, **{"attempt": number, **facts}
        )
        self.spans: list[RecordedSpan] = []
        self.bodies: dict[bytes, bytes] = {}
        self.node(Kind.RUN, (ROOT,), 1, status=PENDING)

    def span_id(self, place: int) -> bytes:
        return bytes([self.number]) * 7 + bytes([place])

    def node(self, kind: Kind, path: tuple[str, ...], sequence: int, *, status=OK, end=0, step=None, **facts) -> Node:
        result = Payload.of(f"{self.number}:{path[-1]}".encode(), "text/plain")
        self.bodies[result.digest] = result.data
        node = Node(
            self.run.run_id,
            kind,
            path[-1].split(":")[1].split("#")[0],
            path,
            sequence,
            end,
            step,
            outcome=Outcome(status, result.without_data() if status is OK else None),
            **facts,
        )
        parents = {item.node.path: item.span.span_id for item in self.spans if item.node}
        parent = parents.get(path[:-1], b"")
        attributes = {semconv.RUN_MODE: self.run.mode} if kind is Kind.RUN else {}
        place = self.span_id(len(self.spans))
        span = Span(self.trace_id, place, path[-1], sequence, end, parent, attributes=attributes)
        self.spans.append(RecordedSpan(span, node))
        return node

    def tool(self, name: str, step: int, sequence: int, *, inside: tuple[str, ...] = (), **facts) -> None:
        status = facts.setdefault("status", OK)
        end = 0 if status is PENDING else sequence + 1
        request = Payload.of(name.encode(), "text/plain")
        call = Call(Kind.TOOL, name, SideEffect.WRITE, request)
        path = (ROOT, *inside, f"tool:{name}#0")
        self.node(Kind.TOOL, path, sequence, end=end, step=step, call=call, **facts)

    def made(self, *, status: RunStatus = RunStatus.PENDING, ended_ns: int = 0) -> RecordedRun:
        root = self.spans[0]
        outcome = Outcome(OK if status is RunStatus.OK else PENDING)
        spans = [replace(root, node=replace(root.node, outcome=outcome)), *self.spans[1:]]
        run = replace(self.run, status=status, ended_ns=ended_ns)
        return RecordedRun(run, tuple(spans), self.bodies.get)


def reads(*numbers: int, strand: str = "") -> tuple[Read, ...]:
    return tuple(Read(Kind.CLOCK, "time.time", number, strand, number) for number in numbers)


def names(recorded: RecordedRun) -> list[str]:
    return [node.path[-1] for node in recorded.nodes]


def place(recorded: RecordedRun, name: str) -> RecordedSpan:
    (found,) = [item for item in recorded.spans if item.node and item.node.path[-1] == name]
    return found


def test_a_call_in_flight_that_was_made_again_counts_once_and_stays_as_history() -> None:
    """The later row stands in the tape, with the reads of both; the pending one is among the superseded."""
    first, second = Making(), Making(2)
    first.tool("pay", 1, 10, status=PENDING, reads=reads(11, 12))
    second.tool("pay", 1, 20, reads=reads(21))
    whole = merged_attempts([second.made(status=RunStatus.OK, ended_ns=9), first.made()])
    assert names(whole) == [ROOT, "tool:pay#0"]
    pay = place(whole, "tool:pay#0")
    assert pay.node.outcome.status is OK
    assert [read.sequence for read in pay.node.reads] == [11, 12, 21]
    assert whole.payload(pay.node.outcome.result.digest) == b"2:tool:pay#0"
    assert [item.span.span_id for item in whole.superseded] == [first.spans[1].span.span_id]


def test_a_failed_call_that_was_tried_again_gives_its_place_and_its_reads_away() -> None:
    """What ran to its end and was made anew read everything anew."""
    first, second = Making(), Making(2)
    first.tool("pay", 1, 10, status=ERROR, reads=reads(11))
    second.tool("pay", 2, 20, reads=reads(21))
    whole = merged_attempts([first.made(status=RunStatus.ERROR), second.made()])
    pay = place(whole, "tool:pay#0").node
    assert (pay.step, [read.sequence for read in pay.reads]) == (2, [21])
    assert [item.node.outcome.status for item in whole.superseded] == [ERROR]


def test_what_lay_in_a_superseded_call_lies_in_the_one_that_stands_for_it() -> None:
    """Calls below a call that was in flight are not made again; their parent is the span that is there now."""
    first, second = Making(), Making(2)
    first.tool("pay", 1, 10, status=PENDING)
    first.tool("bank", 2, 11, inside=("tool:pay#0",))
    second.tool("pay", 1, 20)
    whole = merged_attempts([first.made(), second.made()])
    assert place(whole, "tool:bank#0").span.parent_span_id == place(whole, "tool:pay#0").span.span_id


def test_a_scope_of_two_attempts_is_one_that_begins_first_and_ends_last() -> None:
    """Its reads follow each other, and both attempts' calls lie below the first one's span."""
    first, second = Making(), Making(2)
    first.node(Kind.SCOPE, (ROOT, "scope:plan#0"), 5, status=PENDING, reads=reads(6))
    first.tool("a", 1, 10, inside=("scope:plan#0",))
    second.node(Kind.SCOPE, (ROOT, "scope:plan#0"), 20, end=30, reads=reads(21))
    second.tool("b", 2, 25, inside=("scope:plan#0",))
    whole = merged_attempts([first.made(), second.made()])
    plan = place(whole, "scope:plan#0")
    assert (plan.node.sequence, plan.node.end_sequence, plan.node.outcome.status) == (5, 30, OK)
    assert [read.sequence for read in plan.node.reads] == [6, 21]
    assert (plan.span.start_ns, plan.span.end_ns) == (5, 30)
    assert {place(whole, f"tool:{name}#0").span.parent_span_id for name in "ab"} == {plan.span.span_id}
    assert whole.superseded == ()


def test_a_run_begins_as_its_first_attempt_and_ends_as_its_last() -> None:
    """Ids, mode, process and versions are the first one's, gaps filled; status and end the last one's."""
    first = Making(process="one", versions=Versions(code="abc"))
    second = Making(2, process="two", mode="resume", versions=Versions(code="xyz", packages={"openai": "2"}))
    whole = merged_attempts([first.made(), second.made(status=RunStatus.OK, ended_ns=77)])
    run = whole.run
    assert (run.trace_id, run.root_span_id, run.process, run.mode) == (first.trace_id, first.root, "one", "record")
    assert (run.status, run.started_ns, run.ended_ns, run.attempt) == (RunStatus.OK, 1000, 77, 2)
    assert (run.versions.code, run.versions.packages) == ("abc", {"openai": "2"})
    assert [attempt.versions.code for attempt in whole.attempts] == ["abc", "xyz"]
    told = [(attempt.number, attempt.process, attempt.mode, attempt.status) for attempt in whole.attempts]
    assert told == [(1, "one", "record", RunStatus.PENDING), (2, "two", "resume", RunStatus.OK)]
    root = whole.spans[0]
    assert root.span.attributes[semconv.RUN_MODE] == "record"
    assert merged_facts([run]) is run


def test_the_clients_environment_is_that_of_the_first_attempt() -> None:
    """Each process reads it anew when it begins; the clients of the recording were built in the first one's."""
    parts = []
    for number in (1, 2):
        making = Making(number)
        root = making.spans[0]
        kept = reads(number, strand=CLIENT_STRAND) + reads(number + 10)
        making.spans[0] = replace(root, node=replace(root.node, reads=kept))
        parts.append(making.made())
    found = merged_attempts(parts).nodes[0].reads
    assert [(read.strand, read.sequence) for read in found] == [(CLIENT_STRAND, 1), ("", 11), ("", 12)]


def test_an_attempt_that_is_not_there_is_a_loss() -> None:
    """A later attempt alone is shown, and what is missing is said."""
    whole = merged_attempts([Making(3).made()])
    assert [(loss.reason, loss.what, loss.count) for loss in whole.losses] == [(LossReason.NOT_COVERED, "attempt", 2)]


def origin() -> Making:
    """Steps 1 to 4, the first two in a scope, with reads between all of them."""
    making = Making()
    root = making.spans[0]
    making.spans[0] = replace(root, node=replace(root.node, reads=reads(2, 45)))
    making.node(Kind.SCOPE, (ROOT, "scope:plan#0"), 5, end=60, reads=reads(6, 35))
    making.tool("a", 1, 10, inside=("scope:plan#0",))
    making.tool("b", 2, 20, inside=("scope:plan#0",))
    making.tool("c", 3, 30, inside=("scope:plan#0",))
    making.node(Kind.SCOPE, (ROOT, "scope:late#0"), 38, end=50)
    making.tool("d", 4, 40)
    return making


def fork(step: int = 3) -> Making:
    return Making(9, run_id=b"f" * 16, attempt=1, origin_run_id=b"r" * 16, fork_step=step, mode="fork")


def test_a_fork_has_what_its_origin_did_before_it() -> None:
    """Steps, scopes and reads before the fork are the origin's, what comes from there on is its own."""
    forked = fork()
    forked.tool("e", 3, 100)
    whole = with_prefix(forked.made(), origin().made(status=RunStatus.OK))
    assert names(whole) == [ROOT, "scope:plan#0", "tool:a#0", "tool:b#0", "tool:e#0"]
    assert [node.step for node in whole.nodes if node.step] == [1, 2, 3]
    assert [node.run_id[:1] for node in whole.nodes] == [b"f", b"r", b"r", b"r", b"f"]
    assert [read.sequence for node in whole.nodes for read in node.reads] == [2, 6]
    assert whole.payload(place(whole, "tool:a#0").node.outcome.result.digest) == b"1:tool:a#0"
    assert place(whole, "scope:plan#0").span.parent_span_id == whole.run.root_span_id
    assert whole.run == forked.made().run


def test_a_scope_that_the_fork_goes_on_with_is_one() -> None:
    """It begins where the origin's did and is a span of the fork, above what both did in it."""
    forked = fork()
    forked.node(Kind.SCOPE, (ROOT, "scope:plan#0"), 99, end=120, reads=reads(101))
    forked.tool("e", 3, 100, inside=("scope:plan#0",))
    whole = with_prefix(forked.made(), origin().made())
    plan = place(whole, "scope:plan#0")
    assert (plan.node.sequence, plan.node.end_sequence, plan.node.run_id) == (5, 120, forked.run.run_id)
    assert (plan.span.trace_id, plan.span.start_ns) == (forked.trace_id, 99)
    assert [read.sequence for read in plan.node.reads] == [6, 101]
    assert {place(whole, f"tool:{name}#0").span.parent_span_id for name in "abe"} == {plan.span.span_id}


def test_a_step_that_the_fork_was_given_otherwise_counts_instead_with_nothing_below_it() -> None:
    """An edited answer stands for the origin's call, whose own calls did not happen in the fork."""
    before = Making()
    before.tool("a", 1, 10)
    before.tool("bank", 2, 11, inside=("tool:a#0",))
    before.tool("b", 3, 20)
    forked = fork(3)
    forked.tool("a", 1, 90, source=AnswerSource.EDITED)
    whole = with_prefix(forked.made(), before.made())
    assert names(whole) == [ROOT, "tool:a#0"]
    assert place(whole, "tool:a#0").node.source is AnswerSource.EDITED


def test_a_fork_beyond_the_last_step_shares_everything() -> None:
    """Also the scopes and reads after the last step."""
    whole = with_prefix(fork(5).made(), origin().made())
    assert [node.step for node in whole.nodes if node.step] == [1, 2, 3, 4]
    assert [read.sequence for node in whole.nodes for read in node.reads] == [2, 45, 6, 35]


def test_a_fork_without_its_origin_says_so() -> None:
    """It is shown alone, with a loss of as many steps as it shared."""
    forked = fork()
    forked.tool("e", 3, 100)
    whole = with_prefix(forked.made(), None)
    assert names(whole) == [ROOT, "tool:e#0"]
    (loss,) = whole.losses
    assert (loss.reason, loss.what, loss.count) == (LossReason.NOT_COVERED, "shared steps", 2)
    assert (b"r" * 16).hex() in loss.detail

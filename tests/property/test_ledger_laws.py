"""Workers take a run, stall, die, come back late and are overtaken, in any order: every effect still happens once.

Agents of one program, each attempt from its beginning, work through the real ledger with a clock that only the test
moves. `ledger_model` says what must be there after each move.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from otel_agent_replay.boundary.approvals import Grant, action_digest
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.effects import Keys, Terms
from otel_agent_replay.capture.effects import LedgerEffects
from otel_agent_replay.errors import EffectInDoubt, LeaseLost, NotHappened, RunBusy
from otel_agent_replay.ledger.engine import Database
from otel_agent_replay.ledger.ledger import Ledger
from otel_agent_replay.model import (
    Call,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    RunStatus,
    SideEffect,
)
from otel_agent_replay.payload.codec import decode, encode
from otel_agent_replay.payload.failure import failure_of
from tests.support.ledger_model import Model, Row, Says, World

LEASE_S = 10
KEYED, QUERIED, KEYLESS, OWN, APPROVED = "keyed", "queried", "keyless", "own", "approved"
TAKES_KEY = {KEYED, OWN, APPROVED}
AMOUNTS = (1, 2)
REFUSALS = {
    Says.RUNNING: "EffectRunning",
    Says.REUSED: "KeyReused",
    Says.UNAPPROVED: "ApprovalRequired",
}


runs = itertools.count(1)
amounts = st.sampled_from(AMOUNTS)
tools = st.sampled_from([KEYED, QUERIED, KEYLESS, OWN, APPROVED])
# What an agent does: calls of one tool, which are often equal, or of several.
programs = tools.flatmap(lambda tool: st.lists(st.tuples(st.just(tool), amounts), min_size=2, max_size=3)) | st.lists(
    st.tuples(tools, amounts), min_size=2, max_size=3
)
anyone = st.integers(0, 11)
ends = st.sampled_from([RunStatus.PENDING, RunStatus.OK, RunStatus.ERROR])
goes = st.sampled_from(["nowhere", "out", "well", "well", "wrong", "dies", "dies out there"])
# Each move, how often it is wanted among the others, and what it may be given.
MOVES = {
    "take": (4, {"waits": st.booleans()}),
    "time_passes": (1, {"seconds": st.integers(1, LEASE_S)}),
    "renew": (1, {"which": anyone}),
    "die": (2, {"which": anyone}),
    "give_back": (1, {"which": anyone, "status": ends}),
    "next_call": (10, {"which": anyone, "query": st.booleans(), "goes": goes}),
    "go_on": (2, {"which": anyone, "goes": st.sampled_from(["out", "well", "wrong"])}),
    "approve": (2, {"which": anyone, "amount": amounts}),
    "decide": (2, {"which": anyone, "happened": st.booleans(), "waits": st.booleans()}),
}
moves = st.sampled_from([name for name, (often, _) in MOVES.items() for _ in range(often)]).flatmap(
    lambda name: st.tuples(st.just(name), st.fixed_dictionaries(MOVES[name][1]))
)


class ClockedDatabase(Database):
    """A database whose time stands until somebody moves it."""

    ticks = 0

    def now_ns(self, connection):  # noqa: ARG002 - the base's signature
        return self.ticks * 10**9


@dataclass
class Making:
    """A call that a worker was told to make."""

    name: tuple[str, str]
    call: Call
    place: Place
    amount: int
    result: str | None = None


class Attempt:
    """A worker with the run, or one that still thinks it has it. It goes through the program from the beginning."""

    def __init__(self, lease, effects, worker, run_id):
        self.lease = lease
        self.effects = effects
        self.worker = worker
        self.keys = Keys(run_id)
        self.root = Place.root("a")
        self.position = 0
        self.making: Making | None = None


class Desk:
    """One run, its workers, the moves, and the laws that hold after each of them."""

    def __init__(self, database, program):
        self.database = database
        self.ledger = Ledger(database)
        self.program = program
        self.world = World()
        self.attempts = []
        self.grants = 0
        self.names = itertools.count(1)
        self.run_id = next(runs).to_bytes(16, "big")
        self.model = Model(clock=database.ticks)
        self.world = World()
        self.attempts = []
        self.grants = 0
        self.names = itertools.count(1)

    # --- who has the run ---

    def worker(self, which):
        """Return one of the attempts that go on: mostly the one that has the run."""
        holders = [one for one in self.attempts if self.model.holds(one.worker, one.lease.fence)]
        return holders[0] if holders and which % 4 else self.attempts[which % len(self.attempts)]

    def take(self, waits):
        """A worker wants the run, maybe after the lease: it gets it, with the next fence, when nobody holds it."""
        if waits and self.model.is_held:
            self.time_passes(self.model.expires - self.model.clock)
        worker = f"worker {next(self.names)}"
        if self.model.is_held:
            with pytest.raises(RunBusy):
                self.ledger.take_over(self.run_id, "a", worker=worker, lease_s=LEASE_S)
            return
        lease = self.ledger.take_over(self.run_id, "a", worker=worker, lease_s=LEASE_S)
        self.model.fence += 1
        self.model.worker, self.model.expires = worker, self.model.clock + LEASE_S
        assert lease.fence == self.model.fence
        begun = [
            (row.tool, row.key) for row in self.ledger.effects(self.run_id) if row.status in ("intended", "in_doubt")
        ]
        self.attempts.append(Attempt(lease, LedgerEffects(lease, begun), worker, self.run_id))

    def time_passes(self, seconds):
        """Leases that nobody renews run out."""
        self.model.clock += seconds
        self.database.ticks += seconds

    def renew(self, which):
        """Who has the run holds it for longer."""
        if not self.attempts:
            return
        attempt = self.worker(which)
        with self.may_write(attempt) as may:
            attempt.lease.renew()
        if may:
            self.model.expires = self.model.clock + LEASE_S

    def die(self, which):
        """A worker is gone, with no word."""
        if not self.attempts:
            return
        self.attempts.remove(self.worker(which))

    def give_back(self, which, status):
        """A worker ends the run, or stops: the next one need not wait."""
        if not self.attempts:
            return
        attempt = self.worker(which)
        with self.may_write(attempt) as may:
            attempt.lease.release(status.value)
        if may:
            self.argumentsback(attempt)

    def argumentsback(self, attempt):
        self.model.worker, self.model.expires = "", 0
        self.attempts.remove(attempt)

    # --- what is done ---

    def next_call(self, which, query, goes):
        """A worker is about to make its next call, and is told what the law says.

        `query`: the status query answers; `goes`: how far the call gets at once.
        """
        if not self.attempts:
            return
        attempt = self.worker(which)
        if attempt.making is not None or attempt.position == len(self.program):
            return
        tool, amount = self.program[attempt.position]
        call = call_of(tool, amount)
        call = replace(call, idempotency_key="order 17" if tool == OWN else attempt.keys.of(call, ""))
        name = (tool, call.idempotency_key)
        place = attempt.root.child(Kind.TOOL, tool)
        place.step = attempt.position + 1
        action = action_of(amount) if tool == APPROVED else None
        terms = Terms(tool in TAKES_KEY, self.status_query(tool, name, query), action)
        row = Row("intended", attempt.lease.fence, place.step, call.digest)
        says = self.expected(name, row, query=query, action=action)
        told = None
        with self.may_write(attempt) as may:
            try:
                told = attempt.effects.intend(call, place, terms)
            except EffectInDoubt:
                told = Says.DOUBT
        if not may:
            return
        event(f"{tool}: {says.value}")
        if says is Says.CALL:
            assert told is None
            self.model.called(name, row, action)
            attempt.making = Making(name, call, place, amount)
            if goes not in ("nowhere", "dies"):
                self.run_call(attempt)
            if goes in ("well", "wrong"):
                self.end_call(attempt, ok=goes == "well")
            elif goes.startswith("dies"):
                self.attempts.remove(attempt)
                self.take(waits=True)
        else:
            self.is_told(attempt, told, says, name)

    def is_told(self, attempt, told, says, name):
        """A worker was told something else than to call."""
        if says is Says.DOUBT:
            assert told is Says.DOUBT
            self.model.rows[name].status = "in_doubt"
            attempt.lease.release("pending")  # such a run stops
            self.argumentsback(attempt)
        elif says is Says.RESULT:
            row = self.model.rows[name]
            if row.result is None:  # the status query found it
                row.status, row.result = "done", f"did {self.world.did[name]}"
            assert told.outcome.status is OutcomeStatus.OK
            assert decode(told.outcome.result.data) == row.result
            attempt.position += 1
        else:
            assert told.outcome.failure.type.endswith(f":{REFUSALS[says]}")
            attempt.position += says is Says.REUSED

    def expected(self, name, row, *, query, action):
        tool = name[0]
        says = self.model.expected(name, row, takes_key=tool in TAKES_KEY, recovers=tool == QUERIED, action=action)
        if tool == QUERIED and says is Says.CALL and name in self.model.open():
            if not query:
                return Says.DOUBT
            return Says.RESULT if name in self.world.did else Says.CALL
        return says

    def status_query(self, tool, name, answers):
        """Return the tool's own way to ask what became of a call, where it has one."""

        def query(key):
            assert key == name[1]
            if not answers:
                raise OSError("the service is down")
            if name not in self.world.did:
                raise NotHappened
            return f"did {self.world.did[name]}"

        return query if tool == QUERIED else None

    def go_on(self, which, goes):
        """A call that was begun happens, maybe late, or ends."""
        making = [one for one in self.attempts if one.making is not None]
        if not making:
            return
        attempt = making[which % len(making)]
        self.run_call(attempt)
        if goes != "out" and attempt.making.result is not None:
            self.end_call(attempt, ok=goes == "well")

    def run_call(self, attempt):
        """Run the code of a call: where no key is handed on, only while the worker has the run."""
        making = attempt.making
        tool = making.name[0]
        if making.result is not None:
            return
        if tool not in TAKES_KEY and not self.model.holds(attempt.worker, attempt.lease.fence):
            return
        making.result = self.world.run(making.name, making.amount, nothing_came=self.model.nothing_came[making.name])
        if tool not in TAKES_KEY:
            assert self.world.ran[making.name] <= 1 + self.model.nothing_came[making.name]
        assert self.world.ran[making.name] <= self.model.licences[making.name]

    def end_call(self, attempt, *, ok):
        """Write what came of a call; after a failure it is tried again."""
        making = attempt.making
        if ok:
            outcome = Outcome(OutcomeStatus.OK, Payload.of(encode(making.result).data, MediaType.VALUE.value))
        else:
            outcome = Outcome(OutcomeStatus.ERROR, failure=failure_of(TimeoutError("no answer")))
        with self.may_write(attempt) as may:
            making.place.effect.finish(outcome)
        if not may:
            return
        row = self.model.rows[making.name]
        if ok:
            row.status, row.result = "done", making.result
        else:
            row.status = "failed"
            self.model.nothing_came[making.name] += 1
            attempt.keys.failed(making.call, on_record=False)
        attempt.position += ok or making.name[0] == OWN  # a failed call is tried again, but not each
        attempt.making = None

    # --- what people say ---

    def approve(self, which, amount):
        """A person approves one payment of that amount."""
        if not self.attempts or all(tool != APPROVED for tool, _ in self.program):
            return
        attempt = self.worker(which)
        self.grants += 1
        place = attempt.root.child(Kind.APPROVAL, "ask")
        place.step = 100 + self.grants
        with self.may_write(attempt) as may:
            attempt.effects.granted(place, Grant(action_of(amount), APPROVED, "ana", "", (), 1, b""))
        if may:
            self.model.granted[action_of(amount)] += 1

    def decide(self, which, happened, waits):
        """A person says what became of an effect that nobody has ended, unless a worker holds the run."""
        if not self.model.open():
            return
        if waits and self.model.is_held:
            self.time_passes(self.model.expires - self.model.clock)
        names = sorted(self.model.open())
        name = names[which % len(names)]
        row = self.model.rows[name]
        word = encode("a person's word").data if happened else None
        if self.model.is_held:
            with pytest.raises(RunBusy):
                self.ledger.decide(self.run_id, row.step, happened=happened, result=word, by="ana")
            return
        decided = self.ledger.decide(self.run_id, row.step, happened=happened, result=word, by="ana")
        assert (decided.tool, decided.key) == name
        row.status, row.result = ("happened", "a person's word") if happened else ("not_happened", None)
        self.model.nothing_came[name] += not happened
        self.model.worker, self.model.expires = "", 0  # who let the lease run out has lost the run by that word

    # --- the laws ---

    @contextmanager
    def may_write(self, attempt):
        """Run what a worker does: it works when it has the run, else it is refused and nothing is changed by it."""
        if self.model.holds(attempt.worker, attempt.lease.fence):
            yield True
            return
        before = self.everything()
        with pytest.raises(LeaseLost):
            yield False
        assert self.everything() == before
        if attempt in self.attempts:
            self.attempts.remove(attempt)  # its run is stopped there

    def everything(self):
        ledger = self.ledger
        return (
            ledger.run(self.run_id),
            ledger.steps(self.run_id),
            ledger.effects(self.run_id),
            ledger.approvals(self.run_id),
        )

    def one_worker_at_most_has_the_run(self):
        """The row names the latest taker, under the highest fence, or nobody."""
        row = self.ledger.run(self.run_id)
        if self.model.fence:
            assert (row.fence, row.worker) == (self.model.fence, self.model.worker)
            assert row.lease_expires_ns == self.model.expires * 10**9
        else:
            assert row is None

    def effects_are_what_was_told(self):
        """Each effect has the status, attempt and step of the last word on it; one key stands for one call."""
        rows = {(row.tool, row.key): row for row in self.ledger.effects(self.run_id)}
        found = {name: Row(row.status, row.fence, row.step, row.request_digest) for name, row in rows.items()}
        assert found == {name: replace(row, result=None) for name, row in self.model.rows.items()}
        doubtful = {name for name, row in self.model.rows.items() if row.status == "in_doubt"}
        assert {(row.tool, row.key) for row in self.ledger.in_doubt() if row.run_id == self.run_id} == doubtful

    def approvals_are_spent_once(self):
        """As many are left as were granted and not spent, and no effect has spent two."""
        rows = self.ledger.approvals(self.run_id)
        left = {action_of(amount): self.model.granted[action_of(amount)] for amount in AMOUNTS}
        assert {digest: sum((row.digest, row.status) == (digest, "granted") for row in rows) for digest in left} == left
        spent = [row.spent_key for row in rows if row.status == "spent"]
        assert len(spent) == len(set(spent)) == sum(tool == APPROVED for tool, _ in self.model.rows)


def call_of(tool, amount):
    request = Payload.of(encode({"amount": amount}).data, MediaType.VALUE.value)
    return Call(Kind.TOOL, tool, SideEffect.WRITE, request)


def action_of(amount):
    return action_digest(APPROVED, call_of(APPROVED, amount).request.data)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return ClockedDatabase(f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.sqlite'}")


@settings(
    max_examples=settings.default.max_examples // 2,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink takes minutes: each move waits for a disk
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(program=programs, moves=st.lists(moves, min_size=25, max_size=50))
def test_every_effect_happens_once(database, program, moves):
    """After any moves of any workers the ledger holds what it must, and nobody did what it had not licensed."""
    desk = Desk(database, program)
    desk.take(waits=False)
    for name, arguments in moves:
        getattr(desk, name)(**arguments)
        desk.one_worker_at_most_has_the_run()
        desk.effects_are_what_was_told()
        desk.approvals_are_spent_once()

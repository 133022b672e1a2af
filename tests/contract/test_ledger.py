"""What every ledger must do, asked of SQLite and of a real PostgreSQL."""

from __future__ import annotations

import itertools
import os
import sqlite3
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, insert, text, update

from otel_agent_replay.errors import (
    ApprovalRequired,
    ConfigurationError,
    EffectRunning,
    KeyReused,
    LeaseLost,
    LedgerError,
    RunBusy,
    UnsupportedFormat,
)
from otel_agent_replay.ledger import Decision, IntentStatus, ledger_url, open_ledger, schema, worker_name
from otel_agent_replay.model import RunStatus
from tests.support.ledger_worker import effect, started
from tests.support.postgres import postgres_url

DIGEST, OTHER = b"d" * 32, b"o" * 32
NEW = IntentStatus.NEW
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres():
    with postgres_url() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """A database without a table; on PostgreSQL one whose default is not to wait for the disk."""
    if request.param == "sqlite":
        return ledger_url("file", tmp_path)
    server = request.getfixturevalue("postgres")
    name = f"ledger_{next(_numbers)}"
    engine = create_engine(server)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return f"{server}&options={quote(f'-csearch_path={name} -csynchronous_commit=off')}"


@pytest.fixture
def ledger(url):
    opened = open_ledger(url)
    yield opened
    opened.close()


@pytest.fixture
def run_id():
    return os.urandom(16)


@pytest.fixture
def lease(ledger, run_id):
    return begun(ledger, run_id)


def begun(ledger, run_id, worker="first"):
    return ledger.begin_run(run_id, "agent", worker=worker, lease_s=60)


def taken(ledger, run_id, worker="second"):
    return ledger.take_over(run_id, "agent", worker=worker, lease_s=60)


def change(ledger, statement):
    with ledger._database.writing() as connection:
        connection.execute(statement)


def set_run(ledger, run_id, **values):
    change(ledger, update(schema.runs).where(schema.runs.c.run_id == run_id).values(**values))


def expire(ledger, run_id):
    """Let the lease of a run be over, as if its time had passed."""
    set_run(ledger, run_id, lease_expires_ns=1)


def finish(lease, key="k", **more):
    lease.finish(**{"tool": "refund", "key": key, "failed": False, "result_digest": DIGEST, "result": b"paid", **more})


def again(lease, key="k", step=1, **more):
    lease.again(**{name: value for name, value in effect(key, step=step, **more).items() if name != "side_effect"})


def grant(lease, digest=DIGEST, step=1):
    lease.grant(
        step=step,
        action="refund",
        digest=digest,
        by="ann",
        at_ns=5,
        state_digest=OTHER,
        policy="p",
        allowed=["refund"],
    )


def at_once(count, action):
    """Call `action(number)` in that many threads at the same time; return what each gave or raised."""
    gate = threading.Barrier(count)

    def one(number):
        gate.wait(30)
        try:
            return action(number)
        except (ApprovalRequired, EffectRunning, LeaseLost) as error:
            return type(error)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def everything(ledger, run_id):
    return ledger.run(run_id), ledger.steps(run_id), ledger.effects(run_id), ledger.approvals(run_id)


# --- who works on a run ---


def test_a_run_is_held_by_one_worker(ledger, run_id, lease):
    """A run that somebody holds is busy for everyone else, also under the same worker's name."""
    assert (lease.fence, ledger.run(run_id).worker) == (1, "first")
    for take, worker in ((begun, "second"), (taken, "second"), (taken, "first")):
        with pytest.raises(RunBusy) as caught:
            take(ledger, run_id, worker)
        assert (caught.value.run_id, caught.value.holder) == (run_id.hex(), "first")
        assert caught.value.until_ns == lease.expires_ns
    assert abs(lease.expires_ns - time.time_ns() - 60 * 10**9) < 30 * 10**9


def test_a_run_is_taken_over_after_its_lease(ledger, run_id, lease):
    """When the lease is over or given back the next worker gets the next fence; an unknown run begins with one."""
    expire(ledger, run_id)
    second = taken(ledger, run_id)
    assert second.fence == 2
    second.release("pending")
    assert ledger.run(run_id).status == "pending"
    assert taken(ledger, run_id).fence == 3
    assert taken(ledger, os.urandom(16)).fence == 1


def test_of_two_processes_one_gets_the_run(ledger, url, run_id):
    """Two processes that want a run at the same time, new or left: one wins, the other is told who has it."""
    with started(url, run_id, "left", "right") as workers:
        for fence in range(1, 9):
            for worker in workers:
                worker.tell("take_over")
            answers = [worker.answer() for worker in workers]
            assert answers.count(fence) == 1, answers
            assert sum(str(answer).startswith("RunBusy") for answer in answers) == 1, answers
            expire(ledger, run_id)


def test_of_threads_one_gets_a_new_run(ledger):
    """Eight threads that begin the same run: one wins."""

    def begin(run_id, number):
        try:
            return begun(ledger, run_id, f"w{number}").fence
        except RunBusy:
            return 0

    for _ in range(3):
        run_id = os.urandom(16)
        assert sorted(at_once(8, lambda number, run_id=run_id: begin(run_id, number))) == [0] * 7 + [1]


VERBS = {
    "renew": lambda lease: lease.renew(),
    "release": lambda lease: lease.release("ok"),
    "intend": lambda lease: lease.intend(**effect("late")),
    "intend a known one": lambda lease: lease.intend(**effect("k")),
    "again": again,
    "doubt": lambda lease: lease.doubt(tool="refund", key="k"),
    "finish": finish,
    "grant": grant,
    "await": lambda lease: lease.await_decision(step=2, name="ask", digest=DIGEST, arguments=b""),
    "spent": lambda lease: lease.spent(tool="refund", key="k", approval=DIGEST),
    "decision": lambda lease: lease.decision(step=3, digest=OTHER),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_stalled_worker_can_do_nothing(ledger, run_id, lease, verb):
    """A worker whose run was taken over is refused whatever it does or asks, and changes nothing."""
    lease.intend(**effect("k"))
    lease.await_decision(step=3, name="ask", digest=OTHER, arguments=b"")
    ledger.answer(run_id, 3, granted=True, by="ann")
    expire(ledger, run_id)
    taken(ledger, run_id)
    before = everything(ledger, run_id)
    for _ in range(2):
        with pytest.raises(LeaseLost):
            VERBS[verb](lease)
    assert everything(ledger, run_id) == before


def test_a_lease_is_renewed_until_it_is_given_back(ledger, run_id):
    """The renewing thread moves the end of the lease on, and ends with the release; nothing is written afterwards."""
    lease = ledger.begin_run(run_id, "agent", worker="first", lease_s=0.15)
    first = lease.expires_ns
    lease.start_renewing()
    deadline = time.monotonic() + 30
    while ledger.run(run_id).lease_expires_ns < first + 150_000_000 and time.monotonic() < deadline:
        lease._stop.wait(0.01)
    assert ledger.run(run_id).lease_expires_ns >= first + 150_000_000
    lease.release("ok")
    lease._renewer.join(30)
    assert not lease._renewer.is_alive()
    assert (ledger.run(run_id).status, ledger.run(run_id).lease_expires_ns) == ("ok", 0)
    for verb in VERBS.values():
        with pytest.raises(LeaseLost, match="given back"):
            verb(lease)
    assert everything(ledger, run_id)[1:] == ([], [], [])


def test_the_renewing_thread_learns_that_the_run_was_lost(ledger, run_id):
    """When renewal finds another worker there, the thread ends and every later call is refused without asking."""
    lease = ledger.begin_run(run_id, "agent", worker="first", lease_s=0.15)
    expire(ledger, run_id)
    taken(ledger, run_id)
    lease.start_renewing()
    lease._renewer.join(30)
    assert not lease._renewer.is_alive()
    ledger.close()
    with pytest.raises(LeaseLost):
        lease.intend(**effect("k"))


def test_a_killed_worker_of_this_machine_is_not_waited_for(ledger, url, run_id):
    """A worker that was killed has lost its run at once; one that is alive keeps it."""
    with started(url, run_id, "") as (worker,):
        assert worker.ask("take_over", lease_s=600) == 1
        with pytest.raises(RunBusy):
            taken(ledger, run_id)
        worker.kill()
        assert taken(ledger, run_id, worker_name()).fence == 2


def test_a_forked_child_has_no_lease_but_a_ledger(url, run_id, ledger):
    """In a child the parent's lease is refused, the ledger works on connections of its own, and the parent's go on."""
    with started(url, run_id, "parent") as (parent,):
        assert parent.ask("take_over") == 1
        seen = parent.ask("fork")
        assert seen["lease"].startswith("LeaseLost") and "forked" in seen["lease"]
        assert (seen["runs"], seen["own"]) == (1, 1)
        assert parent.ask("intend", key="k") == "new"
    assert [one.key for one in ledger.effects(run_id)] == ["k"]


def test_a_new_file_that_another_worker_is_making_is_waited_for(tmp_path):
    """SQLite itself does not wait for a file's other users to change its mode: the ledger opens once they are done."""
    url = ledger_url("file", tmp_path)
    other = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE other (id INTEGER)")
    with ThreadPoolExecutor() as pool:
        opening = pool.submit(open_ledger, url)
        with pytest.raises(TimeoutError):
            opening.result(0.1)
        other.execute("COMMIT")
        opening.result(60).close()
    other.close()


# --- effects ---


def test_an_effect_is_intended_then_done(ledger, run_id, lease):
    """The intent is there before the call, the result after it, and whoever asks again gets the result."""
    assert lease.intend(**effect("k")) == (NEW, None, b"", False)
    (open_one,) = ledger.effects(run_id)
    assert (open_one.status, open_one.fence, open_one.arguments, open_one.ended_ns) == ("intended", 1, b"{}", 0)
    assert lease.intend(**effect("k")).status is IntentStatus.RUNNING
    finish(lease)
    assert lease.intend(**effect("k")) == (IntentStatus.DONE, b"paid", DIGEST, False)
    expire(ledger, run_id)
    assert taken(ledger, run_id).intend(**effect("k")) == (IntentStatus.DONE, b"paid", DIGEST, False)
    (step,) = ledger.steps(run_id)
    assert (step.status, step.result_digest, step.name, step.key) == ("done", DIGEST, "refund", "k")
    assert step.ended_ns >= step.begun_ns > 0


def test_keys_are_those_of_one_tool_in_one_run(ledger, lease):
    """The same key of another tool or another run is another effect."""
    lease.intend(**effect("k"))
    assert lease.intend(**effect("k", tool="mail", step=2)).status is NEW
    assert begun(ledger, os.urandom(16)).intend(**effect("k")).status is NEW


@pytest.mark.parametrize("stands", ["running", "pending", "in doubt", "done", "happened"])
def test_a_key_that_stands_for_one_call_is_not_another_ones(ledger, run_id, lease, stands):
    """With other arguments at another step the key is refused, and told; the result of the one is not the other's."""
    lease.intend(**effect("k"))
    if stands == "done":
        finish(lease)
    elif stands != "running":
        lease.release("pending")
        lease = taken(ledger, run_id)
        if stands != "pending":
            lease.doubt(tool="refund", key="k")
        if stands == "happened":
            lease.release("pending")
            ledger.decide(run_id, 1, happened=True, result=b"paid", by="ann")
            lease = taken(ledger, run_id)
    before = everything(ledger, run_id)
    with pytest.raises(KeyReused, match="other arguments") as caught:
        lease.intend(**effect("k", step=2, request_digest=OTHER))
    assert (caught.value.tool, caught.value.key, caught.value.step) == ("refund", "k", 1)
    assert everything(ledger, run_id) == before
    assert lease.intend(**effect("k", step=2)).status is not NEW  # the same arguments: the same call
    assert lease.intend(**effect("k", request_digest=OTHER)).status is not NEW  # the same step: the same call


@pytest.mark.parametrize("nothing", ["failed", "not happened"])
def test_a_key_of_which_nothing_came_may_be_used_with_other_arguments(ledger, run_id, lease, nothing):
    """What failed, or never happened by a person's word, may be tried with other arguments; these then stand."""
    lease.intend(**effect("k"))
    if nothing == "failed":
        finish(lease, failed=True, result=None)
    else:
        lease.release("pending")
        ledger.decide(run_id, 1, happened=False, result=None, by="ann")
        lease = taken(ledger, run_id)
    other = {"step": 2, "request_digest": OTHER, "arguments": b"other"}
    assert lease.intend(**effect("k", **other)).status in (IntentStatus.FAILED, IntentStatus.DECIDED)
    again(lease, step=2, request_digest=OTHER, arguments=b"other")
    (row,) = ledger.effects(run_id)
    assert (row.step, row.request_digest, row.arguments) == (2, OTHER, b"other")
    assert ledger.steps(run_id)[-1].request_digest == OTHER
    finish(lease)
    with pytest.raises(KeyReused):
        lease.intend(**effect("k", step=3))


def test_a_large_result_is_kept_by_its_digest(lease):
    """Up to 64 KiB of a result lie in the ledger; of more only the digest does."""
    for key, size, kept in (("most", 64 * 1024, True), ("more", 64 * 1024 + 1, False)):
        lease.intend(**effect(key, step=size))
        finish(lease, key, result=b"x" * size)
        known = lease.intend(**effect(key))
        assert known == (IntentStatus.DONE, b"x" * size if kept else None, DIGEST, False)


def test_a_failed_effect_is_called_again(ledger, run_id, lease):
    """A failure is known as one, and may be tried again under the same key, at another step."""
    lease.intend(**effect("k"))
    finish(lease, failed=True, result=None)
    assert lease.intend(**effect("k", step=5)).status is IntentStatus.FAILED
    again(lease, step=5)
    with pytest.raises(EffectRunning):
        again(lease, step=6)
    finish(lease)
    (done,) = ledger.effects(run_id)
    assert (done.status, done.step) == ("done", 5)
    assert [(step.step, step.status) for step in ledger.steps(run_id)] == [(1, "failed"), (5, "done")]
    with pytest.raises(EffectRunning):
        again(lease)


def test_a_result_lands_once(ledger, run_id, lease):
    """To finish twice alike is to finish once; otherwise, or without an intent, it is refused."""
    with pytest.raises(LedgerError, match="not an open effect"):
        finish(lease)
    lease.intend(**effect("k"))
    finish(lease)
    before = everything(ledger, run_id)[1:]
    finish(lease)
    for other in ({"failed": True}, {"result_digest": OTHER}):
        with pytest.raises(LedgerError, match="not an open effect"):
            finish(lease, **other)
    with pytest.raises(LedgerError, match="not an open effect"):
        lease.doubt(tool="refund", key="k")
    assert everything(ledger, run_id)[1:] == before


def test_of_threads_that_intend_the_same_one_may_call(lease):
    """Eight threads with one key: one calls, the others are told that it runs."""
    for number in range(3):
        told = at_once(8, lambda _, key=f"k{number}": lease.intend(**effect(key)).status)
        assert sorted(told) == sorted([NEW] + [IntentStatus.RUNNING] * 7)


def test_of_threads_that_call_again_one_may(ledger, run_id, lease):
    """Eight threads that settle what an earlier attempt left: one calls it again."""
    lease.intend(**effect("k"))
    expire(ledger, run_id)
    second = taken(ledger, run_id)
    told = at_once(8, lambda _: again(second))
    assert sorted(told, key=str) == sorted([None] + [EffectRunning] * 7, key=str)
    assert [(step.fence, step.status) for step in ledger.steps(run_id)] == [(1, "intended"), (2, "intended")]


def test_of_a_stalled_and_a_new_worker_one_may_call(ledger, url, run_id):
    """Two processes with one run after a take-over, both at the same key: only the new one calls."""
    with started(url, run_id, "stalled", "new") as workers:
        stalled, new = workers
        assert stalled.ask("take_over") == 1
        expire(ledger, run_id)
        assert new.ask("take_over") == 2
        for number in range(8):
            for worker in workers:
                worker.tell("intend", key=f"k{number}")
            assert stalled.answer().startswith("LeaseLost")
            assert new.answer() == "new"


def test_an_effect_of_a_killed_process_is_pending(ledger, url, run_id):
    """What a process had begun when it was killed is pending for the next attempt, which may call it again."""
    with started(url, run_id, "") as (worker,):
        worker.ask("take_over")
        assert worker.ask("intend", key="k") == "new"
        worker.kill()
    second = taken(ledger, run_id)
    assert second.intend(**effect("k")).status is IntentStatus.PENDING
    again(second)
    assert second.intend(**effect("k")).status is IntentStatus.RUNNING
    finish(second)
    assert second.intend(**effect("k")).status is IntentStatus.DONE


def test_a_pending_effect_is_settled_without_calling(ledger, run_id, lease):
    """When a status query told what became of it, the next attempt writes the result alone."""
    lease.intend(**effect("k"))
    expire(ledger, run_id)
    finish(taken(ledger, run_id))
    assert [one.status for one in ledger.effects(run_id)] == ["done"]
    assert [(step.fence, step.status) for step in ledger.steps(run_id)] == [(1, "intended"), (2, "done")]


def test_a_result_that_garbage_collection_brings_waits_for_the_write_that_it_interrupts(ledger, run_id, lease):
    """A call that ends in the middle of a write of the same thread is written after it; anything else is refused."""
    lease.intend(**effect("k"))
    with lease._writing():
        finish(lease)
        with pytest.raises(LedgerError, match="in the middle"):
            lease.intend(**effect("other"))
        assert ledger.effects(run_id)[0].status == "intended"
    assert [one.status for one in ledger.effects(run_id)] == ["done"]


def test_any_text_is_a_name(lease):
    """Names with what no database takes are written as their escapes, and found again."""
    odd = "a\x00b\ud800"
    lease.intend(**effect(odd, tool=odd, path=odd))
    finish(lease, odd, tool=odd)
    assert lease.intend(**effect(odd, tool=odd, path=odd)).status is IntentStatus.DONE
    assert lease.intend(**effect("a", tool=odd, path=odd)).status is NEW


# --- a person's word ---


def in_doubt(ledger, run_id):
    """Leave an effect in doubt at step 4; return the lease that is left with it."""
    lease = begun(ledger, run_id)
    lease.intend(**effect("k", step=4))
    lease.release("pending")
    lease = taken(ledger, run_id)
    lease.doubt(tool="refund", key="k")
    assert lease.intend(**effect("k")).status is IntentStatus.PENDING
    assert [(one.run_id, one.step, one.status) for one in ledger.in_doubt()] == [(run_id, 4, "in_doubt")]
    return lease


def test_a_person_says_that_it_happened(ledger, run_id):
    """The word is the effect's result from then on, under the person's name."""
    in_doubt(ledger, run_id).release("pending")
    decided = ledger.decide(run_id, 4, happened=True, result=b"as seen", by="ann")
    assert (decided.status, decided.decided_by) == ("happened", "ann")
    assert ledger.effects(run_id) == [decided]
    known = taken(ledger, run_id).intend(**effect("k"))
    assert (known.status, known.happened, known.result) == (IntentStatus.DECIDED, True, b"as seen")
    assert ledger.in_doubt() == []


def test_a_person_says_that_it_did_not_happen(ledger, run_id):
    """It may then be called again, under the same key."""
    in_doubt(ledger, run_id).release("pending")
    ledger.decide(run_id, 4, happened=False, result=None, by="ann")
    lease = taken(ledger, run_id)
    known = lease.intend(**effect("k"))
    assert (known.status, known.happened, known.result) == (IntentStatus.DECIDED, False, None)
    again(lease, step=4)
    finish(lease)
    assert [one.status for one in ledger.effects(run_id)] == ["done"]


def test_nobody_decides_on_what_runs_or_is_settled(ledger, run_id):
    """While a worker holds the run a decision is refused, and where nothing is in doubt there is none to make."""
    lease = in_doubt(ledger, run_id)
    with pytest.raises(RunBusy):
        ledger.decide(run_id, 4, happened=True, result=None, by="ann")
    lease.release("pending")
    with pytest.raises(LedgerError, match="no effect in doubt at step 5: `agent-replay decide` lists"):
        ledger.decide(run_id, 5, happened=True, result=None, by="ann")
    ledger.decide(run_id, 4, happened=True, result=None, by="ann")
    with pytest.raises(LedgerError, match="no effect in doubt"):
        ledger.decide(run_id, 4, happened=False, result=None, by="bob")
    assert ledger.effects(run_id)[0].decided_by == "ann"


@pytest.mark.parametrize("happened", [True, False])
def test_a_worker_that_stalled_over_a_persons_word_has_lost_the_run(ledger, run_id, lease, happened):
    """Once a person said what became of its effect, a worker whose lease had run out can say nothing about it."""
    lease.intend(**effect("k"))
    expire(ledger, run_id)
    decided = ledger.decide(run_id, 1, happened=happened, result=None, by="ann")
    with pytest.raises(LeaseLost):
        finish(lease)
    assert ledger.effects(run_id) == [decided]
    assert (ledger.run(run_id).status, ledger.run(run_id).worker) == ("pending", "")
    assert taken(ledger, run_id).fence == 2


def test_an_approval_is_spent_once(ledger, run_id, lease):
    """Of eight effects that want one approval at the same time one gets it; the others leave no trace."""
    grant(lease)
    grant(lease)  # the same one, told again
    told = at_once(8, lambda number: lease.intend(**effect(f"k{number}", step=number, approval=DIGEST)).status)
    assert sorted(told, key=str) == sorted([NEW] + [ApprovalRequired] * 7, key=str)
    (spent,) = ledger.approvals(run_id)
    (called,) = ledger.effects(run_id)
    assert (spent.status, spent.spent_key) == ("spent", called.key)
    assert (spent.by, spent.decided_ns, spent.policy, spent.allowed) == ("ann", 5, "p", ("refund",))
    assert (spent.action, spent.digest, spent.state_digest) == ("refund", DIGEST, OTHER)
    assert len(ledger.steps(run_id)) == 1


def test_two_approvals_are_good_for_two_calls(ledger, run_id, lease):
    """Each step's approval counts; a known effect spends none, in no attempt."""
    grant(lease, step=1)
    grant(lease, step=2)
    assert lease.intend(**effect("one", approval=DIGEST)).status is NEW
    assert lease.intend(**effect("one", approval=DIGEST)).status is IntentStatus.RUNNING
    expire(ledger, run_id)
    second = taken(ledger, run_id)
    assert second.intend(**effect("one", approval=DIGEST)).status is IntentStatus.PENDING
    assert second.intend(**effect("two", approval=DIGEST, step=2)).status is NEW
    with pytest.raises(ApprovalRequired):
        second.intend(**effect("three", approval=DIGEST, step=3))


@pytest.mark.parametrize("holds", ["nothing", "other arguments", "another action", "spent"])
def test_a_call_that_needs_an_approval_is_not_intended_without_one(ledger, run_id, lease, holds):
    """What the ledger does not hold, unspent and of exactly this action, it does not let pass; nothing is written."""
    if holds == "other arguments":
        grant(lease, digest=OTHER)
    elif holds != "nothing":
        grant(lease)
    if holds == "spent":
        lease.spent(tool="refund", key="earlier", approval=DIGEST)
    before = everything(ledger, run_id)
    tool = "mail" if holds == "another action" else "refund"
    with pytest.raises(ApprovalRequired, match=tool):
        lease.intend(**effect("k", tool=tool, approval=DIGEST))
    assert everything(ledger, run_id) == before


def test_a_call_on_record_spends_its_approval_once(ledger, run_id, lease):
    """Told of a recorded call again and again, by whatever attempt, one approval is spent by it, others are left."""
    grant(lease, step=1)
    grant(lease, step=2)
    for _ in range(2):
        lease.spent(tool="refund", key="k", approval=DIGEST)
        lease.release("pending")
        lease = taken(ledger, run_id)
    assert [(one.status, one.spent_key) for one in ledger.approvals(run_id)] == [("spent", "k"), ("granted", "")]
    lease.spent(tool="refund", key="other", approval=DIGEST)
    lease.spent(tool="refund", key="one too many", approval=DIGEST)  # the session has judged it; none is left
    assert [one.spent_key for one in ledger.approvals(run_id)] == ["k", "other"]
    with pytest.raises(ApprovalRequired):
        lease.intend(**effect("new", approval=DIGEST))


def test_an_approval_is_good_in_its_own_run(ledger, lease):
    """Another run, as a fork is, finds none of it: there it is granted anew."""
    grant(lease)
    other = begun(ledger, os.urandom(16))
    assert ledger.approvals(other.run_id) == []
    grant(other)
    assert other.intend(**effect("k", approval=DIGEST)).status is NEW
    assert [one.status for one in ledger.approvals(lease.run_id)] == ["granted"]


@pytest.mark.parametrize("granted", [True, False])
def test_a_person_answers_what_a_run_waits_for(ledger, run_id, lease, granted):
    """A question waits once, whatever the attempts; its answer is there for every later attempt, however often."""
    question = {"step": 3, "digest": DIGEST}
    lease.await_decision(name="ask", arguments=b"{}", **question)
    lease.release("pending")
    second = taken(ledger, run_id)
    second.await_decision(name="ask", arguments=b"{}", **question)
    assert second.decision(**question) is None
    (waiting,) = ledger.approvals(status="waiting")
    assert (waiting.run_id, waiting.step, waiting.action, waiting.arguments) == (run_id, 3, "ask", b"{}")
    second.release("pending")
    answered = ledger.answer(run_id, 3, granted=granted, by="ann", policy="p", allowed=["refund"])
    assert ledger.approvals(run_id) == [answered]
    for _ in range(2):
        lease = taken(ledger, run_id)
        assert lease.decision(**question) == Decision(granted, "ann", "p", ("refund",))
        assert lease.decision(step=3, digest=OTHER) is None
        assert lease.decision(step=4, digest=DIGEST) is None
        expire(ledger, run_id)


def test_one_answer_counts(ledger, run_id, lease):
    """Of two people who answer at the same time one is heard, the other told that nothing waits."""
    lease.await_decision(step=3, name="ask", digest=DIGEST, arguments=b"")

    def answer(number):
        try:
            return ledger.answer(run_id, 3, granted=True, by=f"person {number}").by
        except LedgerError:
            return None

    told = at_once(2, answer)
    assert told.count(None) == 1
    assert [one.by for one in ledger.approvals(run_id)] == [one for one in told if one]


# --- retention, and the database itself ---


def test_old_runs_go_whole_and_open_ones_stay(ledger):
    """Ended runs older than the time go with all their rows; held, pending, doubtful, waiting and young ones stay."""
    runs = {name: os.urandom(16) for name in ("ended", "failed", "held", "pending", "doubtful", "waiting", "young")}
    for name, run_id in runs.items():
        lease = begun(ledger, run_id)
        lease.intend(**effect("k"))
        if name != "doubtful":
            finish(lease)
        grant(lease)
        if name == "waiting":
            lease.await_decision(step=3, name="ask", digest=OTHER, arguments=b"")
        if name != "held":
            lease.release({"pending": "pending", "failed": "error"}.get(name, "ok"))
        set_run(ledger, run_id, updated_ns=1000 if name == "young" else 999)
    before = {name: everything(ledger, run_id) for name, run_id in runs.items()}
    assert ledger.prune(1000, dry_run=True) == 2
    assert {name: everything(ledger, run_id) for name, run_id in runs.items()} == before
    assert ledger.prune(1000) == 2
    for name, run_id in runs.items():
        gone = (None, [], [], [])
        assert everything(ledger, run_id) == (gone if name in {"ended", "failed"} else before[name]), name
    assert ledger.prune(1000) == 0


def left_behind(ledger, *, older_than, worker="elsewhere"):
    """Return the row of a run whose worker ended it on record, but not here, and was last heard of at 999."""
    run_id = os.urandom(16)
    lease = begun(ledger, run_id, worker)
    lease.intend(**effect("k"))
    finish(lease)
    set_run(ledger, run_id, updated_ns=older_than - 1, lease_expires_ns=1)
    return ledger.run(run_id)


def test_a_run_that_its_dead_worker_did_not_give_back_is_settled_by_its_recording(ledger):
    """Once its recording says that it ended it counts as ended: old ones go, young ones are given back."""
    old, young = left_behind(ledger, older_than=1000), left_behind(ledger, older_than=5000)
    held = begun(ledger, os.urandom(16))
    assert {run.run_id for run in ledger.left_running()} == {old.run_id, young.run_id}
    assert ledger.prune(1000) == 0
    ended = [(old, RunStatus.OK), (young, RunStatus.ERROR)]
    assert ledger.prune(1000, dry_run=True, ended=ended) == 1
    assert [ledger.run(run.run_id) for run in (old, young)] == [old, young]
    assert ledger.prune(1000, ended=ended) == 1
    assert everything(ledger, old.run_id) == (None, [], [], [])
    settled = ledger.run(young.run_id)
    assert (settled.status, settled.worker, settled.lease_expires_ns) == ("error", "", 0)
    assert (settled.fence, settled.updated_ns) == (young.fence, young.updated_ns)
    assert ledger.left_running() == []
    assert ledger.run(held.run_id).status == "running"


@pytest.mark.parametrize("meanwhile", ["taken over", "renewed", "given back"])
def test_a_run_that_came_back_meanwhile_is_not_settled(ledger, meanwhile):
    """What somebody did with a run after it was found left behind stands, and it does not go."""
    lease = begun(ledger, os.urandom(16))
    set_run(ledger, lease.run_id, updated_ns=999, lease_expires_ns=1)
    (found,) = ledger.left_running()
    if meanwhile == "taken over":
        taken(ledger, lease.run_id)
    elif meanwhile == "renewed":
        lease.renew()
    else:
        lease.release("pending")
    set_run(ledger, lease.run_id, updated_ns=999)
    before = ledger.run(lease.run_id)
    for dry_run in (True, False):
        assert ledger.prune(1000, dry_run=dry_run, ended=[(found, RunStatus.OK)]) == 0
    assert ledger.run(lease.run_id) == before


def test_a_settled_run_takes_no_word_of_its_stalled_worker(ledger):
    """A worker that only stalled, and whose run was settled, has lost it."""
    lease = begun(ledger, os.urandom(16))
    expire(ledger, lease.run_id)
    ledger.prune(1, ended=[(run, RunStatus.OK) for run in ledger.left_running()])
    before = everything(ledger, lease.run_id)
    for verb in VERBS.values():
        with pytest.raises(LeaseLost):
            verb(lease)
    assert everything(ledger, lease.run_id) == before
    assert before[0].status == "ok"


def test_what_is_in_use_is_held_or_waits_for_a_person(ledger):
    """Runs that are held, in doubt or wait for an answer are in use; ended, pending and left ones are not."""
    held, doubtful, waiting = begun(ledger, os.urandom(16)), in_doubt(ledger, os.urandom(16)), os.urandom(16)
    doubtful.release("pending")
    lease = begun(ledger, waiting)
    lease.await_decision(step=3, name="ask", digest=OTHER, arguments=b"")
    lease.release("pending")
    left_behind(ledger, older_than=1000)
    for status in ("ok", "pending"):
        begun(ledger, os.urandom(16)).release(status)
    assert ledger.in_use() == {held.run_id, doubtful.run_id, waiting}
    ledger.answer(waiting, 3, granted=True, by="ann")
    ledger.decide(doubtful.run_id, 4, happened=True, result=None, by="ann")
    assert ledger.in_use() == {held.run_id}


def test_runs_are_listed_by_their_status(ledger):
    """Runs come in the order they began, those of a status when asked for."""
    ids = [os.urandom(16) for _ in range(3)]
    leases = [begun(ledger, run_id) for run_id in ids]
    leases[1].release("ok")
    assert [run.run_id for run in ledger.runs()] == ids
    assert [run.run_id for run in ledger.runs(status="ok")] == [ids[1]]
    assert ledger.run(os.urandom(16)) is None


def test_a_ledger_of_a_newer_version_is_refused(url, ledger):
    """A ledger that a newer version wrote is not touched."""
    change(ledger, insert(schema.versions).values(version=schema.VERSION + 1))
    with pytest.raises(UnsupportedFormat, match=f"version {schema.VERSION + 1}"):
        open_ledger(url)


def test_processes_that_open_a_new_ledger_at_once_all_get_it(url, run_id):
    """Whoever is first makes the tables; the others find them."""
    with started(url, run_id, *"abcd") as workers:
        answers = [str(worker.ask("take_over")) for worker in workers]
    assert [answer.split(":")[0] for answer in answers] == ["1"] + ["RunBusy"] * 3


def test_a_commit_is_on_disk(ledger):
    """Every commit waits for the disk, whatever the server's default."""
    with ledger._database.writing() as connection:
        if connection.dialect.name == "sqlite":
            assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
            assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        else:
            assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"


def test_a_closed_ledger_says_so(ledger, lease):
    """After close nothing is opened behind the caller's back."""
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        lease.intend(**effect("k"))


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_lost_connection_is_made_anew(ledger, lease, postgres):
    """When the server has dropped the connections, the next write gets a new one."""
    engine = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"))
    engine.dispose()
    assert lease.intend(**effect("k")).status is NEW


def test_a_full_disk_is_told_and_loses_nothing(tmp_path, run_id):
    """When the file cannot grow a write fails as a LedgerError, and what was committed is still there."""
    url = ledger_url("file", tmp_path)
    with started(url, run_id, "w") as (worker,):
        assert worker.ask("take_over") == 1
        assert worker.ask("intend", key="before") == "new"
        worker.ask("limit_files", size=(tmp_path / "ledger.sqlite-wal").stat().st_size)
        assert worker.ask("intend", key="after").startswith("LedgerError: the ledger sqlite:///")
    ledger = open_ledger(url)
    assert [one.key for one in ledger.effects(run_id)] == ["before"]
    ledger.close()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("mysql://u@h/d", "not in mysql"),
        ("nonsense", "cannot be read"),
        ("sqlite:////proc/nothing/ledger.sqlite", "folder cannot be made"),
        ("sqlite:////proc/ledger.sqlite", "cannot be opened"),
        ("sqlite:///{tmp}/text", "not a database"),
        ("postgresql://someone:secret@127.0.0.1:1/d", "cannot be opened"),
    ],
)
def test_what_cannot_be_opened_is_a_wrong_setting(address, why, tmp_path):
    """A ledger that cannot be opened is a ConfigurationError that says why, and no password."""
    (tmp_path / "text").write_text("no database at all, and long enough to be looked at: " * 30)
    with pytest.raises(ConfigurationError, match=why) as caught:
        open_ledger(address.format(tmp=tmp_path))
    assert "secret" not in str(caught.value)


def test_a_missing_driver_names_the_extra(monkeypatch):
    """Without psycopg the message says what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"otel-agent-replay\[postgres\]"):
        open_ledger("postgresql://127.0.0.1:1/d")

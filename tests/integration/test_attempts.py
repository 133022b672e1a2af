"""Attempts and forks in a real lake: sealed whenever each process ends, read, queried and verified as one run."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.schema import SPANS
from otel_agent_replay.lake.verify import FindingKind, verify
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import LossReason, OutcomeStatus, RunStatus
from otel_agent_replay.wire.v1 import journal_pb2 as wire
from tests.support.attempts import bring, bring_and_seal, record
from tests.support.journal_runs import JournalRun, value

DEEDS = [
    ("tool", "a"),
    ("enter", "plan"),
    ("tool", "b"),
    ("read", "time.time"),
    ("tool", "c"),
    ("leave", ""),
    ("tool", "d"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def attempts(tmp_path: Path):
    """A run whose first process died in step 3, whose second died after it, and whose third ended it."""
    return record(tmp_path / "made", DEEDS, [(5, True), (6, False)])


def folders(attempts) -> list[Path]:
    return [path for path, _ in attempts]


def files(lake: Path, table: str = "spans") -> list[Path]:
    return sorted((lake / table).rglob("*.parquet"))


def steps(recorded) -> list[int]:
    return [node.step for node in recorded.nodes if node.step]


def fork_of(lake: Path, origin: JournalRun, step: int, name: str = "other") -> JournalRun:
    """Record a fork with one step of its own and put it into the lake's journal."""
    journal = Journal(lake)
    facts = {"first_sequence": 500 * step, "first_step": step, "mode": "fork"}
    run = JournalRun(journal, origin_run_id=origin.run_id, fork_step=step, **facts)
    run.tool(name, {"forked": True})
    run.finish()
    journal.close()
    return run


# --- sealing ---


def test_attempts_sealed_at_different_times_lie_in_the_hour_of_their_run(attempts, lake: Path) -> None:
    """Each sealing adds its attempt; the id of the run names where all of them lie."""
    run_id = attempts[0][1].run_id
    for number, path in enumerate(folders(attempts), 1):
        assert bring_and_seal([path], lake).runs == 1
        assert len(Lake(lake).load(run_id).attempts) == number
    assert len(files(lake)) == 3
    assert len({path.parent for path in files(lake)}) == 1
    assert steps(Lake(lake).load(run_id)) == [1, 2, 3, 4]


def test_sealing_an_attempt_twice_doubles_nothing(attempts, lake: Path) -> None:
    """A segment that comes back after its attempt was published adds no row."""
    bring_and_seal(folders(attempts), lake)
    rows = sum(pq.read_metadata(path).num_rows for path in files(lake))
    assert bring_and_seal(folders(attempts), lake).runs == 0
    assert bring_and_seal(folders(attempts)[1:], lake).runs == 0
    assert sum(pq.read_metadata(path).num_rows for path in files(lake)) == rows
    assert not list((lake / "journal").glob("*.log"))


def test_a_later_attempt_is_read_before_the_first_is_sealed(attempts, lake: Path) -> None:
    """It is there at once, its number kept, and what is missing is said until the others come."""
    run_id = attempts[0][1].run_id
    bring_and_seal(folders(attempts)[2:], lake)
    alone = Lake(lake).load(run_id)
    assert [attempt.number for attempt in alone.attempts] == [3]
    assert [loss.what for loss in alone.losses] == ["attempt"]
    assert [(finding.kind, finding.what) for finding in verify(alone)][:2] == [
        (FindingKind.MISSING, "attempt 1"),
        (FindingKind.MISSING, "attempt 2"),
    ]
    bring_and_seal(folders(attempts)[:2], lake)
    whole = Lake(lake).load(run_id)
    assert ([attempt.number for attempt in whole.attempts], whole.losses) == ([1, 2, 3], ())


def test_two_processes_that_made_the_same_attempt_are_both_kept(lake: Path, tmp_path: Path) -> None:
    """Without a ledger two workers may go on with one run: nothing of either is lost, whenever they are sealed."""
    ((first, run),) = record(tmp_path / "first", [("tool", "a")], [])
    bring_and_seal([first], lake)
    for worker in "xyz":
        journal = Journal(lake)
        other = JournalRun(journal, run_id=run.run_id, first_sequence=50, first_step=2, attempt=2, mode="resume")
        other.tool(worker)
        other.finish()
        journal.close()
        if worker == "x":
            seal(lake)
    assert seal(lake).runs == 2
    recorded = Lake(lake).load(run.run_id)
    assert [attempt.number for attempt in recorded.attempts] == [1, 2, 3, 4]
    assert {node.name for node in recorded.nodes if node.step} == {"a", "x", "y", "z"}
    assert recorded.losses == ()


def test_attempts_of_one_process_are_told_apart(lake: Path) -> None:
    """A process that goes on with its own run writes two attempts into one segment."""
    journal = Journal(lake)
    first = JournalRun(journal)
    first.begin("pay")
    first.finish(status="aborted")
    second = JournalRun(journal, run_id=first.run_id, first_sequence=50, first_step=2, attempt=2)
    second.tool("pay", "paid", step=1)
    second.finish()
    journal.close()
    report = seal(lake)
    assert (report.runs, report.losses) == (2, 0)
    recorded = Lake(lake).load(first.run_id)
    assert [attempt.status for attempt in recorded.attempts] == [RunStatus.ABORTED, RunStatus.OK]
    assert [node.outcome.status for node in recorded.nodes if node.step] == [OutcomeStatus.OK]
    assert len(recorded.superseded) == 1


def test_what_a_forked_child_records_belongs_to_the_attempt_it_was_forked_in(lake: Path) -> None:
    """The child's own journal names the run only; the time tells which attempt it was."""
    runs = []
    for number in (1, 2):
        facts = {} if number == 1 else {"run_id": runs[0].run_id, "first_sequence": 50, "first_step": 2}
        journal = Journal(lake)
        run = JournalRun(journal, attempt=number, **facts)
        runs.append(run)
        pid = os.fork()
        if pid == 0:
            run.journal = Journal(lake)
            run.tool(f"child{number}")
            run.journal.close()
            os._exit(0)
        os.waitpid(pid, 0)
        run.finish()
        journal.close()
    assert seal(lake).runs == 2
    recorded = Lake(lake).load(runs[0].run_id)
    assert recorded.losses == ()
    by_attempt = [[node.name for node in part.nodes if node.step] for part in recorded.stored]
    assert by_attempt == [["child1"], ["child2"]]


def test_late_records_of_an_attempt_are_not_taken_for_the_next_one(attempts, lake: Path) -> None:
    """Records that come after their attempt was sealed and gone are counted, not put into a later attempt."""
    (first, run), (second, _), _ = attempts
    bring_and_seal([first], lake)
    journal = Journal(lake)
    journal.append(wire.Record(node_ended=wire.NodeEnded(run_id=run.run_id, span_id=b"s" * 8, time_ns=1, status="ok")))
    journal.close()
    bring_and_seal([second], lake)
    losses = [(loss.reason, loss.what) for loss in Lake(lake).load(run.run_id).losses]
    assert losses == [(LossReason.LATE, "node_ended")]


# --- lists and SQL ---


def test_a_resumed_run_is_one_row_of_the_list(attempts, lake: Path) -> None:
    """Its totals are those of all attempts, a step that was made again counted once."""
    bring_and_seal(folders(attempts)[:1], lake)
    (summary,) = Lake(lake).runs()
    assert (summary.run.status, summary.step_count) == (RunStatus.PENDING, 3)
    bring_and_seal(folders(attempts)[1:], lake)
    (summary,) = Lake(lake).runs(limit=1)
    run_id = attempts[0][1].run_id
    assert (summary.run.status, summary.run.attempt, summary.run.mode) == (RunStatus.OK, 3, "record")
    assert summary.step_count == 4
    assert summary.run == Lake(lake).load(run_id).run
    assert Lake(lake).find(run_id.hex()[:9]) == run_id
    assert Lake(lake).find(attempts[1][1].trace_id.hex()) == run_id


def test_sql_shows_one_run_and_every_row_with_its_attempt(attempts, lake: Path) -> None:
    """The runs view has one row a run, those of its steps keep all of them."""
    bring_and_seal(folders(attempts), lake)
    run = Lake(lake).load(attempts[0][1].run_id).run
    with connect(lake) as connection:
        rows = connection.execute(
            "SELECT run_id, status, mode, attempt_count, step_count, process, trace_id, ended_at IS NULL FROM runs"
        ).fetchall()
        shown = connection.execute("SELECT attempt, step, outcome FROM steps ORDER BY step, attempt").fetchall()
        spans = connection.execute("SELECT DISTINCT attempt FROM spans WHERE root ORDER BY 1").fetchall()
    assert rows == [(run.run_id.hex(), "ok", "record", 3, 4, run.process, run.trace_id.hex(), False)]
    assert shown == [(1, 1, "ok"), (1, 2, "ok"), (1, 3, "pending"), (2, 3, "ok"), (3, 4, "ok")]
    assert spans == [(1,), (2,), (3,)]


def test_a_run_that_died_again_has_no_end(attempts, lake: Path) -> None:
    """What the last attempt does not say is not taken from an earlier one."""
    bring_and_seal(folders(attempts)[:2], lake)
    with connect(lake) as connection:
        rows = connection.execute("SELECT status, ended_at, attempt_count FROM runs").fetchall()
    assert rows == [("pending", None, 2)]


def test_siblings_are_the_runs_that_a_process_began(attempts, lake: Path) -> None:
    """A process that went on with a run did not begin it."""
    journal = Journal(lake)
    own = JournalRun(journal, ordinal=1)
    own.finish()
    run = attempts[0][1]
    again = JournalRun(journal, run_id=run.run_id, first_sequence=900, first_step=9, attempt=4, ordinal=0)
    again.finish()
    journal.close()
    bring_and_seal(folders(attempts), lake)
    assert Lake(lake).siblings(own.run_id) == [own.run_id]
    assert Lake(lake).siblings(run.run_id) == [run.run_id]


# --- verify ---


def test_each_attempt_is_held_against_its_own_manifest(attempts, lake: Path) -> None:
    """An altered row of the second attempt is named with that attempt; the others hold."""
    bring_and_seal(folders(attempts), lake)
    run_id = attempts[0][1].run_id
    assert verify(Lake(lake).load(run_id)) == []
    (path,) = [path for path in files(lake) if 2 in pq.ParquetFile(path).read(["attempt"]).column(0).to_pylist()]
    file = pq.ParquetFile(path)
    rows = file.read().to_pylist()
    next(row for row in rows if row["attempt"] == 2 and row["step"])["side_effect"] = "read"
    with pq.ParquetWriter(path, SPANS) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SPANS))
        writer.add_key_value_metadata({key.decode(): text.decode() for key, text in file.metadata.metadata.items()})
    found = verify(Lake(lake).load(run_id))
    assert [(finding.what, finding.attempt) for finding in found] == [("node", 2), ("manifest", 2)]


# --- forks ---


def test_a_fork_shares_its_beginning_and_its_origin_is_untouched(attempts, lake: Path) -> None:
    """The fork stores one step, is loaded with those before it, and the origin's files are what they were."""
    bring_and_seal(folders(attempts), lake)
    before = {path: path.read_bytes() for path in [*files(lake), *files(lake, "payloads")]}
    origin = attempts[0][1]
    fork = fork_of(lake, origin, 3)
    assert seal(lake).spans == 2
    loaded = Lake(lake).load(fork.run_id)
    assert steps(loaded) == [1, 2, 3]
    assert [node.name for node in loaded.nodes if node.step] == ["a", "b", "other"]
    assert loaded.payload(loaded.nodes[1].outcome.result.digest) == b'{"at": 0}'
    assert steps(Lake(lake).load(fork.run_id, whole=False)) == [3]
    assert verify(loaded) == []
    assert {path: path.read_bytes() for path in before} == before
    with connect(lake) as connection:
        query = "SELECT origin_run_id, fork_step, mode, step_count FROM runs WHERE fork_step IS NOT NULL"
        assert connection.execute(query).fetchall() == [(origin.run_id.hex(), 3, "fork", 1)]


def test_a_fork_of_a_fork_shares_with_both(attempts, lake: Path) -> None:
    """What the second fork shares is what the first one had, its origin's steps among it."""
    fork = fork_of(lake, attempts[0][1], 3)
    bring_and_seal(folders(attempts), lake)
    again = fork_of(lake, fork, 4, "more")
    seal(lake)
    loaded = Lake(lake).load(again.run_id)
    assert [(node.step, node.name) for node in loaded.nodes if node.step] == [
        (1, "a"),
        (2, "b"),
        (3, "other"),
        (4, "more"),
    ]


def test_a_resumed_fork_is_one_run(attempts, lake: Path) -> None:
    """A fork whose process died is finished by another attempt, and keeps what it shares."""
    bring_and_seal(folders(attempts), lake)
    fork = fork_of(lake, attempts[0][1], 3)
    more = {"run_id": fork.run_id, "attempt": 2, "first_sequence": 1600, "first_step": 4}
    journal = Journal(lake)
    second = JournalRun(journal, origin_run_id=attempts[0][1].run_id, fork_step=3, **more)
    second.tool("more")
    second.finish()
    journal.close()
    seal(lake)
    loaded = Lake(lake).load(fork.run_id)
    assert [node.name for node in loaded.nodes if node.step] == ["a", "b", "other", "more"]
    assert len(loaded.attempts) == 2
    (summary,) = [one for one in Lake(lake).runs() if one.run.run_id == fork.run_id]
    assert (summary.step_count, summary.run.attempt, summary.run.mode) == (2, 2, "fork")


def test_a_fork_whose_origin_is_gone_is_read_alone_and_verify_names_what_is_missing(attempts, lake: Path) -> None:
    """It loads with a loss; verify says which run it wants."""
    origin = attempts[0][1]
    fork = fork_of(lake, origin, 3)
    seal(lake)
    loaded = Lake(lake).load(fork.run_id)
    assert steps(loaded) == [3]
    assert [(loss.reason, loss.what) for loss in loaded.losses] == [(LossReason.NOT_COVERED, "shared steps")]
    (finding,) = verify(loaded)
    assert (finding.kind, finding.what) == (FindingKind.MISSING, "origin")
    assert origin.run_id.hex() in finding.detail


def test_a_fork_sealed_together_with_its_origin_has_the_recorded_answers(attempts, lake: Path) -> None:
    """What it was answered as recorded is written out of the origin, also while that lies in the journal."""
    for path in folders(attempts):
        bring(path, lake)
    journal = Journal(lake)
    facts = {"first_sequence": 900, "first_step": 2, "mode": "fork"}
    fork = JournalRun(journal, origin_run_id=attempts[0][1].run_id, fork_step=2, **facts)
    begun = wire.NodeBegun(
        run_id=fork.run_id, span_id=b"repeated", parent_span_id=fork.root, kind="tool", name="b", sequence=950, step=2
    )
    begun.side_effect, begun.source, begun.origin_step, begun.as_recorded = "write", "tape", 2, True
    ended = wire.NodeEnded(run_id=fork.run_id, span_id=b"repeated", end_sequence=951, status="ok", as_recorded=True)
    journal.append(wire.Record(node_begun=begun), wire.Record(node_ended=ended))
    fork.finish()
    journal.close()
    assert seal(lake).runs == 4
    own = Lake(lake).load(fork.run_id, whole=False)
    (node,) = [node for node in own.nodes if node.step]
    assert own.losses == ()
    assert own.payload(node.outcome.result.digest) == value({"at": 2}).data
    assert own.payload(node.call.request.digest) == value(["b", 2]).data


def test_a_fork_stores_the_bytes_that_its_own_steps_name(attempts, lake: Path) -> None:
    """A body that the origin has too lies with the fork: what a fork recorded is read without its origin."""
    bring_and_seal(folders(attempts), lake)
    journal = Journal(lake)
    fork = JournalRun(
        journal, origin_run_id=attempts[0][1].run_id, fork_step=2, first_sequence=500, first_step=2, mode="fork"
    )
    same = value(["a", 0])
    fork.tool("a", {"at": 0}, same, occurrence=1)
    fork.finish()
    journal.close()
    seal(lake)
    own = Lake(lake).load(fork.run_id, whole=False)
    assert own.kept == {same.digest, value({"at": 0}).digest}

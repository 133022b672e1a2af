"""Retention: whole hours go, spans and payloads alike, but not what a younger fork needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_agent_replay.errors import CannotJudge, RunNotFound
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.retaining import retain_lake
from otel_agent_replay.export.sealer import seal, seal_lock
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.layout import TABLES, all_partitions
from otel_agent_replay.lake.retention import retain
from otel_agent_replay.model import new_run_id
from otel_agent_replay.wire.v1 import journal_pb2 as wire
from tests.support.journal_runs import JournalRun

HOUR_MS = 3_600_000
FIRST_MS = 1_795_003_200_000  # 2026-11-18 12:00:00 UTC


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def make(lake: Path, hour: int, origin: JournalRun | None = None, **facts) -> JournalRun:
    """Record and seal a run that began in the middle of that hour; with `origin`, a fork."""
    journal = Journal(lake)
    if origin is not None:
        facts |= {"origin_run_id": origin.run_id, "fork_step": 2, "first_step": 2, "mode": "fork"}
    run = JournalRun(journal, run_id=new_run_id(FIRST_MS + hour * HOUR_MS + HOUR_MS // 2), **facts)
    run.tool("a", "x" * 2000)
    run.finish()
    journal.close()
    seal(lake)
    return run


def at(hour: int) -> int:
    return (FIRST_MS + hour * HOUR_MS) * 1_000_000


def there(lake: Path) -> set[bytes]:
    return {summary.run.run_id for summary in Lake(lake).runs()}


def test_hours_that_are_over_go_with_all_tables(lake: Path) -> None:
    """Runs of an hour go together with payloads and losses; the hour that is not over yet stays whole."""
    old, old_too, young = make(lake, 0), make(lake, 0), make(lake, 1)
    journal = Journal(lake)
    journal.append(wire.Record(loss=wire.Loss(reason="dropped", what="node", count=1, run_id=old.run_id)))
    journal.close()
    seal(lake)
    assert len(list((lake / "losses").rglob("hour=12/*"))) == 1
    sizes = [path.stat().st_size for path in lake.rglob("hour=12/*")]
    report = retain(lake, at(1) + 1)
    assert [(partition.date, partition.hour) for partition in report.partitions] == [("2026-11-18", "12")]
    assert (report.runs, report.files, report.size, report.kept) == (2, len(sizes), sum(sizes), [])
    assert there(lake) == {young.run_id}
    assert not list(lake.rglob("hour=12"))
    for run in (old, old_too):
        with pytest.raises(RunNotFound):
            Lake(lake).load(run.run_id)
    assert retain(lake, at(2)).runs == 1
    assert not list(lake.rglob("date=*"))


def test_an_hour_is_not_old_before_it_is_over(lake: Path) -> None:
    """The last moment of an hour counts, not its first."""
    make(lake, 0)
    assert retain(lake, at(1) - 1).partitions == []
    assert len(retain(lake, at(1)).partitions) == 1


def test_a_dry_run_deletes_nothing_and_says_the_same(lake: Path) -> None:
    """What it reports is what the real one does."""
    make(lake, 0)
    before = sorted(lake.rglob("*"))
    said = retain(lake, at(5), dry_run=True)
    assert sorted(lake.rglob("*")) == before
    done = retain(lake, at(5))
    assert (said.partitions, said.runs, said.files, said.size) == (done.partitions, done.runs, done.files, done.size)


def test_the_origin_of_a_younger_fork_stays_with_its_hour(lake: Path) -> None:
    """Origins of origins too; which fork it is for is told. When the fork is old, all of them go."""
    first = make(lake, 0)
    beside = make(lake, 0)
    second = make(lake, 1, first)
    alone = make(lake, 2)
    third = make(lake, 3, second)
    report = retain(lake, at(3))
    assert [(kept.run_id, kept.needed_by) for kept in report.kept] == [
        (first.run_id, second.run_id.hex()),
        (second.run_id, third.run_id.hex()),
    ]
    assert report.runs == 1
    assert there(lake) == {first.run_id, beside.run_id, second.run_id, third.run_id}
    assert [node.step for node in Lake(lake).load(third.run_id).nodes if node.step]
    assert alone.run_id not in there(lake)
    assert retain(lake, at(4)).runs == 4


def file_of(lake: Path, hour: int) -> Path:
    (path,) = (lake / "spans").rglob(f"hour={12 + hour}/*.parquet")
    return path


@pytest.mark.parametrize("tear", ["empty", "head", "half", "footer", "page"])
def test_the_origin_of_a_fork_in_a_torn_file_stays(lake: Path, tear: str) -> None:
    """Which run a fork in a torn file came from cannot be read, so nothing goes until the file is whole again."""
    origin, other = make(lake, 0), make(lake, 1)
    fork = make(lake, 2, origin)
    path = file_of(lake, 2)
    whole = path.read_bytes()
    torn = {"empty": b"", "head": whole[:50], "half": whole[: len(whole) // 2], "footer": whole[:-9]}
    damaged = bytearray(whole)
    damaged[4 : len(whole) // 2] = bytes(len(whole) // 2 - 4)
    path.write_bytes(torn.get(tear, bytes(damaged)))
    report = retain(lake, at(2))
    assert [(partition.date, partition.hour) for partition in report.in_doubt] == [
        ("2026-11-18", "12"),
        ("2026-11-18", "13"),
    ]
    assert (report.partitions, report.runs, report.files, report.kept) == ([], 0, 0, [])
    assert list(report.unreadable) == [path]
    assert "put a copy of the file back" in report.unreadable[path]
    assert there_beside(lake, path) == {origin.run_id, other.run_id}
    path.write_bytes(whole)
    report = retain(lake, at(2))
    assert [kept.run_id for kept in report.kept] == [origin.run_id]
    assert (report.runs, report.in_doubt, report.unreadable) == (1, [], {})
    assert there(lake) == {origin.run_id, fork.run_id}
    assert [node.step for node in Lake(lake).load(fork.run_id).nodes if node.step]


def there_beside(lake: Path, torn: Path) -> set[bytes]:
    """Return the runs in a lake without one file, which stays where it is."""
    aside = torn.rename(torn.with_suffix(".aside"))
    try:
        return there(lake)
    finally:
        aside.rename(torn)


def test_a_torn_file_of_an_old_hour_that_stays_keeps_the_others(lake: Path) -> None:
    """An old hour that somebody needs stays, and what a fork in its torn file came from stays with it."""
    first = make(lake, 0)
    held = make(lake, 1, first)
    path = file_of(lake, 1)
    path.write_bytes(path.read_bytes()[:-9])
    report = retain(lake, at(5), needed={held.run_id: "a hold"})
    assert [kept.needed_by for kept in report.kept] == ["a hold"]
    assert [partition.hour for partition in report.in_doubt] == ["12"]
    assert list(report.unreadable) == [path]
    assert there_beside(lake, path) == {first.run_id}
    assert len(retain(lake, at(5)).partitions) == 2  # nobody needs it any more: it is old, and goes


def test_a_torn_file_out_of_the_lake_holds_nothing_up(lake: Path, tmp_path: Path) -> None:
    """Who has no copy of it moves it out; what is old goes then."""
    make(lake, 0)
    young = make(lake, 1)
    path = file_of(lake, 1)
    path.write_bytes(b"PAR1")
    assert retain(lake, at(1)).partitions == []
    path.rename(tmp_path / path.name)
    assert retain(lake, at(1)).runs == 1
    assert young.run_id not in there(lake)


def test_an_old_file_that_cannot_be_read_goes_too(lake: Path) -> None:
    """Forks in it go with it: nobody asks any more what they came from."""
    make(lake, 0)
    (path,) = (lake / "spans").rglob("*.parquet")
    path.write_bytes(b"PAR1")
    report = retain(lake, at(1))
    assert (report.runs, len(report.partitions), report.in_doubt) == (0, 1, [])


def test_what_the_journal_goes_on_with_stays(lake: Path) -> None:
    """A resumed run and the origin of a fork that are not sealed yet keep their hours."""
    resumed, origin, other = make(lake, 0), make(lake, 1), make(lake, 2)
    journal = Journal(lake)
    JournalRun(journal, run_id=resumed.run_id, attempt=2)
    JournalRun(journal, origin_run_id=origin.run_id, fork_step=2)
    report = retain_lake(lake, at(5))
    journal.close()
    assert sorted(kept.run_id for kept in report.kept) == sorted([resumed.run_id, origin.run_id])
    assert there(lake) == {resumed.run_id, origin.run_id}
    assert other.run_id not in there(lake)


def test_retention_waits_for_a_sealer_and_says_when_it_cannot(lake: Path) -> None:
    """Nothing is deleted while somebody publishes."""
    run = make(lake, 0)
    with seal_lock(lake, 0.0) as held:
        assert held
        with pytest.raises(CannotJudge, match="seals"):
            retain_lake(lake, at(5), wait_s=0.0)
    assert there(lake) == {run.run_id}
    assert retain_lake(lake, at(5)).runs == 1


def test_an_absent_lake_has_nothing_to_delete(tmp_path: Path) -> None:
    """It is not made."""
    assert retain_lake(tmp_path / "none", at(5)).partitions == []
    assert not (tmp_path / "none").exists()


def test_foreign_folders_are_left_alone(lake: Path) -> None:
    """Only folders that a lake makes are hours."""
    for name in ("date=2026-11-18/hour=99", "date=now/hour=01", "other/hour=01"):
        (lake / "spans" / name).mkdir(parents=True)
    assert all_partitions(lake) == []
    assert retain(lake, at(50)).partitions == []
    assert len(TABLES) == 4

"""A run as it stands now, while its writer lives, is stopped or is dead, and while somebody seals."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from otel_agent_replay.errors import RunNotFound, UnsupportedFormat
from otel_agent_replay.export import unsealed
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.export.segments import list_segments
from otel_agent_replay.export.unsealed import load_process, load_run
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import LossReason, OutcomeStatus, RunStatus, new_run_id
from otel_agent_replay.wire.frames import frame
from otel_agent_replay.wire.v1 import journal_pb2 as wire
from tests.support.attempts import bring, bring_and_seal, record, told
from tests.support.journal_files import segment_paths
from tests.support.journal_runs import NOW_NS, JournalRun, value

DEEDS = [("tool", "a"), ("tool", "b"), ("read", "time.time"), ("tool", "c")]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def journal(lake: Path):
    opened = Journal(lake)
    yield opened
    opened.close()


def names(recorded) -> list[str]:
    return [node.name for node in recorded.nodes if node.step]


def test_a_run_is_read_out_of_a_segment_that_is_still_written(journal: Journal, lake: Path) -> None:
    """Each record is there as soon as it was written; the writer goes on, and its segment stays locked."""
    run = JournalRun(journal, given=value("in"))
    run.tool("a", 1)
    span_id = run.begin("b", value(["b" * 900]))
    recorded = load_run(lake, run.run_id.hex())
    assert (recorded.run.status, names(recorded)) == (RunStatus.PENDING, ["a", "b"])
    assert recorded.nodes[-1].outcome.status is OutcomeStatus.PENDING
    assert recorded.payload(recorded.nodes[-1].call.request.digest) == value(["b" * 900]).data
    assert [segment.closed for segment in list_segments(lake)] == [False]
    run.end(span_id, value(2))
    run.finish()
    assert load_run(lake, run.run_id.hex()).run.status is RunStatus.OK
    assert len(segment_paths(lake)) == 1


def test_half_a_record_is_not_read_and_not_a_loss(journal: Journal, lake: Path) -> None:
    """A writer may be in the middle of a write: what it has begun is not there yet."""
    run = JournalRun(journal)
    run.tool("a", 1)
    with segment_paths(lake)[0].open("ab") as file:
        file.write(frame(b"x" * 90)[:40])
    recorded = load_run(lake, run.run_id.hex())
    assert (names(recorded), recorded.losses) == (["a"], ())


def test_a_stopped_process_hinders_nobody(lake: Path) -> None:
    """With its writer stopped in mid-run and its lock held, the run is read in full."""
    read, write = os.pipe()
    run_id = new_run_id(NOW_NS // 1_000_000)
    pid = os.fork()
    if pid == 0:
        run = JournalRun(Journal(lake), run_id=run_id)
        run.tool("a", 1)
        run.begin("b")
        os.write(write, b".")
        signal.pause()
        os._exit(0)
    try:
        os.read(read, 1)
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        assert names(load_run(lake, run_id.hex())) == ["a", "b"]
        assert seal(lake).runs == 0
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)
        os.close(write)


def test_attempts_in_lake_and_journal_are_one_run(lake: Path, tmp_path: Path) -> None:
    """The first attempt is sealed, the second lies in the journal: what was in flight is superseded."""
    attempts = record(tmp_path / "made", DEEDS, [(2, True)])
    bring_and_seal([attempts[0][0]], lake)
    bring(attempts[1][0], lake)
    recorded = load_run(lake, attempts[0][1].run_id.hex())
    assert [attempt.number for attempt in recorded.attempts] == [1, 2]
    assert (names(recorded), len(recorded.superseded)) == (["a", "b", "c"], 1)
    assert recorded.run.status is RunStatus.OK
    seal(lake)
    assert told(load_run(lake, attempts[0][1].run_id.hex())) == told(recorded)


def test_a_fork_finds_its_origin_wherever_it_lies(journal: Journal, lake: Path, tmp_path: Path) -> None:
    """Origin unsealed or sealed, the fork of a live process has what came before it."""
    ((origin, run),) = record(tmp_path / "made", DEEDS, [])
    bring(origin, lake)
    fork = JournalRun(journal, origin_run_id=run.run_id, fork_step=2, first_sequence=99, first_step=2, mode="fork")
    fork.tool("other")
    assert names(load_run(lake, fork.run_id.hex())) == ["a", "other"]
    assert seal(lake).runs == 1
    assert names(load_run(lake, fork.run_id.hex())) == ["a", "other"]


def test_a_fork_without_origin_says_so(journal: Journal, lake: Path) -> None:
    """It is read alone, with a loss."""
    fork = JournalRun(journal, origin_run_id=b"o" * 16, fork_step=2, first_step=2, mode="fork")
    recorded = load_run(lake, fork.run_id.hex())
    assert [loss.reason for loss in recorded.losses] == [LossReason.NOT_COVERED]


def test_a_run_is_found_by_a_unique_beginning_of_its_id(journal: Journal, lake: Path, tmp_path: Path) -> None:
    """Prefixes and trace ids are looked up in lake and journal together; what fits several is refused."""
    ((sealed, run),) = record(tmp_path / "made", DEEDS, [])
    bring_and_seal([sealed], lake)
    other = JournalRun(journal, run_id=bytes([run.run_id[0]]) + bytes([run.run_id[1] ^ 1]) + run.run_id[2:])
    assert load_run(lake, run.run_id.hex()[:9]).run.run_id == run.run_id
    assert load_run(lake, other.run_id.hex()[:9].upper()).run.run_id == other.run_id
    assert load_run(lake, other.trace_id.hex()[:20]).run.run_id == other.run_id
    assert load_run(lake, run.trace_id.hex()).run.run_id == run.run_id
    with pytest.raises(RunNotFound) as caught:
        load_run(lake, run.run_id.hex()[:2])
    assert set(caught.value.candidates) == {run.run_id.hex(), other.run_id.hex()}
    for text in ("ffff", "", "xyz", "0" * 33):
        with pytest.raises(RunNotFound):
            load_run(lake, text)
    with pytest.raises(RunNotFound):
        load_run(tmp_path / "absent", "0198")


def test_the_runs_of_a_process_come_with_the_one_that_was_asked_for(journal: Journal, lake: Path) -> None:
    """Itself first, then the others in the order in which they were begun, sealed or not."""
    first = JournalRun(journal, ordinal=0)
    first.finish()
    assert seal(lake).runs == 1
    second, third = JournalRun(journal, ordinal=1), JournalRun(journal, ordinal=2)
    found = load_process(lake, second.run_id.hex())
    assert [one.run.run_id for one in found] == [second.run_id, first.run_id, third.run_id]


def test_a_segment_that_is_sealed_between_listing_and_reading_is_in_the_lake(
    journal: Journal, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is found there, whole."""
    run = JournalRun(journal)
    run.tool("a")
    run.finish()
    real = unsealed.visible_segments

    def listed(folder: Path):
        segments = real(folder)
        assert seal(lake).segments_removed == 1
        return segments

    monkeypatch.setattr(unsealed, "visible_segments", listed)
    assert names(load_run(lake, run.run_id.hex())) == ["a"]


def test_reading_goes_on_while_a_sealer_seals(lake: Path) -> None:
    """At every moment of a sealing each run is there exactly once, whole."""
    runs = []
    for _ in range(12):
        journal = Journal(lake)
        run = JournalRun(journal)
        run.tool("a")
        run.tool("b")
        run.finish()
        journal.close()
        runs.append(run)
    sealing = threading.Thread(target=seal, args=(lake,))
    sealing.start()
    looked = 0
    while sealing.is_alive() or not looked:
        for run in runs:
            recorded = load_run(lake, run.run_id.hex())
            assert (names(recorded), len(recorded.attempts), recorded.losses) == (["a", "b"], 1, ())
        looked += 1
    sealing.join()
    assert len(Lake(lake).runs()) == 12


def test_a_segment_of_a_newer_version_is_refused_by_name(lake: Path) -> None:
    """A run that lies in it is not read half."""
    header = wire.SegmentHeader(format_version=9, reader_version=9, writer="w", segment=1)
    begun = wire.RunBegun(run_id=b"r" * 16, span_id=b"s" * 8, agent="new")
    (lake / "journal").mkdir(parents=True)
    data = b"".join(
        frame(one.SerializeToString()) for one in (wire.Record(header=header), wire.Record(run_begun=begun))
    )
    (lake / "journal" / "w-000001.log").write_bytes(data)
    with pytest.raises(UnsupportedFormat, match="w-000001"):
        load_run(lake, (b"r" * 16).hex())

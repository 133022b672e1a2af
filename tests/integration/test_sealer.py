"""Sealing real segments into a real lake."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from otel_agent_replay.export import sealer
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.sealer import SealReport, seal, spawn_sealer
from otel_agent_replay.lake import writer
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import Kind, LossReason, OutcomeStatus, Payload, RunStatus, new_run_id, run_started_ms
from otel_agent_replay.wire import convert
from otel_agent_replay.wire.frames import frame, read_frames
from otel_agent_replay.wire.v1 import journal_pb2 as wire
from tests.support.journal_files import a_loss, segment_paths
from tests.support.journal_runs import NOW_NS, JournalRun, foreign, value

ROOT = Path(__file__).parents[2]


def rows(lake: Path, table: str) -> list[dict]:
    return [row for path in sorted((lake / table).rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def losses(lake: Path) -> list[tuple[str, str, int]]:
    return sorted((row["reason"], row["what"], row["count"]) for row in rows(lake, "losses"))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def journal(lake: Path):
    opened = Journal(lake, header_fields={"service": "shop", "recorder_version": "9"})
    yield opened
    opened.close()


def test_a_lake_without_a_journal_is_sealed_already(lake: Path) -> None:
    """Sealing where nothing was recorded does nothing and makes nothing."""
    assert seal(lake) == SealReport()
    assert not lake.exists()


def test_a_finished_run_is_sealed_and_its_segment_removed(journal: Journal, lake: Path) -> None:
    """A run that has ended is in the lake, whole, at once, while its process lives on."""
    run = JournalRun(journal, given=value("in"), thread_id="t1", subject="ann", entry="app:main", hash_seed="0")
    outer = run.begin("outer", kind=Kind.SCOPE)
    span_id = run.begin("refund", value({"amount": 5}), parent=outer)
    run.reads([(Kind.CLOCK, "time.time", 12.5), (Kind.ENV, "os.environ[X]", None)], span_id)
    run.end(span_id, value({"ok": True}))
    run.end(outer)
    run.finish(output=value("out"), versions=[wire.Version(name="code", value="abc")])
    report = seal(lake)
    assert (report.runs, report.spans, report.segments_removed, report.losses) == (1, 3, 1, 0)
    assert segment_paths(lake) == []
    recorded = Lake(lake).load(run.run_id)
    facts = recorded.run
    assert (facts.agent, facts.status, facts.service, facts.process) == ("desk", RunStatus.OK, "shop", journal.writer)
    assert (facts.thread_id, facts.subject, facts.entry, facts.hash_seed) == ("t1", "ann", "app:main", "0")
    assert facts.versions.code == "abc"
    root, scope, refund = recorded.nodes
    assert recorded.payload(root.call.request.digest) == b'"in"'
    assert recorded.payload(root.outcome.result.digest) == b'"out"'
    assert scope.call is None
    assert refund.path == ("run:desk#0", "scope:outer#0", "tool:refund#0")
    assert [(read.name, read.value) for read in refund.reads] == [("time.time", 12.5), ("os.environ[X]", None)]
    assert recorded.payload(refund.outcome.result.digest) == b'{"ok": true}'
    span = recorded.spans[2].span
    assert (span.scope.name, span.scope.version) == ("otel_agent_replay", "9")
    assert span.resource.attributes == {"service.name": "shop"}
    assert span.parent_span_id == outer


def test_a_run_that_is_still_open_stays_in_the_journal(journal: Journal, lake: Path) -> None:
    """An open run of a live process is not sealed, also when its first segment is closed."""
    run = JournalRun(journal)
    run.tool()
    journal.rotate()
    run.tool()
    report = seal(lake)
    assert (report.runs, report.segments_removed, report.open_segments) == (0, 0, 1)
    run.finish()
    report = seal(lake)
    assert (report.runs, report.spans, report.segments_removed) == (1, 3, 2)


def test_an_ended_run_leaves_a_segment_that_another_run_holds(journal: Journal, lake: Path) -> None:
    """A run that has ended is published once, although its segment stays for the sake of a run that is open."""
    open_run = JournalRun(journal)
    ended = JournalRun(journal)
    ended.tool()
    ended.finish()
    journal.rotate()
    open_run.tool()
    assert seal(lake).runs == 1
    assert seal(lake).runs == 0
    assert len(segment_paths(lake)) == 2
    open_run.finish()
    report = seal(lake)
    assert (report.runs, report.segments_removed) == (1, 2)
    assert Counter(row["run_id"] for row in rows(lake, "spans")) == {ended.run_id: 2, open_run.run_id: 2}


def test_ended_runs_can_be_taken_from_an_open_segment(journal: Journal, lake: Path) -> None:
    """With only_closed off, what has ended is published from a segment that is still written, which stays."""
    open_run = JournalRun(journal)
    ended = JournalRun(journal)
    ended.finish()
    assert seal(lake).runs == 0
    assert seal(lake, only_closed=False).runs == 1
    assert seal(lake, only_closed=False).runs == 0
    open_run.finish()
    assert seal(lake).runs == 1
    assert len(Lake(lake).runs()) == 2


def test_a_dead_process_leaves_a_pending_run(lake: Path) -> None:
    """A run whose process died is sealed as pending; an unfinished crossing keeps what had come of its body."""
    pid = os.fork()
    if pid == 0:
        run = JournalRun(Journal(lake), run_id=new_run_id(NOW_NS // 1_000_000))
        run.tool("done")
        span_id = run.begin("chat", kind=Kind.MODEL)
        part = wire.PartialResult(run_id=run.run_id, span_id=span_id, data=b'data: {"a"')
        part.response.status = 200
        part.response.headers.add(name="Content-Type", value="text/event-stream")
        part.chunking.sizes.append(10)
        part.chunking.after_ns_delta.append(7)
        run.journal.append(wire.Record(partial=part))
        os._exit(0)
    os.waitpid(pid, 0)
    assert seal(lake).runs == 1
    (summary,) = Lake(lake).runs()
    recorded = Lake(lake).load(summary.run.run_id)
    assert (recorded.run.status, recorded.run.ended_ns) == (RunStatus.PENDING, 0)
    done, chat = recorded.nodes[1:]
    assert done.outcome.status is OutcomeStatus.OK
    assert (chat.outcome.status, chat.end_sequence) == (OutcomeStatus.PENDING, 0)
    assert recorded.payload(chat.outcome.result.digest) == b'data: {"a"'
    assert chat.outcome.result.media_type == "text/event-stream"
    assert [(chunk.size, chunk.after_ns) for chunk in chat.outcome.chunks] == [(10, 7)]
    assert recorded.spans[2].span.end_ns == 0


def test_spans_without_a_run_are_rows_without_a_run(journal: Journal, lake: Path) -> None:
    """A plain service's spans are kept, once each, with run_id null."""
    twice = foreign("GET /")
    journal.append(foreign("SELECT"), twice, twice)
    journal.rotate()
    journal.append(foreign("GET /b", trace_id=b"t" * 16), a_loss(1))
    journal.rotate()
    report = seal(lake)
    assert (report.runs, report.spans, report.segments_removed) == (0, 3, 2)
    found = rows(lake, "spans")
    assert {row["name"] for row in found} == {"SELECT", "GET /", "GET /b"}
    assert {row["run_id"] for row in found} == {None}
    assert losses(lake) == [("internal", "probe", 1)]


def test_parts_of_a_trace_that_come_at_different_times_are_all_kept(journal: Journal, lake: Path) -> None:
    """Two sealings of spans of one trace that start at the same moment make two files, not one over the other."""
    for name in ("first", "second"):
        journal.append(foreign(name, trace_id=b"t" * 16))
        journal.rotate()
        seal(lake)
    assert sorted(row["name"] for row in rows(lake, "spans")) == ["first", "second"]


def test_foreign_spans_lie_in_their_run(journal: Journal, lake: Path) -> None:
    """A span of another library that ended inside a run is a row of the run, with its own resource and scope."""
    run = JournalRun(journal)
    span_id = run.begin("db")
    journal.append(foreign("SELECT", run_id=run.run_id, trace_id=run.trace_id, parent=span_id))
    run.end(span_id)
    run.finish()
    seal(lake)
    recorded = Lake(lake).load(run.run_id)
    (select,) = (span for span in recorded.spans if span.node is None)
    assert (select.span.name, select.span.scope.name) == ("SELECT", "other.library")
    assert select.span.parent_span_id == span_id


def test_what_comes_after_its_run_is_kept_and_said(journal: Journal, lake: Path) -> None:
    """A foreign span that ends after its run was sealed becomes a row without a run, and the lateness a loss."""
    run = JournalRun(journal)
    run.finish()
    seal(lake)
    journal.append(foreign("late", run_id=run.run_id, trace_id=run.trace_id))
    run.tool()
    journal.rotate()
    assert seal(lake).segments_removed == 1
    late = [row for row in rows(lake, "spans") if row["name"] == "late"]
    assert [row["run_id"] for row in late] == [None]
    assert losses(lake) == [("late", "foreign", 1), ("late", "node_begun", 1), ("late", "node_ended", 1)]
    assert {row["run_id"] for row in rows(lake, "losses")} == {run.run_id}


def test_late_records_of_a_segment_that_stayed(journal: Journal, lake: Path) -> None:
    """Also where the run was sealed from a segment that stayed, records that came after are late, not lost."""
    other = JournalRun(journal)
    run = JournalRun(journal)
    run.finish()
    journal.rotate()
    assert seal(lake).runs == 1
    journal.append(foreign("late", run_id=run.run_id, trace_id=run.trace_id))
    other.finish()
    seal(lake)
    assert losses(lake) == [("late", "foreign", 1)]
    assert sum(row["name"] == "late" for row in rows(lake, "spans")) == 1


def test_records_of_a_forked_child_join_the_run(lake: Path) -> None:
    """What a child process recorded inside its parent's run is a part of that run."""
    journal = Journal(lake)
    run = JournalRun(journal)
    pid = os.fork()
    if pid == 0:
        run.tool("in the child")
        os._exit(0)
    os.waitpid(pid, 0)
    assert seal(lake).segments_removed == 0  # the parent's run is open: the child's segment waits for it
    run.tool("in the parent")
    run.finish()
    report = seal(lake)
    assert (report.runs, report.spans, report.segments_removed) == (1, 3, 2)
    assert {node.name for node in Lake(lake).load(run.run_id).nodes[1:]} == {"in the child", "in the parent"}


def test_records_of_a_run_whose_begin_was_lost_keep_nothing_back(journal: Journal, lake: Path) -> None:
    """Records of a run that never began anywhere are counted and go, although the process writes on."""
    stray = JournalRun(journal)
    stray.tool()
    journal.rotate()
    (first, second) = segment_paths(lake)
    frames = read_frames(first.read_bytes())
    kept = [raw for _, raw in frames if not wire.Record.FromString(raw).HasField("run_begun")]
    first.write_bytes(b"".join(map(frame, kept)))
    report = seal(lake)
    assert (report.runs, report.segments_removed, report.open_segments) == (0, 1, 1)
    assert losses(lake) == [("late", "node_begun", 1), ("late", "node_ended", 1)]
    assert segment_paths(lake) == [second]


def test_a_torn_tail_is_cut_and_counted(journal: Journal, lake: Path) -> None:
    """A segment that ends in half a frame gives all before it; the tail is a row in `losses`."""
    run = JournalRun(journal)
    run.tool()
    run.finish()
    (path,) = segment_paths(lake)
    whole = path.read_bytes()
    path.write_bytes(whole + frame(b"x" * 100)[:50])
    report = seal(lake)
    assert report.runs == 1
    assert [(torn.lost_bytes, torn.cut) for torn in report.torn] == [(50, True)]
    assert losses(lake) == [("torn", "journal segment", 1)]
    assert list((lake / "journal").glob("*.damaged")) == []


def test_a_damaged_segment_is_kept_aside(journal: Journal, lake: Path) -> None:
    """When a frame in the middle does not hold, what is before it is sealed and the file is kept for inspection."""
    run = JournalRun(journal)
    run.tool("first")
    size = segment_paths(lake)[0].stat().st_size
    run.tool("second")
    run.finish()
    (path,) = segment_paths(lake)
    data = bytearray(path.read_bytes())
    data[size + 20] ^= 1
    path.write_bytes(data)
    report = seal(lake)
    assert report.runs == 1
    assert [torn.cut for torn in report.torn] == [False]
    recorded = Lake(lake).load(run.run_id)
    assert [node.name for node in recorded.nodes] == ["desk", "first"]
    assert recorded.run.status is RunStatus.PENDING
    assert [file.read_bytes() for file in (lake / "journal").glob("*.damaged")] == [bytes(data)]
    assert segment_paths(lake) == []


def test_a_file_of_zeros_and_an_empty_one_keep_nothing_out(journal: Journal, lake: Path) -> None:
    """Segments that a power loss left empty or full of zeros are counted, and the others are sealed."""
    run = JournalRun(journal)
    run.finish()
    (lake / "journal" / "20200101T000000-1-aaaa-000001.log").write_bytes(b"")
    (lake / "journal" / "20200101T000000-1-bbbb-000001.log").write_bytes(bytes(4096))
    report = seal(lake)
    assert (report.runs, report.segments_removed) == (1, 3)
    assert losses(lake) == [("torn", "journal segment", 1)]


def test_a_segment_of_a_newer_format_is_left_alone(journal: Journal, lake: Path) -> None:
    """A segment that asks for a newer reader is reported and stays."""
    run = JournalRun(journal)
    run.finish()
    header = wire.SegmentHeader(format_version=9, reader_version=9, writer="w", segment=1)
    newer = lake / "journal" / "20990101T000000-1-cccc-000001.log"
    newer.write_bytes(frame(wire.Record(header=header).SerializeToString()))
    report = seal(lake)
    assert report.runs == 1
    assert report.unreadable == [newer.stem]
    assert segment_paths(lake) == [newer]


def test_losses_of_a_run_and_of_none(journal: Journal, lake: Path) -> None:
    """Losses that name a run go with it, the others by themselves; a node whose begin was lost is one."""
    run = JournalRun(journal)
    journal.append(wire.Record(loss=wire.Loss(reason="truncated", what="body", count=2, run_id=run.run_id)))
    run.end(b"nobody!!")
    run.finish()
    seal(lake)
    recorded = Lake(lake).load(run.run_id)
    assert sorted((loss.reason, loss.what, loss.count) for loss in recorded.losses) == [
        (LossReason.DROPPED, "node", 1),
        (LossReason.TRUNCATED, "body", 2),
    ]


def test_one_bad_run_does_not_keep_the_others_out(
    journal: Journal, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that cannot be assembled or written is reported, its segment stays; the other runs are sealed."""
    keep_open = JournalRun(journal)
    unreadable, unwritable, good = JournalRun(journal), JournalRun(journal), JournalRun(journal)
    bad = wire.NodeBegun(run_id=unreadable.run_id, span_id=b"12345678", kind="no such kind", sequence=2)
    journal.append(wire.Record(node_begun=bad))
    for run in (unreadable, unwritable, good):
        run.finish()
    keep_open.finish()
    real = writer.write_runs

    def write_runs(lake, runs, **kwargs):
        if any(run.run.run_id == unwritable.run_id for run in runs):
            raise ValueError("cannot be written")
        return real(lake, runs, **kwargs)

    monkeypatch.setattr(writer, "write_runs", write_runs)
    report = seal(lake)
    assert {run for run, _ in report.failed} == {unreadable.run_id.hex(), unwritable.run_id.hex()}
    assert report.runs == 2
    assert len(segment_paths(lake)) == 1
    monkeypatch.undo()
    assert seal(lake).runs == 1
    assert {summary.run.run_id for summary in Lake(lake).runs()} == {
        run.run_id for run in (keep_open, unwritable, good)
    }


def test_two_sealers_at_once_double_nothing(journal: Journal, lake: Path) -> None:
    """Two processes that seal the same lake at the same time leave each run in it once."""
    runs = [JournalRun(journal) for _ in range(20)]
    for run in runs:
        run.tool()
        run.finish()
    journal.append(foreign("SELECT"))
    journal.rotate()
    command = [sys.executable, "-m", "otel_agent_replay.export.sealer", str(lake)]
    sealers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate()[0] for process in sealers]
    assert [process.returncode for process in sealers] == [0, 0, 0]
    assert sum("sealed 20 runs, 41 spans" in output for output in outputs) == 1
    found = Counter(row["run_id"] for row in rows(lake, "spans"))
    assert found == {None: 1, **{run.run_id: 2 for run in runs}}


def test_a_busy_lake_is_said(journal: Journal, lake: Path) -> None:
    """A sealer that does not get the lock in time says so and does nothing."""
    JournalRun(journal).finish()
    with sealer.seal_lock(lake, 0) as held:
        assert held
        result = []
        thread = threading.Thread(target=lambda: result.append(seal(lake, wait_s=0.05)))
        thread.start()
        thread.join()
    assert result == [SealReport(busy=True)]
    assert seal(lake).runs == 1


def children() -> set[int]:
    """Return the processes whose parent is this one; other tests of this process may have some."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended while we looked
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found.add(int(status.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see whose children there are")
def test_a_spawned_sealer_is_nobodys_child(journal: Journal, lake: Path) -> None:
    """The sealer runs beside the host: it seals, and the host has no child to wait for."""
    JournalRun(journal).finish()
    before = children()
    spawn_sealer(lake)
    assert children() <= before
    deadline = time.monotonic() + 60
    while segment_paths(lake) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert segment_paths(lake) == []
    assert len(Lake(lake).runs()) == 1


def everything(lake: Path) -> dict[str, Counter]:
    """Return all rows of a lake as multisets, without the numbers of packs."""
    spans = Counter((row["run_id"], row["span_id"], row["name"], row["outcome"]) for row in rows(lake, "spans"))
    payloads = Counter((row["role"], row["data"]) for row in rows(lake, "payloads"))
    return {"spans": spans, "payloads": payloads, "losses": Counter(map(str, losses(lake)))}


def fill(lake: Path) -> None:
    """Write a journal that holds some of everything, as a dead process leaves it."""
    journal = Journal(lake, segment_bytes=4000)
    whole, later = (
        JournalRun(journal, given=value("in")),
        JournalRun(journal, run_id=new_run_id(NOW_NS // 1_000_000 + 3_600_000)),
    )
    journal.append(foreign("SELECT"), a_loss(1))
    for number in range(6):
        whole.tool(f"tool{number}", {"n": number}, Payload.of(b"x" * 900 + bytes([number]), "text/plain"))
    whole.finish(output=value("out"))
    later.tool("other hour")
    journal.append(foreign("late", run_id=b"r" * 16))
    later.begin("unfinished")
    journal.append(wire.Record(loss=convert.loss_to_wire(_loss(later.run_id))))
    journal.close()
    last = segment_paths(lake)[-1]
    last.write_bytes(last.read_bytes() + b"\x20\0\0")


def _loss(run_id: bytes):
    from otel_agent_replay.model import Loss

    return Loss(LossReason.SAMPLED, "read", 3, "", run_id)


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.soak), 4])
def test_a_sealer_that_dies_at_any_point_doubles_and_loses_nothing(tmp_path: Path, every: int) -> None:
    """Killed before each of its changes on disk, then run again beside new segments, it leaves the very same lake."""
    fill(tmp_path / "template")
    more = Journal(tmp_path / "more")
    newcomer = JournalRun(more)
    newcomer.tool("newcomer")
    newcomer.finish()
    command = [sys.executable, "-m", "tests.support.killed_sealer"]
    folders = [str(tmp_path / name) for name in ("template", "sealed", "more")]
    done = subprocess.run([*command, *folders, str(every)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    deaths = [int(number) for number in done.stdout.split()]
    assert len(deaths) > 10 / every
    expected = everything(tmp_path / "sealed" / "0")
    assert run_started_ms(newcomer.run_id)
    assert sum(expected["spans"].values()) == 1 + 6 + 1 + 2 + 2 + 2
    for number in deaths:
        lake = tmp_path / "sealed" / str(number)
        assert everything(lake) == expected, f"after death {number}"
        assert segment_paths(lake) == []
        assert not list(lake.rglob("*.tmp"))
        assert not (lake / "journal" / "sealer.json").exists()

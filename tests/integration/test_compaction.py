"""Compaction: few files instead of many, the same runs, whatever dies, writes or reads meanwhile."""

from __future__ import annotations

import dataclasses
import errno
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.errors import MaintenanceError
from otel_agent_replay.lake import compaction, merging, parquet_file, settling, switch
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.label_file import write_labels
from otel_agent_replay.lake.layout import all_files
from otel_agent_replay.lake.live_files import STATE_FILE
from otel_agent_replay.lake.maintenance import maintenance_lock
from otel_agent_replay.lake.many_runs import ManyRuns
from otel_agent_replay.lake.schema import file_facts
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.lake.views import connect
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Label, Loss, LossReason, RecordedRun, RecordedSpan, Run
from tests.support.lake_runs import STARTED_MS, RunMaker, full_run

ROOT = Path(__file__).parents[2]
HOUR_MS = 3_600_000
VIEWS = ("runs", "spans", "steps", "model_calls", "messages", "payloads", "tool_calls", "losses", "labels")


def second_attempt(number):
    """A later attempt at the run of that number."""
    maker = RunMaker(number)
    maker.trace_id = (0xDEF << 64 | number + 1).to_bytes(16, "big")
    maker.step, maker.sequence = 8, 40
    maker.tool("again", {"order": number}, "late")
    recorded = maker.run()
    return dataclasses.replace(recorded, run=dataclasses.replace(recorded.run, attempt=2))


def trace_without_run(number):
    spans = tuple(RecordedSpan(one.span) for one in full_run(100 + number).spans[:3])
    run = Run(b"", spans[0].span.trace_id, b"", "", spans[0].span.start_ns)
    return RecordedRun(run, spans, lambda _digest: None)


def filled(lake, runs=6):
    """A lake of many small files: runs of two hours, two attempts at one, traces without a run, losses, labels."""
    written = [full_run(number) for number in range(runs)]
    written += [full_run(50 + number, started_ms=STARTED_MS + HOUR_MS) for number in range(2)]
    written += [second_attempt(1), trace_without_run(0), trace_without_run(1)]
    for number, recorded in enumerate(written):
        lost = [Loss(LossReason.DROPPED, "span", number + 1, time_ns=STARTED_MS * 1_000_000)]
        write_runs(lake, [recorded], segments=[f"segment-{number}"], losses=lost if number < 3 else ())
    for number in range(3):
        write_labels(lake, [Label(written[number].run.run_id, "ana", number, "good", True)])
    return written


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Made once a module; nobody writes it."""
    lake = tmp_path_factory.mktemp("template") / "lake"
    filled(lake)
    return lake


@pytest.fixture
def lake(template, tmp_path):
    return shutil.copytree(template, tmp_path / "lake")


@pytest.fixture(scope="module")
def said(template):
    """What views and catalog say of it, as of each copy that nobody has changed."""
    return contents(template), told(template)


def contents(lake):
    """What the views say of a lake, as multisets without numbers of packs."""
    with connect(lake) as connection:
        return {
            view: Counter(map(repr, connection.execute(f"SELECT * FROM {view} ORDER BY ALL").fetchall()))
            for view in VIEWS
        }


def told(lake):
    """What the catalog says: every run whole, with its losses and the bytes of its payloads."""
    catalog = Lake(lake)
    found = {}
    for summary in catalog.runs():
        run = catalog.load(summary.run.run_id)
        assert [one for one in verify(run) if not one.what.startswith("step")] == []
        losses = sorted(map(repr, run.losses))
        found[summary.run.run_id] = (repr(summary), repr(run.spans), losses)
    return found


def parquet_in(lake):
    return sorted(path.relative_to(lake).as_posix() for path in lake.rglob("*.parquet"))


def bytes_in(lake):
    return {path.relative_to(lake).as_posix(): path.read_bytes() for path in lake.rglob("*.parquet")}


def test_many_files_become_few_that_say_the_same(lake, said):
    """Every view and every loaded run are as before; an hour has one file a table; the report counts right."""
    (before, runs), files = said, parquet_in(lake)
    report = compact(lake, grace_s=0)
    assert contents(lake) == before
    assert told(lake) == runs
    after = parquet_in(lake)
    assert sorted(Counter(path.rpartition("/")[0] for path in after).values()) == [1] * 7
    assert (report.files_before, report.files_after, report.partitions) == (len(files), len(after), 2)
    assert report.merged == len(set(files) - set(after))
    assert report.made == len(set(after) - set(files))
    assert report.bytes_after == sum(map(len, bytes_in(lake).values())) < report.bytes_before
    assert report.skipped == []


def test_a_second_compaction_has_nothing_to_do(lake):
    """What is compacted stays as it is, byte for byte."""
    compact(lake, grace_s=0)
    before = bytes_in(lake)
    report = compact(lake, grace_s=0)
    assert bytes_in(lake) == before
    assert (report.merged, report.made, report.partitions) == (0, 0, 0)


def test_what_runs_share_is_stored_once(tmp_path):
    """Ten runs with the same long prompt in ten files keep it ten times, compacted once; it still belongs to each."""
    prompt = "You are a clerk of the airline. " * 200
    for number in range(10):
        maker = RunMaker(number)
        maker.model([{"role": "system", "content": prompt}, {"role": "user", "content": f"{number}"}], b"{}")
        write_runs(tmp_path, [maker.run()], segments=[str(number)])
    runs = told(tmp_path)

    def copies():
        rows = [row for path in (tmp_path / "payloads").rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
        return sum(prompt.encode() in (row["data"] or b"") for row in rows)

    assert copies() == 10
    compact(tmp_path, grace_s=0)
    assert copies() == 1
    assert told(tmp_path) == runs


def test_rows_lie_in_order_of_run_and_segments_stay_named(lake):
    """One file has its runs in order, each attempt whole, and names every journal segment it came from."""
    compact(lake, grace_s=0)
    path = next(file.path for file in all_files(lake, "spans"))
    table = pq.read_table(path, columns=["run_id", "attempt", "position"], partitioning=None).to_pylist()
    with_run = [row for row in table if row["run_id"]]
    assert with_run == sorted(with_run, key=lambda row: (row["run_id"], row["attempt"], row["position"]))
    named = {segment for file in all_files(lake, "spans") for segment in facts(file.path).segments}
    assert named == {f"segment-{number}" for number in range(11)}


def facts(path):
    return file_facts(pq.read_metadata(path).metadata, path)


def test_large_files_have_row_groups_with_roots_apart(lake, said, monkeypatch):
    """Merged files are cut, and their row groups made, as a sealer's: small, root rows in groups of their own."""
    monkeypatch.setattr(merging, "ROW_GROUP_ROWS", 7)
    monkeypatch.setattr(merging, "ROOT_GROUP_ROWS", 2)
    before, runs = said
    compact(lake, grace_s=0)
    assert contents(lake) == before
    assert told(lake) == runs
    file = next(file for file in all_files(lake, "spans"))
    parquet = pq.ParquetFile(file.path)
    roots = [
        parquet.read_row_group(n, columns=["root"]).column("root").to_pylist() for n in range(parquet.num_row_groups)
    ]
    assert len(roots) > 8
    assert all(all(group) or not any(group) for group in roots)


def test_a_run_lies_in_one_file_also_where_an_hour_takes_several(lake, said, monkeypatch):
    """Files are cut between runs, their ranges of run starts name them, and all attempts at a run lie together."""
    monkeypatch.setattr(merging, "FILE_ROWS", 20)
    before, runs = said
    compact(lake, grace_s=0)
    assert contents(lake) == before
    assert told(lake) == runs
    files = list(all_files(lake, "spans"))
    assert len(files) > 3
    homes = Counter(
        run_id
        for file in files
        for run_id in set(pq.read_table(file.path, columns=["run_id"], partitioning=None).column("run_id").to_pylist())
    )
    assert {count for run_id, count in homes.items() if run_id} == {1}


def test_large_files_are_left_alone(lake, monkeypatch):
    """Only small files are merged: what is half full is not written again."""
    monkeypatch.setattr(compaction, "FILE_ROWS", 2)
    before = bytes_in(lake)
    report = compact(lake, grace_s=0)
    assert {path: data for path, data in bytes_in(lake).items() if path.startswith(("spans", "payloads"))} == {
        path: data for path, data in before.items() if path.startswith(("spans", "payloads"))
    }
    assert report.skipped == []


def test_a_dry_run_changes_nothing_and_says_the_same(lake):
    """Its numbers of files are those of the real one; not even a lock is made."""
    before = sorted(lake.rglob("*"))
    said = compact(lake, dry_run=True)
    assert sorted(lake.rglob("*")) == before
    done = compact(lake, grace_s=0)
    for name in ("partitions", "merged", "made", "files_before", "files_after", "bytes_before"):
        assert getattr(said, name) == getattr(done, name), name


def test_an_absent_lake_is_compacted_already(tmp_path):
    """It is not made."""
    assert compact(tmp_path / "none", grace_s=0).files_after == 0
    assert not (tmp_path / "none").exists()


# --- what others do meanwhile ---


def watched(monkeypatch, look):
    """Let `look` be called after every change that a compaction makes in the lake."""
    for owner, name in ((Path, "replace"), (Path, "unlink")):
        real = getattr(owner, name)

        def call(*args, real=real, **kwargs):
            result = real(*args, **kwargs)
            look()
            return result

        monkeypatch.setattr(owner, name, call)


def test_readers_see_every_run_once_all_the_while(lake, said, monkeypatch):
    """After each change on disk, the catalog, an open connection and a new one say what they said before."""
    before, runs = said
    asked = "SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM runs), (SELECT count(body) FROM payloads)"
    with connect(lake) as connection:
        counts = connection.execute(asked).fetchone()
        looks = []

        def look():
            assert connection.execute(asked).fetchone() == counts
            if len(looks) % 50 == 0:
                assert contents(lake) == before
                assert told(lake) == runs
            looks.append(None)

        with monkeypatch.context() as patched:
            watched(patched, look)
            compact(lake, grace_s=0)
    assert len(looks) > 60
    assert contents(lake) == before


def test_replaced_files_stay_for_readers_that_began_before(lake, monkeypatch):
    """A list of files made before is good for the seconds of grace; only then they go."""
    listed = [file.path for file in all_files(lake, "spans")]
    listed += [file.beside("payloads") for file in all_files(lake, "spans")]
    listed = [path for path in listed if path.exists()]
    slept = []
    now = time.time

    def sleep(seconds):
        assert all(path.exists() for path in listed)
        slept.append(seconds)
        monkeypatch.setattr(settling.time, "time", lambda: now() + sum(slept))

    monkeypatch.setattr(compaction.time, "sleep", sleep)
    compact(lake, grace_s=30)
    assert sum(slept) <= 31
    assert max(slept) > 20
    assert not any(path.exists() for path in listed)


def test_a_statement_reads_one_list_of_files(lake):
    """Spans and payloads that one statement names are of one moment, also where a compaction ends between them."""
    with connect(lake) as connection:
        connection.execute("BEGIN")
        spans = connection.execute("SELECT count(*), count(DISTINCT pack) FROM lake_spans").fetchone()
        compact(lake, grace_s=0, dry_run=False)
        assert spans == (spans[0], 9)
        connection.execute("COMMIT")
        assert connection.execute("SELECT count(*), count(DISTINCT pack) FROM lake_spans").fetchone() == (spans[0], 2)


def test_a_sealer_may_write_meanwhile(lake, monkeypatch):
    """Runs that are published while files are merged, or switched, are in the lake beside the merged ones."""
    newcomers = iter(range(200, 300))
    written = []
    for module, name in ((compaction, "merge_spans"), (switch, "publish")):
        real = getattr(module, name)

        def call(*args, real=real):
            result = real(*args)
            written.append(full_run(next(newcomers)))
            write_runs(lake, written[-1:], segments=[f"new-{len(written)}"])
            return result

        monkeypatch.setattr(module, name, call)
    runs = told(lake)
    compact(lake, grace_s=0)
    monkeypatch.undo()
    assert len(written) > 4
    found = told(lake)
    assert found.keys() == runs.keys() | {one.run.run_id for one in written}
    assert {run_id: found[run_id] for run_id in runs} == runs
    before = contents(lake)
    compact(lake, grace_s=0)
    assert contents(lake) == before


def test_sealing_again_after_a_crash_doubles_nothing(lake, said, tmp_path):
    """A sealer that publishes once more what was merged meanwhile adds nothing, and the next compaction removes it."""
    before, runs = said
    compact(lake, grace_s=0)
    after = parquet_in(lake)
    filled(lake)
    assert len(parquet_in(lake)) > len(after)
    assert contents(lake) == before
    assert told(lake) == runs
    compact(lake, grace_s=0)
    assert parquet_in(lake) == after
    assert contents(lake) == before


def test_a_republished_file_that_says_more_is_kept_and_said(tmp_path):
    """A file under a merged name that has other spans than the lake is left where it is."""
    write_runs(tmp_path, [full_run(0)], segments=["a"])
    write_runs(tmp_path, [full_run(1)], segments=["b"])
    compact(tmp_path, grace_s=0)
    maker = RunMaker(0)
    maker.number = 77  # other span ids
    maker.tool("other", {}, 1)
    write_runs(tmp_path, [maker.run()], segments=["a"])
    files = parquet_in(tmp_path)
    report = compact(tmp_path, grace_s=0)
    assert [one.why for one in report.skipped if "something else" in one.why]
    assert parquet_in(tmp_path) == files


def test_a_run_that_two_files_hold_is_there_once_afterwards(tmp_path):
    """The same run published in two batches becomes one; where they differ both files stay, and it is said."""
    write_runs(tmp_path, [full_run(0)], segments=["a"])
    write_runs(tmp_path, [full_run(0), full_run(1)], segments=["b"])
    compact(tmp_path, grace_s=0)
    with connect(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM spans").fetchone() == (18,)
    other = RunMaker(0)
    other.number = 77
    other.tool("other", {}, 1)
    write_runs(tmp_path, [other.run(), full_run(2)], segments=["c"])
    files = parquet_in(tmp_path)
    report = compact(tmp_path, grace_s=0)
    assert ["other spans of attempt 1" in one.why for one in report.skipped] == [True]
    assert [path for path in parquet_in(tmp_path) if path.startswith("spans")] == [
        path for path in files if path.startswith("spans")
    ]


# --- what dies ---


def small(lake):
    """Three files of spans and two of losses in one hour."""
    write_runs(lake, [full_run(0)], segments=["a"])
    write_runs(lake, [full_run(1)], segments=["b"])
    write_runs(lake, [second_attempt(1)], segments=["c"])


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.soak), 10])
def test_a_compaction_that_dies_at_any_point_leaves_the_old_or_the_new(tmp_path, every):
    """Killed before each of its changes on disk, every reader sees every run once; the next one ends it well."""
    small(tmp_path / "template")
    command = [sys.executable, "-m", "tests.support.killed_compactor"]
    folders = [str(tmp_path / name) for name in ("template", "compacted")]
    arguments = [*command, *folders, str(every), "compact"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    deaths = [int(number) for number in done.stdout.split()]
    assert len(deaths) > 30 / every
    counts, before, runs = counted(tmp_path / "template"), contents(tmp_path / "template"), told(tmp_path / "template")
    ended = parquet_in(tmp_path / "compacted" / "0")
    for place, number in enumerate(deaths):
        lake = tmp_path / "compacted" / str(number)
        assert counted(lake) == counts, f"after death {number}"
        assert told(lake) == runs, f"after death {number}"
        if place % 7 == 1:
            assert contents(lake) == before, f"after death {number}"
            small(lake)  # a sealer that does it all again
            assert contents(lake) == before, f"sealed after death {number}"
        assert compact(lake, grace_s=0).skipped == []
        assert parquet_in(lake) == ended, f"after death {number}"
        assert told(lake) == runs, f"compacted after death {number}"
        assert not (lake / "compaction").exists()
        assert not list(lake.rglob("*.tmp"))


def counted(lake):
    """How many rows each table has for SQL."""
    with connect(lake) as connection:
        asked = ", ".join(f"(SELECT count(*) FROM lake_{table})" for table in ("spans", "losses", "labels"))
        return connection.execute(f"SELECT {asked}, (SELECT count(body) FROM payloads)").fetchone()


@pytest.mark.parametrize(
    ("failing", "number"),
    [
        (1, errno.EACCES),
        (7, errno.ENOSPC),
        *(pytest.param(failing, errno.ENOSPC, marks=pytest.mark.soak) for failing in (2, 13)),
    ],
)
def test_a_full_disk_or_a_forbidden_one_loses_nothing(lake, said, monkeypatch, failing, number):
    """Whichever sync fails, the error says so, all runs are there as before, and with room it goes on."""
    before, runs = said
    made = []

    def fsync(descriptor):
        made.append(descriptor)
        if len(made) == failing:
            raise OSError(number, "no")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fsync)
        with pytest.raises(MaintenanceError, match="make room"):
            compact(lake, grace_s=0)
    assert contents(lake) == before
    assert told(lake) == runs
    assert not (lake / "compaction").exists()
    compact(lake, grace_s=0)
    assert contents(lake) == before


def test_a_full_disk_while_new_files_are_made_leaves_none(lake, monkeypatch):
    """What is half made goes, what was there stays byte for byte."""
    before = bytes_in(lake)

    def full(self, table):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(parquet_file.ParquetOutput, "write", full)
    with pytest.raises(MaintenanceError, match="No space left"):
        compact(lake, grace_s=0)
    assert bytes_in(lake) == before


def test_one_compacts_at_a_time(lake, monkeypatch):
    """The second waits a while, is told, and changes nothing."""
    monkeypatch.setattr(compaction, "_PATIENCE_S", 0.0)
    before = bytes_in(lake)
    with maintenance_lock(lake), pytest.raises(MaintenanceError, match="another process"):
        compact(lake, grace_s=0)
    assert bytes_in(lake) == before


# --- damage ---


def test_a_torn_file_stays_and_the_others_are_merged(lake):
    """A cut spans file, and one whose payloads file is gone or cut, are left as they are and named."""
    files = [file for file in all_files(lake, "spans") if file.beside("payloads").exists()]
    torn, orphan, half = files[:3]
    torn.path.write_bytes(torn.path.read_bytes()[:-50])
    orphan.beside("payloads").unlink()
    half.beside("payloads").write_bytes(b"PAR1 no more")
    report = compact(lake, grace_s=0)
    named = {Path(one.path) for one in report.skipped}
    assert named == {torn.path, orphan.beside("payloads"), half.beside("payloads")}
    there = {file.path for file in all_files(lake, "spans")}
    assert {torn.path, orphan.path, half.path} <= there
    assert len(there) < len(files)


def test_a_flipped_byte_is_not_merged_into_others(lake):
    """A damaged page is found before its file goes."""
    file = next(file for file in all_files(lake, "spans") if file.beside("payloads").exists())
    data = bytearray(file.path.read_bytes())
    data[200] ^= 0x20
    file.path.write_bytes(data)
    report = compact(lake, grace_s=0)
    assert [Path(one.path) for one in report.skipped] == [file.path]
    assert file.path.read_bytes() == data


def test_files_of_others_are_left_alone(lake):
    """Parquet of another program is no file of the lake under its own name, and is named under one like ours."""
    folder = next(all_files(lake, "spans")).path.parent
    foreign = pa.table({"a": [1, 2]})
    pq.write_table(foreign, folder / "part-0000.parquet")
    like_ours = folder / f"{STARTED_MS:012x}-{STARTED_MS:012x}-{7:016x}.parquet"
    pq.write_table(foreign, like_ours)
    report = compact(lake, grace_s=0)
    assert [Path(one.path) for one in report.skipped] == [like_ours]
    assert "not a file of this lake" in report.skipped[0].why
    assert (folder / "part-0000.parquet").exists()
    assert like_ours.exists()


def test_a_state_that_cannot_be_read_is_named(lake):
    """Which files count is not guessed: reading that hour says what is wrong, compaction leaves it alone."""
    compact(lake, grace_s=0)
    folder = next(all_files(lake, "spans")).path.parent
    (folder / STATE_FILE).write_text("{")
    write_runs(lake, [full_run(300)], segments=["x"])
    report = compact(lake, grace_s=0)
    assert [Path(one.path) for one in report.skipped] == [folder]


# --- the command ---


def run(lake, *arguments):
    return CliRunner().invoke(main, ["compact", "--lake", str(lake), "--grace", "0", *arguments])


def test_the_command_says_what_it_did(lake):
    """In a line, or as JSON; exit code 0."""
    would = run(lake, "--dry-run")
    assert would.exit_code == 0, would.output
    assert "would become 7" in would.output
    document = json.loads(run(lake, "--json").stdout)
    assert (document["schema"], document["schema_version"]) == ("agent-replay/compact", 1)
    assert (document["made"], document["skipped"]) == (7, [])
    assert document["files_after"] < document["files_before"]
    assert document["bytes_after"] < document["bytes_before"]
    assert "0 files of 0 hours became 0: " in run(lake).output


def test_the_command_exits_1_when_a_file_was_left(lake):
    """It is named on standard error."""
    file = next(all_files(lake, "spans"))
    file.path.write_bytes(b"PAR1")
    done = run(lake)
    assert done.exit_code == 1
    assert file.path.name in done.stderr


def test_the_command_exits_125_when_it_cannot(lake, monkeypatch):
    """Another one at work is no damage."""
    monkeypatch.setattr(compaction, "_PATIENCE_S", 0.0)
    with maintenance_lock(lake):
        done = run(lake)
    assert done.exit_code == 125
    assert "error[maintenance]" in done.stderr


def test_the_lake_of_a_case_is_left_as_it_was_sealed(lake, tmp_path):
    """Its files are sealed one by one: merging them would make the case fail."""
    (tmp_path / "case.yaml").write_text("name: x\n")
    before = bytes_in(lake)
    done = run(lake)
    assert done.exit_code == 2
    assert "sealed" in done.stderr
    assert bytes_in(lake) == before


# --- what was loaded before ---


@pytest.mark.parametrize("many", [False, True], ids=["one run", "many runs"])
def test_a_run_that_was_loaded_before_still_gives_its_bytes(lake, many):
    """Its payloads are found where compaction put them, also long after the grace."""
    run_id = full_run(0).run.run_id
    before = ManyRuns(lake).load([run_id])[run_id] if many else Lake(lake).load(run_id)
    compact(lake, grace_s=0)
    recorded = full_run(0)
    digests = [node.call.request.digest for node in recorded.nodes]
    assert [before.payload(digest) for digest in digests] == [recorded.payload(digest) for digest in digests]


def test_losses_of_one_run_are_found_among_many(tmp_path, monkeypatch):
    """Merged losses lie in order of run, and a run gets its own from the row groups that hold them."""
    monkeypatch.setattr(merging, "ROOT_GROUP_ROWS", 3)
    for number in range(12):
        write_runs(tmp_path, [full_run(number)], segments=[f"{number}"])
    compact(tmp_path, grace_s=0)
    (file,) = all_files(tmp_path, "losses")
    assert pq.read_metadata(file.path).num_row_groups == 4
    for number in range(12):
        recorded = full_run(number)
        assert Lake(tmp_path).load(recorded.run.run_id).losses == recorded.losses
    loaded = ManyRuns(tmp_path).load([full_run(number).run.run_id for number in (0, 11)])
    assert [recorded.losses for recorded in loaded.values()] == [full_run(number).losses for number in (0, 11)]

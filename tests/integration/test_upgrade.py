"""Formats of a lake: older ones are brought to the current one, newer ones and unknown quirks are refused by name."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.compare import Verdict, compare
from otel_agent_replay.errors import MaintenanceError, UnsupportedFormat
from otel_agent_replay.lake import maintenance
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.layout import all_files
from otel_agent_replay.lake.maintenance import maintenance_lock
from otel_agent_replay.lake.schema import file_facts, stated_facts
from otel_agent_replay.lake.upgrade import upgrade
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.lake.views import connect
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.replay.enclosed import Enclosure
from otel_agent_replay.replay.launch import replay_command
from tests.support.lake_runs import full_run

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "format-1" / "lake"
TABLES = ("spans", "payloads", "losses")
ADDED = {"entry_check", "origin_step", "key_id"}
"""Columns that the artificial older format does not have, and one inside another: `run.last_step`."""


def rewritten(path, *, version="1", reader="1", without=(), more=None, quirks=None):
    """Write a file again under other metadata, without some columns, or with one more."""
    metadata = dict(pq.read_metadata(path).metadata)
    table = pq.read_table(path, partitioning=None)
    table = table.drop_columns([name for name in table.column_names if name in without])
    if without and "run" in table.column_names:
        rows = table.column("run").to_pylist()
        kept = pa.struct([one for one in table.schema.field("run").type if one.name != "last_step"])
        place = table.column_names.index("run")
        rows = [None if row is None else {k: v for k, v in row.items() if k != "last_step"} for row in rows]
        table = table.set_column(place, pa.field("run", kept), pa.array(rows, kept))
    if more is not None:
        table = table.append_column(more, pa.array([1] * len(table)))
    facts = {b"format_version": version.encode(), b"reader_version": reader.encode()}
    if quirks is not None:
        facts[b"quirks"] = json.dumps(quirks).encode()
    metadata |= {b"agent_replay." + name: value for name, value in facts.items()}
    ours = {name: value for name, value in metadata.items() if name.startswith(b"agent_replay.")}
    pq.write_table(table.replace_schema_metadata(ours), path, row_group_size=5)


def made_older(lake):
    for table in TABLES:
        for file in all_files(lake, table):
            rewritten(file.path, version="0", reader="0", without=ADDED)


def paths(lake):
    return [file.path for table in TABLES for file in all_files(lake, table)]


def versions(lake):
    return [stated_facts(pq.read_metadata(path).metadata, path).format_version for path in paths(lake)]


@pytest.fixture
def older(tmp_path):
    """A lake of three runs whose files lack columns, and say so."""
    lake = tmp_path / "lake"
    for number in range(3):
        write_runs(lake, [full_run(number)], segments=[f"segment-{number}"])
    made_older(lake)
    return lake


def test_an_older_lake_says_what_to_do(older):
    """Reading a file of an older format is refused, with the command that helps."""
    with pytest.raises(UnsupportedFormat, match="`agent-replay upgrade`"):
        Lake(older).load(full_run(0).run.run_id)
    report = compact(older, grace_s=0)
    assert len(report.skipped) == 6
    assert all("`agent-replay upgrade`" in one.why for one in report.skipped)


def test_an_upgraded_lake_reads_as_if_it_had_been_written_now(older):
    """Every run is there with its bytes, digests and segments; what the older format did not tell is unknown."""
    report = upgrade(older)
    assert (report.files, report.upgraded, report.left) == (9, 9, [])
    assert set(versions(older)) == {1}
    for number in range(3):
        recorded = full_run(number)
        loaded = Lake(older).load(recorded.run.run_id)
        assert verify(loaded) == []
        assert repr(loaded.spans) == repr(recorded.spans)
        assert repr(loaded.losses) == repr(recorded.losses)
        assert compare(loaded, recorded).verdict is Verdict.IDENTICAL
    segments = {
        segment for path in paths(older) for segment in file_facts(pq.read_metadata(path).metadata, path).segments
    }
    assert segments == {"segment-0", "segment-1", "segment-2"}
    with connect(older) as connection:
        assert connection.execute("SELECT count(*), count(body) FROM payloads").fetchone() == (54, 54)
    assert upgrade(older).upgraded == 0
    assert compact(older, grace_s=0).skipped == []


def test_the_golden_recording_as_an_older_lake_upgrades_and_replays(tmp_path):
    """A recording of format 1 made artificially older comes back: identical with itself, and its agent replays."""
    lake = shutil.copytree(GOLDEN, tmp_path / "lake")
    (run,) = [summary.run for summary in Lake(lake).runs()]
    golden = Lake(GOLDEN).load(run.run_id)
    made_older(lake)
    upgrade(lake)
    loaded = Lake(lake).load(run.run_id)
    assert verify(loaded) == []
    assert compare(golden, loaded).verdict is Verdict.IDENTICAL
    command = [sys.executable, str(GOLDEN.parent / "agent.py")]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    enclosure = Enclosure(lake, environment=environment, directory=lake, timeout_s=60)
    verdict = replay_command(loaded.run, command, enclosure=enclosure)
    assert verdict.exit_code == 0, verdict


def test_the_golden_recording_needs_no_upgrade():
    """What is frozen as format 1 is of the current format; nobody may have to upgrade it."""
    report = upgrade(GOLDEN, dry_run=True)
    assert (report.upgraded, report.left, report.unknown_quirks) == (0, [], set())


def test_an_upgrade_that_dies_at_any_point_leaves_each_file_old_or_new(older, tmp_path):
    """Killed before changes on disk, it can be begun again and ends as if nothing had happened."""
    command = [sys.executable, "-m", "tests.support.killed_compactor", str(older), str(tmp_path / "upgraded"), "5"]
    done = subprocess.run([*command, "upgrade"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    deaths = done.stdout.split()
    assert len(deaths) > 4
    for number in deaths:
        lake = tmp_path / "upgraded" / number
        assert len(versions(lake)) == 9
        upgrade(lake)
        assert versions(lake) == [1] * 9
        for run in range(3):
            assert verify(Lake(lake).load(full_run(run).run.run_id)) == []


def test_a_dry_run_changes_nothing(older):
    """It says how many files would be upgraded, and makes no lock."""
    before = {path: path.read_bytes() for path in older.rglob("*") if path.is_file()}
    assert upgrade(older, dry_run=True).upgraded == 9
    assert {path: path.read_bytes() for path in older.rglob("*") if path.is_file()} == before


def test_a_newer_file_is_refused_by_name_and_left(older):
    """Reading, compaction and upgrade name the file that needs a newer version and say to upgrade the package."""
    path = paths(older)[0]
    rewritten(path, version="9", reader="9")
    before = path.read_bytes()
    report = upgrade(older)
    assert [(one.path, "upgrade otel-agent-replay" in one.why) for one in report.left] == [(str(path), True)]
    assert path.read_bytes() == before
    with pytest.raises(UnsupportedFormat, match=f"{path.name}.*upgrade otel-agent-replay"):
        Lake(older).runs()


def test_a_newer_file_that_this_reader_understands_is_read(older):
    """The format may be newer as long as the oldest reader is not: it is read, and never taken back."""
    upgrade(older)
    path = next(path for path in paths(older) if "spans" in path.parts)
    rewritten(path, version="2", reader="1")
    assert upgrade(older).upgraded == 0
    assert len(Lake(older).runs()) == 3


def test_a_column_that_is_not_known_is_never_dropped(older):
    """A file of an older number with a column that this version does not know is left as it is, and said."""
    path = next(path for path in paths(older) if "spans" in path.parts)
    rewritten(path, version="0", reader="0", more="mystery")
    report = upgrade(older)
    assert [(one.path, "mystery" in one.why) for one in report.left] == [(str(path), True)]
    assert "mystery" in pq.read_schema(path).names


def test_damage_is_left_and_said(older):
    """A torn file and one of another program stay as they are; the others are upgraded."""
    torn, foreign = [path for path in paths(older) if "spans" in path.parts][:2]
    torn.write_bytes(torn.read_bytes()[:-40])
    pq.write_table(pa.table({"a": [1]}), foreign)
    report = upgrade(older)
    assert {one.path for one in report.left} == {str(torn), str(foreign)}
    assert report.upgraded == 7


def test_an_unknown_quirk_can_be_looked_at_but_not_replayed(tmp_path):
    """A run that asks for what this version cannot imitate is shown; its replay cannot be judged; upgrade names it."""
    recorded = full_run(0)
    recorded = dataclasses.replace(recorded, run=dataclasses.replace(recorded.run, quirks=("sleeps-twice",)))
    write_runs(tmp_path, [recorded], segments=["s"])
    loaded = Lake(tmp_path).load(recorded.run.run_id)
    assert loaded.run.quirks == ("sleeps-twice",)
    verdict = replay_command(loaded.run, [sys.executable, "-c", "1"], enclosure=Enclosure(tmp_path))
    assert verdict.exit_code == 125
    assert "sleeps-twice" in verdict.reason
    assert upgrade(tmp_path).unknown_quirks == {"sleeps-twice"}
    write_runs(tmp_path, [full_run(1)], segments=["t"])
    compact(tmp_path, grace_s=0)
    assert Lake(tmp_path).load(recorded.run.run_id).run.quirks == ("sleeps-twice",)
    assert upgrade(tmp_path).unknown_quirks == {"sleeps-twice"}


def test_read_only_media_can_be_read_and_are_told_apart(older, monkeypatch):
    """Where nothing can be written, upgrade says so and the lake stays; a current lake is read without writing."""

    def read_only(*_arguments):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(maintenance.os, "open", read_only)
    with pytest.raises(MaintenanceError, match="Read-only"):
        upgrade(older)
    monkeypatch.undo()
    assert set(versions(older)) == {0}
    upgrade(older)
    monkeypatch.setattr(Path, "open", read_only)
    monkeypatch.setattr(Path, "mkdir", read_only)
    assert len(Lake(older).runs()) == 3


def test_the_command_says_what_it_did(older):
    """In a line or as JSON; 1 where something was left; 125 while another works on the lake."""
    asked = ["upgrade", "--lake", str(older)]
    would = CliRunner().invoke(main, [*asked, "--dry-run"])
    assert (would.exit_code, would.output) == (0, "9 of 9 files would be upgraded to format 1\n")
    rewritten(paths(older)[0], version="9", reader="9")
    done = CliRunner().invoke(main, [*asked, "--json"])
    document = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (document["schema"], document["upgraded"], len(document["left"])) == ("agent-replay/upgrade", 8, 1)
    with maintenance_lock(older), pytest.raises(MaintenanceError, match="another process"):
        upgrade(older, wait_s=0)

"""`agent-replay doctor --deep` and `--repair`: every file, digest and reference; what can be repaired, and what not."""

from __future__ import annotations

import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.lake import compaction, switch
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.layout import all_files, file_name
from otel_agent_replay.lake.live_files import STATE_FILE
from otel_agent_replay.lake.maintenance import maintenance_lock
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.lake.writer import write_runs
from tests.support.lake_runs import STARTED_MS, full_run

OLD = 1_000_000_000


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    lake = tmp_path_factory.mktemp("template") / "lake"
    for number in range(3):
        write_runs(lake, [full_run(number)], segments=[f"{number}"])
    return lake


@pytest.fixture
def lake(template, tmp_path):
    return shutil.copytree(template, tmp_path / "lake")


def doctor(lake, *arguments):
    """Run the command; return its exit code for the files alone, and what it says of them."""
    done = CliRunner().invoke(main, ["doctor", "--lake", str(lake), "--json", *(arguments or ("--deep",))])
    checks = json.loads(done.stdout)["files"]
    assert done.exit_code in (0, 1), done.output
    wrong = any(check["ok"] is False for check in checks)
    assert done.exit_code == 1 or not wrong
    return checks


def of(checks, what):
    return [check for check in checks if check["what"] == what]


def rewritten(path, change):
    """Change rows of a file as somebody who edits it would."""
    metadata = {k: v for k, v in pq.read_metadata(path).metadata.items() if k.startswith(b"agent_replay.")}
    table = pq.read_table(path, partitioning=None)
    rows = table.to_pylist()
    change(rows)
    table = pa.Table.from_pylist(rows, table.schema.remove_metadata())
    pq.write_table(table.replace_schema_metadata(metadata), path)


def first(lake, table):
    return next(file for file in all_files(lake, table))


def test_a_sound_lake_is_looked_at_whole(lake):
    """Files, attempts, spans and payloads are counted, and nothing is found, before compaction and after."""
    looked = of(doctor(lake), "looked at")
    assert looked == doctor(lake)
    assert looked[0]["ok"] is True
    assert looked[0]["found"] == "9 files: 3 attempts at runs, 27 spans, 51 payloads"
    compact(lake, grace_s=0)
    assert of(doctor(lake), "looked at")[0]["found"] == "3 files: 3 attempts at runs, 27 spans, 51 payloads"


def test_settings_and_their_sources_are_still_told(lake):
    """`--deep` adds to what doctor says, and without it no file is read."""
    done = CliRunner().invoke(main, ["doctor", "--lake", str(lake), "--json"])
    document = json.loads(done.stdout)
    assert "files" not in document
    assert {"setting": "lake", "value": str(lake), "source": "argument"} in document["settings"]
    shown = CliRunner().invoke(main, ["doctor", "--lake", str(lake), "--deep"])
    assert "looked at" in shown.output


def alter_payload(rows):
    next(row for row in rows if row["data"] == b'{"price":12}')["data"] = b'{"price":13}'


def alter_reference(rows):
    next(row for row in rows if row["step"] == 2)["result_payload"] = 10_000


def alter_outcome(rows):
    next(row for row in rows if row["step"] == 2)["outcome"] = "error"


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("payloads", alter_payload, "result payload at step 2 altered"),
        ("spans", alter_reference, "has no payload number 10000"),
        ("spans", alter_outcome, "node at step 2 altered"),
        ("spans", lambda rows: rows.pop(3), "spans missing"),
        ("spans", lambda rows: rows.pop(0), "not its root"),
    ],
)
def test_what_does_not_hold_is_named_with_its_run(lake, table, change, said):
    """A digest, a reference, a fact or a row that was altered or taken out: which run, step and file."""
    file = first(lake, table)
    rewritten(file.path, change)
    checks = doctor(lake)
    wrong = [check for check in checks if check["ok"] is False and check["what"] != "looked at"]
    assert any(said in check["found"] for check in wrong), wrong
    assert all(file.path.name in check["found"] for check in wrong)
    assert all(check["advice"] for check in wrong)
    assert of(checks, "looked at")[0]["ok"] is False
    assert doctor(lake, "--repair") == checks  # it can be told, not repaired


def test_a_missing_pack_a_torn_file_and_a_flipped_byte_are_told(lake):
    """Each is named; the file beside them is still looked at."""
    one, two, three = all_files(lake, "spans")
    one.beside("payloads").unlink()
    two.path.write_bytes(two.path.read_bytes()[:-30])
    losses = three.beside("losses")
    losses.write_bytes(losses.read_bytes()[:-30])
    checks = doctor(lake)
    assert {one.path.name} == {
        name for check in of(checks, "missing") for name in [one.path.name] if name in check["found"]
    }
    assert len(of(checks, "damaged")) == 2
    assert "2 attempts" in of(checks, "looked at")[0]["found"]
    assert one.path.exists() and two.path.exists()


def test_runs_in_the_wrong_hour_twice_or_under_a_wrong_name_are_told(lake):
    """Lookups by id would not find them, or find either."""
    file = first(lake, "spans")
    elsewhere = file.path.parent.parent / "hour=03" / file.path.name
    elsewhere.parent.mkdir()
    shutil.copy(file.path, elsewhere)
    write_runs(lake, [full_run(0), full_run(7)], segments=["again"])
    checks = doctor(lake)
    assert str(elsewhere) in of(checks, "misplaced")[0]["found"]
    assert [full_run(0).run.run_id.hex() in check["found"] for check in of(checks, "twice")] == [True]
    assert of(checks, "twice")[0]["advice"] == "agent-replay compact"


def test_files_of_others_are_told_and_nobody_minds(lake):
    """A foreign Parquet file is no damage under its own name, and damage under one of ours."""
    folder = first(lake, "spans").path.parent
    pq.write_table(pa.table({"a": [1]}), folder / "part-0.parquet")
    checks = doctor(lake)
    assert [check["ok"] for check in of(checks, "foreign")] == [None]
    assert of(checks, "looked at")[0]["ok"] is True
    pq.write_table(pa.table({"a": [1]}), folder / file_name(STARTED_MS, STARTED_MS, 5))
    assert "not a file of this lake" in of(doctor(lake), "damaged")[0]["found"]


def test_a_state_file_that_cannot_be_read_is_told(lake):
    """Which files count is not known then; nothing is guessed."""
    compact(lake, grace_s=0)
    (first(lake, "spans").path.parent / STATE_FILE).write_text("[]")
    assert STATE_FILE in of(doctor(lake), "damaged")[0]["found"]
    assert STATE_FILE in of(doctor(lake, "--repair"), "damaged")[0]["found"]


# --- repairs ---


def test_half_made_files_are_removed_when_they_are_old(lake):
    """What a writer that died left goes; what may still be written stays."""
    folder = first(lake, "spans").path.parent
    stale, fresh = folder / ".x.parquet.1.tmp", folder / ".y.parquet.2.tmp"
    for path in (stale, fresh):
        path.write_bytes(b"half")
    os.utime(stale, (OLD, OLD))
    assert [check["advice"] for check in of(doctor(lake), "left over")] == ["--repair: remove it"]
    assert stale.exists()
    checks = doctor(lake, "--repair")
    assert [str(stale) in check["found"] for check in of(checks, "repaired")] == [True]
    assert (stale.exists(), fresh.exists()) == (False, True)
    assert of(doctor(lake), "left over") == []


@pytest.mark.parametrize("where", ["begun", "done"])
def test_a_compaction_that_died_is_ended(lake, monkeypatch, where):
    """Undone when it was begun, finished when it was done; every run is there and holds."""

    def die(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*((switch, "publish", die) if where == "begun" else (compaction, "_settled", die)))
        with pytest.raises(KeyboardInterrupt):
            compact(lake, grace_s=0)
    assert any(f"a compaction that was {where}" in check["found"] for check in of(doctor(lake), "left over"))
    checks = doctor(lake, "--repair")
    assert of(checks, "left over") == []
    assert of(checks, "repaired")
    assert not (lake / "compaction").exists()
    for number in range(3):
        assert verify(Lake(lake).load(full_run(number).run.run_id)) == []
    assert len(list(all_files(lake, "spans"))) == (3 if where == "begun" else 1)


def test_what_was_published_once_more_is_removed(lake):
    """A sealer's repetition of what was merged goes, since the lake has all of it."""
    compact(lake, grace_s=0)
    write_runs(lake, [full_run(0)], segments=["0"])
    assert len(of(doctor(lake), "left over")) == 2
    checks = doctor(lake, "--repair")
    assert (of(checks, "left over"), len(of(checks, "repaired"))) == ([], 2)
    assert len(list((lake / "spans").rglob("*.parquet"))) == 1


def test_the_sealers_memory_is_put_aside_when_nobody_can_read_it(lake):
    """It is kept under another name, and sealing works again."""
    (lake / "journal").mkdir()
    path = lake / "journal" / "sealer.json"
    path.write_text("{")
    assert "sealer.json" in of(doctor(lake), "damaged")[0]["found"]
    assert "put aside" in of(doctor(lake, "--repair"), "repaired")[0]["found"]
    assert (path.exists(), path.with_suffix(".damaged").read_text()) == (False, "{")


def test_nothing_is_repaired_while_another_works_on_the_lake(lake):
    """The exit code says that it could not be done."""
    path = first(lake, "spans").path.parent / ".x.parquet.1.tmp"
    path.write_bytes(b"half")
    os.utime(path, (OLD, OLD))
    with maintenance_lock(lake):
        done = CliRunner().invoke(main, ["doctor", "--lake", str(lake), "--repair"])
    assert done.exit_code == 125
    assert path.exists()

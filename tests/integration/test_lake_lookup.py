"""How much of a lake is read for one answer: lookups by id, contents in SQL."""

from __future__ import annotations

import json
import shutil

import duckdb
import pytest

from otel_agent_replay.errors import DamagedRecording, RunNotFound
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.layout import PAYLOADS, SPANS, all_files
from otel_agent_replay.lake.views import connect
from otel_agent_replay.lake.writer import write_runs
from tests.support.lake_runs import STARTED_MS, RunMaker, full_run

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A lake with a run in each of 30 hours, and those runs; nobody writes it."""
    lake = tmp_path_factory.mktemp("days")
    runs = [full_run(number, started_ms=STARTED_MS + number * HOUR_MS) for number in range(30)]
    write_runs(lake, runs, segments=["one"])
    return lake, runs


@pytest.fixture
def days(template, tmp_path):
    """A copy of it, and those runs."""
    lake, runs = template
    return shutil.copytree(lake, tmp_path, dirs_exist_ok=True), runs


def break_files_but(lake, table, kept):
    for file in all_files(lake, table):
        if not file.first_ms <= kept <= file.last_ms:
            file.path.write_bytes(b"damaged")


def test_a_run_id_or_prefix_of_one_is_found_without_reading_other_hours(days):
    """Files of other hours may be damaged: nobody looks at them."""
    root, runs = days
    wanted = runs[17].run.run_id
    break_files_but(root, SPANS, STARTED_MS + 17 * HOUR_MS)
    for length in (8, 9, 12, 31, 32):
        assert Lake(root).find(wanted.hex()[:length]) == wanted
    assert Lake(root).load(wanted).run == runs[17].run
    assert Lake(root).find(runs[17].run.trace_id.hex()) == wanted
    with pytest.raises(DamagedRecording, match="doctor --deep"):  # it may lie in a file that cannot be read
        Lake(root).find("00" * 16)


def test_a_trace_is_found_again_without_reading_other_hours(days):
    """Once the lake was searched for a trace, an index says where each lies, one or a range of them."""
    root, runs = days
    assert Lake(root).find(runs[3].run.trace_id.hex()) == runs[3].run.run_id
    break_files_but(root, SPANS, STARTED_MS + 17 * HOUR_MS)
    assert Lake(root).find(runs[17].run.trace_id.hex()) == runs[17].run.run_id
    assert len(Lake(root).between("trace_id", runs[3].run.trace_id, runs[17].run.trace_id)) == 15
    with pytest.raises(RunNotFound):
        Lake(root).find("f" * 32)


def test_the_index_of_traces_follows_the_files(days):
    """A run that came later is found, one whose file is gone is not, whatever the index says."""
    root, runs = days
    Lake(root).find(runs[3].run.trace_id.hex())
    later = [full_run(number, started_ms=STARTED_MS + number * HOUR_MS) for number in range(40, 60)]
    for end in (1, 20):
        write_runs(root, later[:end], segments=["two"])
        for recorded in (*later[:end], runs[5]):
            assert Lake(root).find(recorded.run.trace_id.hex()) == recorded.run.run_id
    for file in list(all_files(root, SPANS))[3:25]:
        file.path.unlink()
    with pytest.raises(RunNotFound):
        Lake(root).find(runs[5].run.trace_id.hex())
    assert Lake(root).find(later[5].run.trace_id.hex()) == later[5].run.run_id


@pytest.mark.parametrize("damage", [b"", b"ARROW1", None])
def test_an_index_that_is_damaged_or_gone_changes_nothing(days, damage):
    """The index only saves time: the files say the same without it."""
    root, runs = days
    Lake(root).find(runs[3].run.trace_id.hex())
    (index,) = (root / "index").iterdir()
    index.unlink() if damage is None else index.write_bytes(damage)
    assert Lake(root).find(runs[9].run.trace_id.hex()) == runs[9].run.run_id
    assert Lake(root).between("trace_id", bytes(16), b"\xff" * 16) == {recorded.run.run_id for recorded in runs}


def test_runs_of_a_time_are_listed_without_reading_other_hours(days):
    """A list from a moment on reads the hours from there on."""
    root, runs = days
    break_files_but(root, SPANS, STARTED_MS + 29 * HOUR_MS)
    found = Lake(root).runs(since_ns=runs[29].run.started_ns)
    assert [summary.run for summary in found] == [runs[29].run]
    assert Lake(root).runs(since_ns=runs[29].run.started_ns, until_ns=runs[29].run.started_ns) == []
    with pytest.raises(DamagedRecording):
        Lake(root).runs(since_ns=runs[28].run.started_ns)


def test_a_text_that_begins_a_run_id_and_a_trace_id_means_the_run_id(tmp_path):
    """Run ids come first; a trace id is looked for when no run id begins so."""
    one, other = RunMaker(0), RunMaker(1)
    other.trace_id = one.run_id[:7] + bytes(9)
    write_runs(tmp_path, [one.run(), other.run()], segments=["one"])
    lake = Lake(tmp_path)
    assert lake.find(other.trace_id.hex()) == other.run_id
    assert lake.find(one.run_id.hex()) == one.run_id
    with pytest.raises(RunNotFound):
        lake.find(one.run_id.hex()[:12])


def test_a_query_that_shows_no_contents_reads_no_payloads(days):
    """Payload files may be damaged as long as no query asks for what lies in them; then the damage is said."""
    root, runs = days
    break_files_but(root, PAYLOADS, STARTED_MS)  # a connection looks at the first for its columns
    with connect(root) as connection:
        count = "SELECT count(*) FROM tool_calls WHERE source = 'live' AND duration_ms > 0"
        assert connection.execute(count).fetchone() == (60,)
        with pytest.raises(duckdb.Error, match="cannot be read"):
            connection.execute("SELECT arguments FROM tool_calls").fetchall()


def test_contents_that_are_gone_or_no_text_are_null(tmp_path):
    """Other rows of the same query keep theirs."""
    maker, gone = RunMaker(0), RunMaker(1, started_ms=STARTED_MS + HOUR_MS)
    maker.tool("text", {"order": 7}, "one")
    maker.add(maker.members[0].node.kind, "bytes", maker.keep(b"\xff\xfe"), maker.value("two"))
    gone.tool("gone", {"order": 8}, "three")
    write_runs(tmp_path, [maker.run(), gone.run()], segments=["one"])
    *_, last = all_files(tmp_path, PAYLOADS)
    last.path.unlink()
    with connect(tmp_path) as connection:
        rows = connection.execute("SELECT name, arguments, result FROM tool_calls ORDER BY started_at").fetchall()
    shown = [("text", '{"args":[],"kwargs":{"order":7}}', '"one"'), ("bytes", None, '"two"'), ("gone", None, None)]
    assert rows == shown


def test_contents_are_shown_of_packs_that_come_while_a_connection_lives(tmp_path):
    """A connection that was opened before a sealing shows the arguments that came with it."""
    write_runs(tmp_path, [full_run(0)], segments=["one"])
    with connect(tmp_path) as connection:
        asked = "SELECT count(arguments) FROM tool_calls"
        assert connection.execute(asked).fetchone() == (2,)
        write_runs(tmp_path, [full_run(1)], segments=["two"])
        assert connection.execute(asked).fetchone() == (4,)


def test_contents_of_many_rows_are_those_of_the_payloads(tmp_path):
    """More rows than DuckDB takes at once, from two packs in turn, sorted and joined: each keeps its own arguments."""
    for hour in range(2):
        maker = RunMaker(hour, started_ms=STARTED_MS + hour * HOUR_MS)
        for number in range(3000):
            maker.tool("look", {"order": f"{hour}-{number}-{'x' * (number % 40)}"}, [number] * (number % 30))
        write_runs(tmp_path, [maker.run()], segments=[str(hour)])
    with connect(tmp_path) as connection:
        shown = connection.execute(
            "SELECT one.hour, one.step, coalesce(one.arguments, ''), one.result, other.arguments "
            "FROM tool_calls AS one JOIN tool_calls AS other USING (run_id, step) ORDER BY hash(one.step), one.run_id"
        ).fetchall()
    assert len(shown) == 6000
    first_hour = min(row[0] for row in shown)
    for hour, step, arguments, result, again in shown:
        order = f"{hour - first_hour}-{step - 1}-{'x' * ((step - 1) % 40)}"
        assert arguments == again == f'{{"args":[],"kwargs":{{"order":"{order}"}}}}'
        assert json.loads(result) == [step - 1] * ((step - 1) % 30)

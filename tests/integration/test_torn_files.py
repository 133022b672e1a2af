"""A torn file of a lake is named with what to do, and everything else is served."""

from __future__ import annotations

import json
import time

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.model import new_run_id
from tests.support.journal_runs import JournalRun

FIRST_MS = 1_795_003_200_000  # 2026-11-18 12:00:00 UTC
HOUR_MS = 3_600_000


@pytest.fixture
def torn(tmp_path):
    """Return a lake of three runs, an hour each, the id of the first and last, and the file of the second, cut."""
    lake, runs = tmp_path / "lake", []
    for hour in range(3):
        journal = Journal(lake)
        run = JournalRun(journal, run_id=new_run_id(FIRST_MS + hour * HOUR_MS + 1))
        run.tool("a", "x" * 2000)
        run.finish()
        journal.close()
        seal(lake)
        runs.append(run.run_id.hex())
    (path,) = (file for file in (lake / "spans").rglob("*.parquet") if "hour=13" in str(file))
    path.write_bytes(path.read_bytes()[:500])
    return lake, (runs[0], runs[2]), path, runs[1]


def cli(lake, *arguments):
    return CliRunner().invoke(main, [*arguments, "--lake", str(lake)])


def names(done, path):
    return str(path) in done.stderr and "put a copy of the file back" in done.stderr and "doctor --deep" in done.stderr


def test_runs_lists_the_others(torn):
    """The file is on standard error and in the document; exit code 1 says that the list is not whole."""
    lake, others, path, _ = torn
    done = cli(lake, "runs", "--json")
    document = json.loads(done.stdout)
    assert sorted(one["run"] for one in document["runs"]) == sorted(others)
    assert [one["file"] for one in document["unreadable"]] == [str(path)]
    assert done.exit_code == 1
    assert names(done, path)


@pytest.mark.parametrize("query", ["SELECT run_id FROM runs", "SELECT DISTINCT run_id FROM steps"])
def test_sql_answers_from_the_others(torn, query):
    """Whether the torn file is met when the views are made or when rows are read."""
    lake, others, path, _ = torn
    done = cli(lake, "sql", "--json", query)
    assert sorted(one["run_id"] for one in json.loads(done.stdout)) == sorted(others)
    assert done.exit_code == 1
    assert names(done, path)


def test_sql_tells_a_wrong_query_from_a_torn_file(torn):
    """A query that is wrong stays a usage error."""
    assert cli(torn[0], "sql", "SELECT nothing FROM nowhere").exit_code == 2


def test_retain_keeps_what_a_fork_in_it_may_need_until_it_is_out_of_the_lake(torn, tmp_path):
    """A torn file that is not old is named with the hours that stay for it; once it is moved away they go."""
    lake, others, path, _ = torn
    seconds = time.time() - (FIRST_MS + HOUR_MS) / 1000
    retain = ("retain", "--days", str(seconds / 86_400))
    done = cli(lake, *retain, "--json")
    document = json.loads(done.stdout)
    assert (document["runs"], document["in_doubt"]) == (0, ["2026-11-18 12"])
    assert [one["file"] for one in document["unreadable"]] == [str(path)]
    assert done.exit_code == 1
    assert names(done, path)
    told = cli(lake, *retain).stdout
    assert "0 hours went" in told
    assert "kept: 1 old hour, for a fork in a file that cannot be read may share its steps with any run" in told
    path.rename(tmp_path / path.name)
    done = cli(lake, *retain, "--json")
    assert (json.loads(done.stdout)["runs"], done.exit_code) == (1, 0)
    assert [one["run"] for one in json.loads(cli(lake, "runs", "--json").stdout)["runs"]] == [others[1]]


@pytest.mark.parametrize("kind", ["labels", "compaction"])
def test_retain_deletes_nothing_where_holds_or_live_files_cannot_be_read(torn, kind):
    """A torn label may be a hold, a torn list of live files may list forks: both are named, exit code 125."""
    lake, others, path, _ = torn
    path.unlink()
    if kind == "labels":
        assert cli(lake, "retain", "--hold", others[0]).exit_code == 0
        (torn_file,) = (lake / "labels").rglob("*.parquet")
    else:
        torn_file = next((lake / "spans").rglob("hour=14")) / "_compaction.json"
    torn_file.write_bytes(b"PAR1")
    seconds = time.time() - (FIRST_MS + HOUR_MS) / 1000
    done = cli(lake, "retain", "--days", str(seconds / 86_400))
    assert done.exit_code == 125
    assert str(torn_file) in done.stderr
    assert list((lake / "spans").rglob("hour=12/*.parquet"))


def test_a_run_is_found_beside_it_and_one_in_it_cannot_be_judged(torn):
    """`show` of a run that can be read says nothing of the file; of one that may lie in it, it names it: 125."""
    lake, others, path, lost = torn
    assert cli(lake, "show", others[0]).exit_code == 0
    done = cli(lake, "show", lost)
    assert done.exit_code == 125
    assert names(done, path)

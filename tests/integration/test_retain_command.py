"""`agent-replay retain`: what is old goes from lake and ledger alike, what somebody needs stays, and what it says."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.export import retaining
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.sealer import seal, seal_lock
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.label_file import write_labels
from otel_agent_replay.lake.maintenance import maintenance_lock
from otel_agent_replay.lake.views import connect
from otel_agent_replay.ledger import ledger_url, open_ledger
from otel_agent_replay.model import Label, new_run_id
from tests.support.journal_runs import JournalRun
from tests.support.ledger_worker import effect, started

ROOT = Path(__file__).parent.parent.parent
DIES_AT_ITS_END = """
import os, signal
import otel_agent_replay as replay
from otel_agent_replay.ledger import Lease

def die(lease, status):
    os.kill(os.getpid(), signal.SIGKILL)

Lease.release = die
replay.configure(lake={lake!r}, ledger="file", seal="off")

@replay.tool(side_effect="write")
def pay(idempotency_key=""):
    return 1

@replay.agent
def desk():
    return pay()

desk()
"""


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def book(lake):
    """The ledger in the lake's folder."""
    opened = open_ledger(ledger_url("file", lake))
    yield opened
    opened.close()


def make(lake, hours_ago, **facts):
    """Record and seal a run that began so long ago; return its id."""
    journal = Journal(lake)
    run = JournalRun(journal, run_id=new_run_id(int(time.time() - hours_ago * 3600) * 1000), **facts)
    run.tool("a", "x" * 2000)
    run.finish()
    journal.close()
    seal(lake)
    return run.run_id


def held(book, run_id, worker="elsewhere"):
    return book.begin_run(run_id, "desk", worker=worker, lease_s=600)


def age(lake, *runs, hours, **columns):
    """Let rows of the ledger be last written so long ago."""
    values = {"updated_ns": int((time.time() - hours * 3600) * 1e9), **columns}
    with closing(sqlite3.connect(lake / "ledger.sqlite")) as connection, connection:
        for run_id in runs:
            setting = ", ".join(f"{name} = ?" for name in values)
            connection.execute(f"update agent_replay_runs set {setting} where run_id = ?", (*values.values(), run_id))


def retain(lake, *arguments, status=0, env=None):
    """Run the command; return what it printed: on standard output where it succeeded."""
    environment = {"AGENT_REPLAY_LAKE": "", "AGENT_REPLAY_LEDGER": None, **(env or {})}
    done = CliRunner().invoke(main, ["retain", "--lake", str(lake), *arguments], env=environment)
    assert done.exit_code == status, done.output
    return done.output if status else done.stdout


def told(lake, *arguments):
    return json.loads(retain(lake, "--json", *arguments))


def there(lake):
    return {summary.run.run_id for summary in Lake(lake).runs()}


def test_old_hours_and_their_ledger_rows_go_together(lake, book):
    """Runs older than the age leave lake and ledger; younger ones stay in both, and the numbers are told."""
    old, young = make(lake, 100), make(lake, 2)
    for run_id in (old, young):
        lease = held(book, run_id)
        lease.intend(**effect("k"))
        lease.finish(tool="refund", key="k", failed=False, result_digest=b"d" * 32, result=b"paid")
        lease.release("ok")
    age(lake, old, hours=99)
    before = list(lake.rglob("*.parquet"))
    document = told(lake, "--days", "2")
    assert (document["schema"], document["schema_version"]) == ("agent-replay/retain", 1)
    assert (document["hours"], document["runs"], document["ledger_runs"]) == (1, 1, 1)
    assert document["files"] == len(before) - len(list(lake.rglob("*.parquet"))) > 0
    assert document["bytes"] > 0
    assert (document["dry_run"], document["kept"]) == (False, [])
    assert there(lake) == {young}
    assert [run.run_id for run in book.runs()] == [young]
    assert (book.effects(old), book.steps(old)) == ([], [])
    assert len(book.effects(young)) == 1


@pytest.mark.parametrize(("given", "hours"), [("0.5", 12), ("3", 72), ("7", 168)])
def test_an_age_is_days_or_parts_of_them(lake, given, hours):
    """What is three hours older than the age goes, what is three hours younger stays."""
    make(lake, hours + 3)
    young = make(lake, hours - 3)
    retain(lake, "--days", given)
    assert there(lake) == {young}


@pytest.mark.parametrize("given", ["0", "-3", "3d", "x", ""])
def test_what_is_no_age_is_a_usage_error(lake, given):
    """Anything else is refused with exit code 2, with the value, and nothing goes."""
    run_id = make(lake, 1000)
    assert given in retain(lake, f"--days={given}", status=2)
    assert there(lake) == {run_id}


def test_without_an_age_nothing_goes(lake):
    """There is no default age."""
    run_id = make(lake, 10_000)
    assert "--days" in retain(lake, status=2)
    assert there(lake) == {run_id}


def test_a_dry_run_says_the_same_and_deletes_nothing(lake, book):
    """`--dry-run` tells the numbers of the real one, also of runs that their dead workers left, and changes no row."""
    old, left = make(lake, 100), make(lake, 101)
    held(book, old).release("ok")
    held(book, left)
    age(lake, old, left, hours=99)
    age(lake, left, hours=99, lease_expires_ns=1)
    rows, files = book.runs(), sorted(lake.rglob("*.parquet"))
    said = told(lake, "--days", "2", "--dry-run")
    assert (book.runs(), sorted(lake.rglob("*.parquet"))) == (rows, files)
    assert said.pop("dry_run") is True
    done = told(lake, "--days", "2")
    assert done.pop("dry_run") is False
    assert said == done
    assert (done["runs"], done["ledger_runs"]) == (2, 2)
    assert book.runs() == []


def test_a_dry_run_makes_no_ledger(lake):
    """Where there is no ledger none is made, also when the settings name the file."""
    make(lake, 100)
    retain(lake, "--days", "2", "--dry-run", env={"AGENT_REPLAY_LEDGER": "file"})
    retain(lake, "--days", "2")
    assert there(lake) == set()
    assert not (lake / "ledger.sqlite").exists()


def test_people_are_told_in_a_line_what_went_and_what_stays(lake, book):
    """Without `--json` it says how much went, then each old hour that stays and what for."""
    make(lake, 200)
    run_id = make(lake, 100)
    held(book, run_id)
    would = retain(lake, "--days", "2", "--dry-run")
    assert "1 hour would go: 1 run in" in would
    lines = retain(lake, "--days", "2").splitlines()
    assert re.fullmatch(r"1 hour went: 1 run in \d+ files, \d+ bytes; 0 runs of the ledger", lines[0])
    assert len(lines) == 2
    assert f"for run {run_id.hex()} is needed by the ledger" in lines[1]


def test_a_run_that_another_process_goes_on_with_is_not_taken(lake, book):
    """An old run that a live process holds stays, recording and rows, until that process is gone."""
    run_id = make(lake, 100)
    with started(ledger_url("file", lake), run_id, "") as (worker,):
        worker.ask("take_over", lease_s=600)
        worker.ask("intend", key="k")
        age(lake, run_id, hours=99)
        document = told(lake, "--days", "2")
        assert (document["hours"], document["ledger_runs"]) == (0, 0)
        assert [(one["run"], one["needed_by"]) for one in document["kept"]] == [(run_id.hex(), "the ledger")]
        assert there(lake) == {run_id}
        worker.kill()
    assert book.effects(run_id)[0].status == "intended"
    document = told(lake, "--days", "2")  # nobody holds it; what it began is not known to be over
    assert (document["hours"], document["ledger_runs"]) == (1, 0)
    assert book.effects(run_id)[0].status == "intended"


@pytest.mark.parametrize("waits", ["in doubt", "approval"])
def test_a_run_that_waits_for_a_person_keeps_its_recording(lake, book, waits):
    """What a person must decide on can still be gone on with after they did: its hour and its rows stay till then."""
    run_id = make(lake, 100)
    lease = held(book, run_id)
    if waits == "approval":
        lease.await_decision(step=1, name="ask", digest=b"d" * 32, arguments=b"")
    else:
        lease.intend(**effect("k"))
        lease.doubt(tool="refund", key="k")
    lease.release("pending")
    age(lake, run_id, hours=99)
    document = told(lake, "--days", "2")
    assert (document["hours"], document["ledger_runs"], len(document["kept"])) == (0, 0, 1)
    assert there(lake) == {run_id}
    if waits == "approval":
        book.answer(run_id, 1, granted=True, by="ana")
    else:
        book.decide(run_id, 1, happened=True, result=None, by="ana")
    assert told(lake, "--days", "2")["hours"] == 1


def test_the_ledger_may_be_elsewhere(lake, tmp_path):
    """`--ledger`, or AGENT_REPLAY_LEDGER, names the ledger whose rows go."""
    url = f"sqlite:///{tmp_path / 'elsewhere.sqlite'}"
    for number, more in enumerate([{"env": {"AGENT_REPLAY_LEDGER": url}}, {}]):
        run_id = make(lake, 100 + number)
        other = open_ledger(url)
        held(other, run_id).release("ok")
        with closing(sqlite3.connect(tmp_path / "elsewhere.sqlite")) as connection, connection:
            connection.execute("update agent_replay_runs set updated_ns = 1")
        assert "1 run of the ledger" in retain(lake, "--days", "2", *([] if more else ["--ledger", url]), **more)
        assert other.runs() == []
        other.close()
    assert not (lake / "ledger.sqlite").exists()


def test_a_ledger_that_cannot_be_opened_stops_everything(lake):
    """A wrong ledger is a usage error, and the lake stays as it is."""
    run_id = make(lake, 100)
    retain(lake, "--days", "2", "--ledger", "mysql://u@h/d", status=2)
    assert there(lake) == {run_id}


def test_while_another_process_seals_it_says_so_and_exits_125(lake, monkeypatch):
    """When the lake is being sealed for too long, nothing goes and the exit code says that it could not be done."""
    run_id = make(lake, 100)
    monkeypatch.setattr(
        retaining, "retain_lake", partial(retaining.retain_lake, wait_s=0.0)
    )  # it would wait half a minute
    with seal_lock(lake, 0.0) as is_held:
        assert is_held
        assert "seals" in retain(lake, "--days", "2", status=125)
    assert there(lake) == {run_id}


def test_a_run_killed_between_its_end_and_giving_it_back_goes_with_its_recording(lake, tmp_path):
    """A process that dies after it recorded the run's end leaves it running in the ledger; it goes all the same."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DIES_AT_ITS_END.format(lake=str(lake)))],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    seal(lake)
    (summary,) = Lake(lake).runs()
    assert summary.run.status.value == "ok"
    book = open_ledger(ledger_url("file", lake))
    run_id = summary.run.run_id
    assert book.run(run_id).status == "running"
    assert told(lake, "--days", "0.042")["ledger_runs"] == 0
    assert (book.run(run_id).status, book.run(run_id).worker) == ("ok", "")
    age(lake, run_id, hours=2)
    assert told(lake, "--days", "0.042")["ledger_runs"] == 1
    assert book.runs() == []
    book.close()


def test_an_absent_lake_has_nothing_to_delete(lake):
    """It is not made, and nothing fails."""
    document = told(lake, "--days", "2")
    assert (document["hours"], document["runs"], document["ledger_runs"]) == (0, 0, 0)
    assert not lake.exists()


def test_a_held_run_keeps_its_hour_until_it_is_released(lake):
    """`--hold RUN` keeps an old run, with why and by whom in the view `labels`; `--release RUN` lets it go."""
    held, other = make(lake, 100), make(lake, 200)
    assert "is held" in retain(lake, "--hold", held.hex(), "--note", "claim 4711")
    document = told(lake, "--days", "2")
    assert [(one["run"], one["needed_by"]) for one in document["kept"]] == [(held.hex(), "a hold")]
    assert there(lake) == {held}
    assert other not in there(lake)
    with connect(lake) as connection:
        rows = connection.execute("SELECT name, value.boolean, note FROM labels").fetchall()
    assert rows == [("hold", True, "claim 4711")]
    assert told(lake, "--release", held.hex()[:20]) == {
        "schema": "agent-replay/hold", "schema_version": 1, "run": held.hex(), "held": False, "note": "",
    }  # fmt: skip
    assert told(lake, "--days", "2")["hours"] == 1
    assert there(lake) == set()


def test_labelled_runs_stay_where_that_is_asked(lake):
    """`--keep-label NAME` keeps runs with that label, but for those of which the latest one says false."""
    good, no_longer, other = (make(lake, 100 + 2 * number) for number in range(3))
    for run_id, value, time_ns in [(good, "yes", 1), (no_longer, True, 1), (no_longer, False, 2), (other, True, 1)]:
        name = "other" if run_id is other else "good"
        write_labels(lake, [Label(run_id, "ana", time_ns, name, value)])
    document = told(lake, "--days", "2", "--keep-label", "good")
    assert [(one["run"], one["needed_by"]) for one in document["kept"]] == [(good.hex(), "label good")]
    assert there(lake) == {good}
    assert told(lake, "--days", "2")["hours"] == 1


@pytest.mark.parametrize("given", [True, False])
def test_the_runs_of_cases_stay(lake, tmp_path, monkeypatch, given):
    """A run that a case keeps stays in the lake it was taken from; `cases` is looked into without being named."""
    kept, other = make(lake, 100), make(lake, 200)
    folder = tmp_path / "cases" / "refund-twice"
    folder.mkdir(parents=True)
    (folder / "case.yaml").write_text(f"kind: bad\nabout: x\nexpect: {{}}\nrun: '{kept.hex()}'\n")
    monkeypatch.chdir(tmp_path if not given else lake)
    document = told(lake, "--days", "2", *(["--cases", str(tmp_path / "cases")] if given else []))
    assert [(one["run"], one["needed_by"]) for one in document["kept"]] == [(kept.hex(), "case refund-twice")]
    assert there(lake) == {kept}
    assert other not in there(lake)


def test_the_lake_of_a_case_is_never_thinned_out(tmp_path):
    """It is sealed as it stands."""
    lake = tmp_path / "lake"
    run_id = make(lake, 1000)
    (tmp_path / "case.yaml").write_text("run: x\n")
    assert "sealed" in retain(lake, "--days", "2", status=2)
    assert there(lake) == {run_id}


def test_while_a_lake_is_compacted_nothing_is_deleted(lake, monkeypatch):
    """One works on a lake at a time; the exit code says that it could not be done."""
    monkeypatch.setattr(retaining, "retain_lake", partial(retaining.retain_lake, wait_s=0.0))
    run_id = make(lake, 1000)
    with maintenance_lock(lake):
        assert "compacts" in retain(lake, "--days", "2", status=125)
    assert there(lake) == {run_id}


def test_a_hold_survives_compaction_and_goes_with_its_hour(lake):
    """Labels are merged with the rest; when an hour goes, what compaction noted there goes too."""
    one, two = make(lake, 100), make(lake, 100)
    for run_id in (one, two):
        retain(lake, "--hold", run_id.hex())
    retain(lake, "--release", two.hex())
    compact(lake, grace_s=0)
    assert told(lake, "--days", "2")["kept"][0]["run"] == one.hex()
    retain(lake, "--release", one.hex())
    assert told(lake, "--days", "2")["hours"] == 1
    assert not list(lake.rglob("hour=*"))

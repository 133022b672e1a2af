"""A replay changes no file outside the folders it was given: real attempts in real child processes."""

import json
import os
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.agents import ROOT, Script, assert_same

PROLOGUE = """
import contextlib, json, os, pathlib, shutil, sqlite3, sys, tempfile, threading
from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.boundary.policy import EXACT
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.fence import Fence
from otel_agent_replay.replay.file_fence import FileFence

class Quiet:
    def inside(self, place): return contextlib.nullcontext()

session = Session(run_id=b"r" * 16, root=Place.root("agent"), mode=EXACT, observer=Quiet(), redaction=Redaction())
OUT, IN = sys.argv[1], sys.argv[2]
OLD = os.path.join(OUT, "old.txt")

def outcome(attempt):
    try:
        return f"OPEN {attempt()!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"

fence = Fence(files=FileFence([IN]))
"""


@pytest.fixture
def folders(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "old.txt").write_text("old")
    database = sqlite3.connect(outside / "known.sqlite")
    with database:
        database.execute("create table known (answer)")
        database.execute("insert into known values (42)")
    database.close()
    return outside, inside


def state_of(folder):
    return {path.name: (path.stat().st_mode, path.read_bytes()) for path in sorted(folder.iterdir())}


def child(tmp_path, folders, body):
    script = tmp_path / "writer.py"
    script.write_text(PROLOGUE + textwrap.dedent(body))
    done = subprocess.run(
        [sys.executable, str(script), *map(str, folders)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


WRITES = {
    "open": "open(OUT + '/new', 'w')",
    "append": "open(OLD, 'a')",
    "update": "open(OLD, 'r+b')",
    "exclusive": "open(OUT + '/new', 'x')",
    "os.open": "os.open(OLD, os.O_RDWR)",
    "os.open create": "os.open(OUT + '/new', os.O_CREAT)",
    "pathlib": "pathlib.Path(OLD).write_text('new')",
    "bytes path": "open(os.fsencode(OLD), 'wb')",
    "relative": "(os.chdir(OUT), open('new', 'w'))",
    "dots": "open(IN + '/../outside/old.txt', 'w')",
    "remove": "os.remove(OLD)",
    "remove below a descriptor": "os.remove('old.txt', dir_fd=os.open(OUT, os.O_RDONLY))",
    "rename": "os.rename(OLD, IN + '/stolen')",
    "rename onto": "os.replace(IN + '/mine', OLD)",
    "link": "os.link(OLD, IN + '/second')",
    "symlink": "os.symlink(OLD, OUT + '/second')",
    "mkdir": "os.mkdir(OUT + '/new')",
    "rmdir": "os.rmdir(OUT)",
    "truncate": "os.truncate(OLD, 0)",
    "chmod": "os.chmod(OLD, 0o777)",
    "utime": "os.utime(OLD)",
    "shutil.copy": "shutil.copy(__file__, OUT + '/new')",
    "shutil.move": "shutil.move(OLD, IN)",
    "shutil.rmtree": "shutil.rmtree(OUT)",
    "sqlite new": "sqlite3.connect(OUT + '/new.sqlite')",
    "sqlite by address": "sqlite3.connect(f'file:{OUT}/new.sqlite?mode=rwc', uri=True)",
    "through a link": "(os.symlink(OUT, IN + '/door'), open(IN + '/door/old.txt', 'w'))",
}


@pytest.mark.parametrize("way", WRITES)
def test_a_write_outside_is_refused_with_its_line(tmp_path, folders, way):
    """Code of a run gets FenceViolation naming what it would have changed, and where; nothing is changed."""
    before = state_of(folders[0])
    told = child(
        tmp_path,
        folders,
        f"""
        open(IN + "/mine", "w").close()
        seen = []
        fence.refused = seen.append
        fence.install()
        session.open()
        with session.entered():
            came = outcome(lambda: {WRITES[way]})
        fence.lift()
        print(json.dumps([came, len(seen), [[a.what, a.location, a.in_run] for a in fence.attempts]]))
        """,
    )
    came, seen, attempts = told
    assert came.startswith("FenceViolation: "), came
    assert seen == 1
    (what, location, in_run) = attempts[0]
    assert in_run
    assert str(folders[0]) in what or "/inside/" in what
    script = tmp_path / "writer.py"
    line = next(n for n, text in enumerate(script.read_text().splitlines(), 1) if "came = outcome" in text)
    assert location == f"{script}:{line}"
    assert state_of(folders[0]) == before


def test_what_is_allowed_works_without_a_word(tmp_path, folders):
    """Reading anywhere, writing inside, open descriptors, /dev/null and databases in memory are no attempts."""
    told = child(
        tmp_path,
        folders,
        """
        tempfile.tempdir = IN
        early = open(OLD, "a")
        fence.install()
        session.open()
        with session.entered():
            read = open(OLD).read()
            early.write("er"); early.flush(); os.truncate(early.fileno(), 5)
            open(os.devnull, "w").write("x")
            open("/dev/stdout", "w").close()
            with tempfile.NamedTemporaryFile("w") as scratch: scratch.write("x")
            os.makedirs(IN + "/a/b"); pathlib.Path(IN, "a/b/c").write_text("x"); shutil.rmtree(IN + "/a")
            memory = sqlite3.connect(":memory:"); memory.execute("create table a (b)")
            mine = sqlite3.connect(IN + "/mine.sqlite"); mine.execute("create table a (b)"); mine.close()
            known = sqlite3.connect(OUT + "/known.sqlite")
            answer = known.execute("select answer from known").fetchone()
            known.execute("create temp table t (a)"); known.execute("insert into t values (1)")
            known.execute("pragma user_version").fetchone()
            known.executescript("pragma journal_mode = delete; create table if not exists known (answer);")
        fence.lift()
        print(json.dumps([read, answer, [a.what for a in fence.attempts]]))
        """,
    )
    assert told == ["old", [42], []]
    assert (folders[0] / "old.txt").read_text() == "older"


@pytest.mark.parametrize(
    "statement",
    [
        "insert into known values (43)",
        "drop table known",
        "create table other (a)",
        "create index quick on known (answer)",
        "alter table known add column more",
        "pragma user_version = 7",
        "pragma journal_mode = wal",
    ],
)
def test_a_known_database_is_read_only(tmp_path, folders, statement):
    """A statement that would change a database stops the run, though SQLite hides the reason from the code."""
    before = state_of(folders[0])
    told = child(
        tmp_path,
        folders,
        f"""
        seen = []
        fence.refused = seen.append
        fence.install()
        session.open()
        with session.entered():
            known = sqlite3.connect(OUT + "/known.sqlite")
            came = outcome(lambda: known.execute({statement!r}))
        fence.lift()
        print(json.dumps([came, len(seen), fence.attempts[0].what]))
        """,
    )
    assert "Error: not authorized" in told[0]
    assert told[1] >= 1
    assert told[2].endswith("known.sqlite")
    assert state_of(folders[0]) == before


def test_a_cache_or_code_outside_a_run_stops_nothing(tmp_path, folders):
    """A library's cache and a background thread get PermissionError, which they survive; both are named."""
    told = child(
        tmp_path,
        folders,
        """
        came = []
        seen = []
        go = threading.Event()
        def logger():
            go.wait()
            came.append(outcome(lambda: open(OLD, "w")))
        thread = threading.Thread(target=logger); thread.start()
        os.makedirs(OUT + "/.cache/fonts")
        fence.refused = seen.append
        fence.install()
        session.open()
        with session.entered():
            came.append(outcome(lambda: open(OUT + "/.cache/fonts/list.json", "w")))
            go.set(); thread.join()
        fence.lift()
        shutil.rmtree(OUT + "/.cache")
        print(json.dumps([came, len(seen), [a.in_run for a in fence.attempts]]))
        """,
    )
    assert [text.partition(":")[0] for text in told[0]] == ["PermissionError", "PermissionError"]
    assert told[1:] == [0, [False, False]]


AGENT = """
import os, sys, tempfile
import otel_agent_replay as replay

@replay.agent
def clerk(question):
    with tempfile.NamedTemporaryFile("w") as scratch:
        scratch.write(question)
    #WRITE
    return question

clerk("how much?")
open(sys.argv[1], "w").write(tempfile.gettempdir())
"""


@pytest.fixture
def script(tmp_path):
    return Script(tmp_path, AGENT)


def test_a_replay_has_a_scratch_folder_of_its_own(script):
    """Temporary files go to a folder of the replay, which is gone afterwards; a declared folder may be written."""
    run = script.record("live.txt")["clerk"]
    out = script.folder / "out"
    out.mkdir()
    verdict = script.replay(run, "out/replayed.txt", allow_write=[out])
    assert_same(verdict)
    assert verdict.attempts == ()
    scratch = (out / "replayed.txt").read_text()
    assert scratch != (script.folder / "live.txt").read_text()
    assert not Path(scratch).exists()


def test_a_write_of_a_changed_agent_is_a_departure(script):
    """The agent's new line that writes a file departs with file and line, and the file is not there."""
    run = script.record("live.txt")["clerk"]
    script.edit("#WRITE", "open('report.txt', 'w').write(question)")
    verdict = script.replay(run, "out.txt")
    assert verdict.status is VerdictStatus.DEPARTED, verdict.to_json()
    line = next(n for n, text in enumerate(script.path.read_text().splitlines(), 1) if "report.txt" in text)
    assert verdict.attempts[0].what == f"write {script.folder / 'report.txt'}"
    assert verdict.attempts[0].location == f"{script.path}:{line}"
    assert not (script.folder / "report.txt").exists()
    assert not (script.folder / "out.txt").exists()


def test_what_is_recorded_cannot_be_altered_by_its_replay(script):
    """Of the lake only the journal is open to a replay."""
    run = script.record("live.txt")["clerk"]
    victim = next((script.lake / "spans").rglob("*.parquet"))
    script.edit("#WRITE", f"open({str(victim)!r}, 'ab')")
    verdict = script.replay(run, "out.txt")
    assert verdict.attempts[0].what == f"write {victim}"


def test_a_declared_folder_must_be_there(script):
    """A folder that is not there is no replay, and no agent's code runs."""
    run = script.record("live.txt")["clerk"]
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        script.replay(run, "out.txt", allow_write=[script.folder / "missing"])

"""The kernel's wall around files holds what no fence in the process sees: raw C calls, descriptors, C libraries."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from otel_agent_replay.replay import landlock
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.agents import ROOT, Script, assert_same

pytestmark = pytest.mark.skipif(bool(landlock.why_not()), reason=landlock.why_not() or "available")

PROLOGUE = """
import ctypes, errno, json, os, pathlib, signal, sqlite3, sys, threading
OUT, IN = map(pathlib.Path, sys.argv[1:3])
OLD = OUT / "old.txt"
from otel_agent_replay.replay import landlock
libc = ctypes.CDLL(None, use_errno=True)

def outcome(attempt):
    try:
        return f"OPEN {attempt()!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"

def raw(result):
    refused = result == -1 and ctypes.get_errno() in (errno.EACCES, errno.EPERM, errno.EXDEV)
    return "refused" if refused else f"OPEN {result}"
"""


@pytest.fixture
def folders(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "old.txt").write_text("old")
    (inside / "mine.txt").write_text("mine")
    return outside, inside


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


ESCAPES = {
    "write": "outcome(lambda: OLD.write_text('new'))",
    "create": "outcome(lambda: (OUT / 'new').write_text('new'))",
    "relative to a descriptor": "outcome(lambda: os.open('old.txt', os.O_WRONLY, dir_fd=folder))",
    "raw open": "raw(libc.open(bytes(OLD), os.O_WRONLY))",
    "raw syscall": "raw(libc.syscall(257, -100, bytes(OLD), os.O_RDWR, 0))",
    "reopened descriptor": "outcome(lambda: open(f'/proc/self/fd/{reading}', 'w'))",
    "unnamed file": "outcome(lambda: os.open(OUT, os.O_TMPFILE | os.O_RDWR))",
    "remove": "outcome(OLD.unlink)",
    "rename": "outcome(lambda: OLD.rename(OUT / 'other'))",
    "move in": "outcome(lambda: OLD.rename(IN / 'stolen'))",
    "move out": "outcome(lambda: (IN / 'mine.txt').rename(OLD))",
    "second name": "outcome(lambda: os.link(OLD, IN / 'second'))",
    "mkdir": "outcome((OUT / 'new').mkdir)",
    "symlink": "outcome(lambda: (OUT / 'new').symlink_to(OLD))",
    "fifo": "outcome(lambda: os.mkfifo(OUT / 'new'))",
    "link inside": "((IN / 'door').symlink_to(OLD), outcome(lambda: (IN / 'door').write_text('new')))[1]",
    "sqlite": "outcome(lambda: sqlite3.connect(OUT / 'new.sqlite').execute('create table a (b)'))",
    "subprocess": "outcome(lambda: __import__('subprocess').run(['touch', OUT / 'new'], check=True, stderr=-3))",
    "signal": "outcome(lambda: os.kill(os.getppid(), 0))",
}


def test_nothing_is_written_outside(tmp_path, folders):
    """Python's ways, raw system calls, a C library and a child process all fail; the folder is as it was."""
    attempts = ", ".join(f"{name!r}: {code}" for name, code in ESCAPES.items())
    told = child(
        tmp_path,
        folders,
        f"""
        folder, reading = os.open(OUT, os.O_RDONLY), os.open(OLD, os.O_RDONLY)
        others = landlock.apply([IN])
        told = {{{attempts}}}
        told["inside"] = outcome(lambda: (IN / "new").write_text("x"))
        told["read"] = OLD.read_text()
        told["null"] = outcome(lambda: open(os.devnull, "w").write("x"))
        from multiprocessing import Lock
        told["lock"] = outcome(Lock).partition(" ")[0]
        thread = []
        one = threading.Thread(target=lambda: thread.append(outcome(lambda: OLD.write_text("new"))))
        one.start(); one.join()
        print(json.dumps([others, told, thread]))
        """,
    )
    others, came, thread = told
    assert others == 0
    for name in ESCAPES:
        if name == "signal" and came[name] == "OPEN None" and landlock._version() < 6:
            continue
        assert not came[name].startswith("OPEN"), (name, came[name])
    assert came["inside"] == "OPEN 1"
    assert came["read"] == "old"
    assert came["null"] == "OPEN 1"
    assert came["lock"] == "OPEN"
    assert thread[0].startswith("PermissionError")
    assert [path.name for path in folders[0].iterdir()] == ["old.txt"]
    assert (folders[0] / "old.txt").read_text() == "old"


def test_threads_of_before_are_counted(tmp_path, folders):
    """A thread that ran before is not held by the wall, and that is said, not hidden."""
    told = child(
        tmp_path,
        folders,
        """
        go, came = threading.Event(), []
        def early():
            go.wait()
            came.append(outcome(lambda: OLD.write_text("new")))
        thread = threading.Thread(target=early)
        thread.start()
        others = landlock.apply([IN])
        go.set(); thread.join()
        print(json.dumps([others, came]))
        """,
    )
    assert told == [1, ["OPEN 3"]]


AGENT = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
import otel_agent_replay as replay

@replay.agent
def clerk(question):
    #WRITE
    return question

clerk("how much?")
"""


def test_an_isolated_replay_stands_behind_both_walls(tmp_path):
    """With `isolate` a raw C call of a changed agent writes nothing; the report names both walls of the kernel."""
    script = Script(tmp_path, AGENT)
    run = script.record()["clerk"]
    assert_same(script.replay(run, isolate=True))
    target = tmp_path / "report.txt"
    script.edit("#WRITE", f"libc.open({str(target).encode()!r}, 0o101, 0o600)")
    verdict = script.replay(run, isolate=True)
    assert verdict.fences == ("in-process", "kernel (seccomp)", "kernel files (landlock)")
    assert not target.exists()
    assert verdict.status is VerdictStatus.SAME  # the C call failed, and nothing else differed
    script.replay(run)
    assert target.exists()  # the control: the fence in the process alone does not see it
    target.unlink()
    script.replay(run, isolate=True, allow_write=[tmp_path])
    assert target.exists()

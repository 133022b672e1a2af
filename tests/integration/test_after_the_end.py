"""What comes after a run's end, or after the end of its recording: told for what it is."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import Kind, LossReason, RunStatus
from tests.support.agents import Script, nodes_of

LEFT_BEHIND = """
import sys, threading
import otel_agent_replay as replay
replay.configure()

@replay.tool(side_effect="read")
def look_up(order):
    return order

ended = threading.Event()
done = threading.Event()

def go_on():
    ended.wait()
    print([look_up("late"), look_up("later")], flush=True)
    done.set()

@replay.agent
def hasty():
    threading.Thread(target=go_on).start()
    return look_up("in time")

@replay.agent
def next_one():
    return look_up("next")

hasty()
if "wait" in sys.argv:
    print("ended", flush=True)
    sys.stdin.readline()
ended.set()
done.wait()
next_one()
"""


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory):
    script = Script(tmp_path_factory.mktemp("left"), LEFT_BEHIND)
    ended = script.run()
    assert ended.stdout == "['late', 'later']\n"
    assert ended.stderr == ""
    script.seal()
    return script


def test_a_thread_left_behind_is_live_unrecorded_and_counted(left_behind):
    """Its calls give what they give; the ended run has one loss for them, the next run none."""
    runs = {run.agent: left_behind.load(run) for run in left_behind.runs()}
    assert len(nodes_of(runs["hasty"], Kind.TOOL)) == 1
    with connect(left_behind.lake) as connection:
        rows = connection.execute("SELECT run_id, reason, what, count, detail FROM losses").fetchall()
    hasty = runs["hasty"].run.run_id.hex()
    assert rows == [(hasty, LossReason.LATE.value, "calls after the run's end", 1, "run:hasty#0")]


def test_show_names_the_late_calls(left_behind):
    """`agent-replay show` says that a run was left by code that went on."""
    assert "things were lost" in shown(left_behind)
    assert "lost: 1 calls after the run's end (late): run:hasty#0" in shown(left_behind, "--coverage")


def test_late_calls_of_a_run_that_is_sealed_already(tmp_path):
    """What comes after a run was published is told with it all the same."""
    script = Script(tmp_path, LEFT_BEHIND)
    process = subprocess.Popen(
        [*script.argv, "wait"],
        env=script.recording_environment(),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ended\n"
    assert seal(script.lake).runs == 1
    stdout, stderr = process.communicate("go on\n", timeout=60)
    assert (process.returncode, stdout, stderr) == (0, "['late', 'later']\n", "")
    script.seal()
    assert "lost: 1 calls after the run's end (late): run:hasty#0" in shown(script, "--coverage")


def shown(script: Script, *options: str) -> str:
    (run,) = (run for run in script.runs() if run.agent == "hasty")
    command = [sys.executable, "-m", "otel_agent_replay", "show", run.run_id.hex(), "--lake", str(script.lake)]
    done = subprocess.run(
        [*command, *options], env=script.environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


DYING = """
import os, signal, sys
import otel_agent_replay as replay
replay.configure()

@replay.tool(side_effect="write")
def act(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number

@replay.agent
def acting():
    try:
        return [act(number) for number in range(4)]
    except BaseException:
        if "swallow" in sys.argv:
            return "swallowed"
        raise

acting()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process is killed")
@pytest.mark.parametrize("arguments", [(), ("swallow",)])
def test_a_replay_that_came_to_the_end_of_a_dead_processs_tape_is_pending(tmp_path, arguments):
    """It did all that the recorded process did, so it has not departed, whatever the agent's code catches."""
    script = Script(tmp_path, DYING)
    script.run(status=-signal.SIGKILL)
    script.seal()
    (recorded,) = [script.load(run) for run in script.runs()]
    assert recorded.run.status is RunStatus.PENDING
    verdict = script.replay(recorded, *arguments)
    assert verdict.tape_ended, json.dumps(verdict.to_json(), indent=2)
    script.seal()
    (replayed,) = [one.run for one in Lake(script.lake).runs() if one.run.replay]
    assert replayed.origin_run_id == recorded.run.run_id
    assert replayed.status is RunStatus.PENDING

"""A replay that wants more than it may is ended, and its verdict names the limit."""

import sys

import pytest

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.replay.limits import Limits
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.agents import Script, assert_same

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")

AGENT = """
import os, time
import otel_agent_replay as replay

@replay.agent
def clerk(question):
    #MORE
    return question

clerk("how much?")
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    script = Script(tmp_path_factory.mktemp("limited"), AGENT)
    return script, script.record()["clerk"]


def replayed(recorded, more, limits):
    script, run = recorded
    script.path.write_text(AGENT.replace("#MORE", more))
    return script.replay(run, limits=Limits.parse(limits))


def test_a_modest_replay_is_the_same_under_limits(recorded):
    """Limits that are not reached change nothing."""
    assert_same(replayed(recorded, "pass", ["cpu=60", "memory=4096", "files=256"]))


LIMITED = {
    "cpu": ("while True: pass", "cpu=2", "killed: CPU limit of 2 s"),
    "memory": ("bytearray(8 << 30)", "memory=2048", "stopped: memory limit of 2048 MiB"),
    "files": ("kept = [open(os.devnull) for _ in range(500)]", "files=128", "stopped: limit of 128 open files"),
}


@pytest.mark.parametrize("kind", LIMITED)
def test_a_limit_is_named_in_the_verdict(recorded, kind):
    """Nothing is said of the code then but which limit stopped it."""
    more, limit, reason = LIMITED[kind]
    verdict = replayed(recorded, more, [limit])
    assert verdict.status is VerdictStatus.CANNOT_JUDGE, verdict.to_json()
    assert verdict.reason == reason


def test_a_limit_outside_any_run_is_named_too(recorded):
    """An import that needs too much memory ends the process before a run began."""
    script, run = recorded
    script.path.write_text("kept = bytearray(8 << 30)\n" + AGENT)
    verdict = script.replay(run, limits=Limits(memory=2048))
    assert verdict.status is VerdictStatus.CANNOT_JUDGE
    assert verdict.reason == "stopped: memory limit of 2048 MiB"


@pytest.mark.parametrize("entry", ["cpu", "cpu=", "cpu=0", "cpu=-1", "cpu=1.5", "disk=7"])
def test_a_wrong_limit_is_an_error_that_shows_it(entry):
    """What is no limit is refused by name."""
    with pytest.raises(ConfigurationError, match=f"limit '{entry}'"):
        Limits.parse([entry])


def test_a_command_that_is_not_there_is_still_an_error(recorded):
    """Under limits, too, a command that cannot be started is a usage error."""
    script, run = recorded
    with pytest.raises(ConfigurationError, match="cannot be started"):
        script.replay(run, command=["no-such-program"], limits=Limits(cpu=5))

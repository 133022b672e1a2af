"""What is said of a process that was to replay, fork, resume or re-run and left no report."""

import signal
import sys

import pytest

from otel_agent_replay.replay.enclosed import why_no_report
from otel_agent_replay.replay.limits import Limits


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
@pytest.mark.parametrize(
    ("status", "limits", "said"),
    [
        (None, Limits(), "its process did not end within 5.0 s and was killed"),
        (-9, Limits(), "its process was killed by signal 9 before it could report"),
        (-9, Limits(memory=64), "before it could report (under a memory limit of 64 MiB)"),
        (-signal.SIGXCPU, Limits(cpu=2), "killed: CPU limit of 2 s"),
        (3, Limits(), "its process ended with status 3 and no report: was it a Python that could be set up?"),
        (3, Limits(files=9), "no report (under a limit of 9 open files): was it"),
    ],
)
def test_a_process_without_a_report_is_told_by_how_it_ended(status, limits, said):
    """The time it was given, the limit it hit, the signal or the status, with the limits that it was under."""
    assert said in why_no_report(status, 5.0, limits)

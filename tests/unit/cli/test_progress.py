"""How far long work is, and how it is ended."""

from __future__ import annotations

import io
import signal
import sys

import pytest

from otel_agent_replay.cli import progress
from otel_agent_replay.cli.progress import Interrupt, ProgressLine
from otel_agent_replay.replay.ask.screen import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    moments = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: moments[0])
    return moments


def test_a_terminal_has_one_line_that_is_written_anew(monkeypatch, clock):
    """What is done, spent and left is on one line, which is gone at the end."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    line = ProgressLine(10_000)
    clock[0] = 10.0
    line.tell(Progress(1_000, 2, 0.5))
    shown = sys.stderr.getvalue()
    line.end()
    assert shown.startswith("\r1,002 of 10,000 asked, 2 without an answer, $0.5000 spent, about 90 s left")
    assert "\n" not in sys.stderr.getvalue()
    assert sys.stderr.getvalue().endswith("\r")


def test_a_file_gets_a_line_now_and_then(monkeypatch, clock):
    """Where nobody watches, a line comes every ten seconds at most, and says the same."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    line = ProgressLine(100)
    for second in range(25):
        clock[0] = float(second)
        line.tell(Progress(second, 0, 0.0))
    line.end()
    assert len(sys.stderr.getvalue().splitlines()) == 2


def test_the_first_interrupt_asks_and_the_second_does_not(capsys):
    """Ctrl-C sets a flag once; another one interrupts as ever, and afterwards everything is as it was."""
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "waiting for the answers under way" in capsys.readouterr().err

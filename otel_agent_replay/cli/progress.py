"""How far long work is, on standard error: one line that is written anew on a terminal, now and then one elsewhere.

And how it is ended: the first Ctrl-C asks, the second does not.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING

from otel_agent_replay.cli.output import remark

if TYPE_CHECKING:
    from otel_agent_replay.replay.ask.screen import Progress

_TERMINAL_S, _FILE_S = 0.2, 10.0


class ProgressLine:
    """Says how many of `total` questions are done, what was spent over all goes, and how long it may take."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._on_terminal = sys.stderr.isatty()
        self._began = self._told = time.monotonic()
        self._written = 0

    def tell(self, progress: Progress) -> None:
        """Say where the work stands, unless that was just said."""
        now = time.monotonic()
        if now - self._told < (_TERMINAL_S if self._on_terminal else _FILE_S):
            return
        self._told = now
        done = progress.answered + progress.unanswered
        left_s = (now - self._began) / done * max(0, self._total - done) if done else 0.0
        text = (
            f"{done:,} of {self._total:,} asked, {progress.unanswered} without an answer, "
            f"${progress.spent_usd:.4f} spent, about {_duration(left_s)} left"
        )
        if self._on_terminal:
            sys.stderr.write("\r" + text.ljust(self._written))
            self._written = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the line to others."""
        if self._written:
            sys.stderr.write("\r" + " " * self._written + "\r")
            sys.stderr.flush()
            self._written = 0


class Interrupt:
    """While it is open, the first Ctrl-C sets `asked` and lets what is under way end; the second interrupts as ever."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._before: signal._HANDLER = None

    def __enter__(self) -> Interrupt:  # noqa: PYI034 - typing.Self needs 3.11
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *what: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        self.asked.set()
        remark("interrupted: waiting for the answers under way (Ctrl-C again leaves them in doubt)")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

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
_LOOK_EVERY = 1000


class _StatusLine:
    """A line that is written now and then."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self.began = self._told = time.monotonic()
        self._written = 0

    @property
    def is_due(self) -> bool:
        """Whether it is time to say something."""
        return time.monotonic() - self._told >= (_TERMINAL_S if self._on_terminal else _FILE_S)

    def left(self, done: int, total: int) -> str:
        """Return how long the rest may take."""
        return _duration((time.monotonic() - self.began) / done * max(0, total - done) if done else 0.0)

    def write(self, text: str) -> None:
        """Say it."""
        self._told = time.monotonic()
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


class ProgressLine(_StatusLine):
    """Says how many of `total` questions are done, what was spent over all goes, and how long it may take."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total

    def tell(self, progress: Progress) -> None:
        """Say where the work stands, unless that was just said."""
        if not self.is_due:
            return
        done = progress.answered + progress.unanswered
        self.write(
            f"{done:,} of {self._total:,} asked, {progress.unanswered} without an answer, "
            f"${progress.spent_usd:.4f} spent, about {self.left(done, self._total)} left"
        )


class CountLine(_StatusLine):
    """Says how many of `total` things are done (`what`: "pairs compared") as a bar, and how long the rest may take."""

    def __init__(self, total: int, what: str) -> None:
        super().__init__()
        self._total = total
        self._what = what
        self._done = 0

    def add(self, count: int) -> None:
        """Count more that are done; say so, unless that was just said."""
        self._done += count
        if self.is_due:
            filled = 20 * self._done // max(1, self._total)
            bar = "#" * filled + "." * (20 - filled)
            left = self.left(self._done, self._total)
            self.write(f"[{bar}] {self._done:,} of {self._total:,} {self._what}, about {left} left")


class TallyLine(_StatusLine):
    """Says on a terminal how many things are done (`what`: "spans read") where nobody knows of how many."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._done = 0
        self._next = _LOOK_EVERY

    def add(self, count: int) -> None:
        """Count more that are done; say so, unless that was just said."""
        self._done += count
        if self._done >= self._next:  # looking at the clock costs more than counting
            self._next = self._done + _LOOK_EVERY
            if self._on_terminal and self.is_due:
                self.write(f"{self._done:,} {self._what}, {_duration(time.monotonic() - self.began)}")


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

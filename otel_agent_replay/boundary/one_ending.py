"""One thread at a time is just ending, or putting something on a queue.

It holds a lock from its place in the run's order on until its future says that it is done, or the item lies there. Else
a thread that is stopped between the two would be done, for whoever looks, after one that ended later.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST_END_S = 1.0


class _Ending:
    """The lock of all who end or put; which thread has it, and which is to have it at its turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = threading.local()

    def begin(self) -> bool:
        """Wait until no other task is just ending, a second at most; return whether it is held now and was not."""
        if getattr(self._own, "held", False):
            return False
        held = self._lock.acquire(timeout=_LONGEST_END_S)
        self._own.held = held
        return held

    def announce(self) -> None:
        """The running thread is about to end: whoever gives it its turn has it `begin` then."""
        self._own.announced = True

    def begin_announced(self) -> None:
        """Begin if that was announced."""
        if getattr(self._own, "announced", False):
            self.begin()

    def over(self) -> None:
        """The running thread is done."""
        self._own.announced = False
        if getattr(self._own, "held", False):
            self._own.held = False
            self._lock.release()


_ending = _Ending()


def begin_ending() -> None:
    """The running thread's pool task is done; its numbered future will say so next."""
    _ending.begin()


def ending_is_over() -> None:
    """The running thread's future is done, if it was one."""
    _ending.over()


def announce_ending() -> None:
    """The same where a replay is to give the running thread its turn first (`take_turn`)."""
    _ending.announce()


def take_turn() -> None:
    """It is the running thread's turn: until it has ended, or put, what it announced, nobody else does."""
    _ending.begin_announced()


@contextmanager
def at_once() -> Iterator[None]:
    """Let no other thread end, or put something on a queue, while the enclosed code does."""
    began = _ending.begin()
    try:
        yield
    finally:
        if began:
            _ending.over()


@contextmanager
def in_its_turn() -> Iterator[None]:
    """Let no other thread end or put from the running one's turn on (`take_turn`) until the enclosed code is done."""
    _ending.announce()
    try:
        yield
    finally:
        _ending.over()


def _in_forked_child() -> None:
    global _ending
    _ending = _Ending()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)

"""What the garbage collector runs is part of no run.

A collection comes when enough has been allocated, so in a replay at another moment than in the recording. The
finalizers, weak references' callbacks and callbacks of the collector's own that it runs read and call for themselves
alone: nothing of it is recorded or answered. What ends because nobody holds it any more ends where it did before, and
stays part of the run.

Owns who collects now. Nothing but a number is set: before Python 3.12 a collection can come in the middle of whatever
allocates, the change of a context among it.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

_ident = threading.get_ident
_callbacks: list[Any] = getattr(gc, "callbacks", [])  # CPython's
collecting = 0
"""The thread that collects now; 0 for none. One does at a time."""


def watch() -> None:
    """Stand around every collection from now on. Again, when a run opens: also around callbacks added since."""
    if not _callbacks or _callbacks[0] is not _began or _callbacks[-1] is not _over:
        for own in (_began, _over):
            if own in _callbacks:
                _callbacks.remove(own)
        _callbacks.insert(0, _began)
        _callbacks.append(_over)


def runs_this() -> bool:
    """Whether the running code is run by the collector; ask where `collecting` is not 0."""
    return collecting == _ident()


def _began(phase: str, _info: dict[str, int]) -> None:
    global collecting
    if phase == "start":
        collecting = _ident()


def _over(phase: str, _info: dict[str, int]) -> None:
    global collecting
    if phase == "stop":
        collecting = 0

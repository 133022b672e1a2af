"""All that an application reads of the world besides calls, put under hooks in one go.

Clocks, waits, randomness, entropy, environment, the threads that carry a session, and the names that were bound
before we came. Owns the order and the list of what is covered; what each hook does is its own module's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from otel_agent_replay.boundary import (
    bound_names,
    callers,
    clock,
    entropy,
    environment,
    loop_timers,
    numpy_randomness,
    randomness,
    sleep,
    threads,
    waits,
)
from otel_agent_replay.boundary.hooks import Hooks
from otel_agent_replay.model import CoverageEntry

_PARTS = (threads, waits, loop_timers, clock, sleep, randomness, entropy, numpy_randomness, environment)
_lock = threading.Lock()


def install(packages: Iterable[str] = ()) -> list[CoverageEntry]:
    """Put every hook in place and return what is and is not captured; again: only what is new since then.

    `packages` are installed packages that count as the application, beside `callers.DEFAULT_PACKAGES`.
    """
    with _lock:
        callers.set_packages(packages)
        entries = [entry for part in _PARTS for entry in part.install()]
        pairs = [pair for part in _PARTS for pair in _hooks_of(part).pairs]
        return [*entries, *bound_names.install(pairs)]


def uninstall() -> None:
    """Take every hook out again."""
    with _lock:
        bound_names.uninstall()
        for part in reversed(_PARTS):
            part.uninstall()


def _hooks_of(part: object) -> Hooks:
    hooks: Hooks = vars(part)["hooks"]
    return hooks

"""When a process that records starts a sealer: told of ended segments, it has them sealed while the host runs on.

The host's thread only counts; a short-lived thread starts the sealer, which is no child of the host. Sealing itself,
and how a sealer is started, are the business of `sealer`.
"""

from __future__ import annotations

import _thread
import logging
import os
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

from otel_agent_replay.export.outgoing import outgoing_folder
from otel_agent_replay.settings import Settings

ENOUGH_BYTES = 8 << 20
ENOUGH_SEGMENTS = 50
LONGEST_WAIT_S = 60.0
"""A segment that waits longer than this is sealed when the next one ends."""
SHORTEST_PAUSE_S = 30.0
"""Between the starts of two sealers."""

_log = logging.getLogger("otel_agent_replay")
# Bound at import, before any interception.
_monotonic = time.monotonic
_start_thread = _thread.start_new_thread


def _spawn(lake: Path) -> None:
    from otel_agent_replay.export.sealer import spawn_sealer

    spawn_sealer(lake)


class OnDemandSealer:
    """Starts a sealer of `lake` when enough has piled up. Told by one journal, under its lock; never raises.

    Enough are ENOUGH_BYTES, ENOUGH_SEGMENTS, or a segment that waits LONGEST_WAIT_S; at most one start in
    SHORTEST_PAUSE_S. `refused` counts the starts that failed; what they were for is kept for the next. `spawn(lake)`
    starts a sealer or raises, `clock` is in seconds.
    """

    def __init__(
        self, lake: Path, *, spawn: Callable[[Path], None] = _spawn, clock: Callable[[], float] = _monotonic
    ) -> None:
        self._lake = Path(lake).absolute()
        self._spawn = spawn
        self._clock = clock
        self.refused = 0
        self._start_afresh()
        _sealers.add(self)

    def _start_afresh(self) -> None:
        """Set what belongs to this process alone; a forked child does it again: its parent's pile is the parent's."""
        self._bytes = 0
        self._segments = 0
        self._oldest = 0.0
        self._earliest = float("-inf")
        self._owed = False  # a start was refused: what it was for still waits
        self._starting = False
        self._finished = False

    def segment_ended(self, size: int) -> None:
        """A segment of `size` bytes has ended and can be sealed."""
        now = self._clock()
        if not self._segments:
            self._oldest = now
        self._bytes += size
        self._segments += 1
        if self._starting or self._finished or now < self._earliest or not self._is_enough(now):
            return
        self._begin(now)
        try:
            _start_thread(self._run, ())
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            self._refused(error)
            self._starting = False

    def finish(self) -> None:
        """Have what still waits sealed, from this very thread: the process is about to end."""
        self._finished = True
        if self._segments or self._owed or self._starting:  # a start under way may not live to be made
            self._begin(self._clock())
            self._run()

    def _is_enough(self, now: float) -> bool:
        return (
            self._owed
            or self._bytes >= ENOUGH_BYTES
            or self._segments >= ENOUGH_SEGMENTS
            or now - self._oldest >= LONGEST_WAIT_S
        )

    def _begin(self, now: float) -> None:
        self._starting = True
        self._earliest = now + SHORTEST_PAUSE_S
        self._owed = False
        self._bytes = self._segments = 0

    def _run(self) -> None:
        try:
            self._spawn(self._lake)
        except Exception as error:
            self._refused(error)
        finally:
            self._starting = False

    def _refused(self, error: Exception) -> None:
        self._owed = True
        self.refused += 1
        if self.refused == 1:
            _log.warning(
                "agent replay could not start a sealer (%s: %s); what is recorded is safe in the journal: "
                "`agent-replay seal` seals it, and so does every command that reads the lake",
                type(error).__name__,
                error,
            )


def on_demand_sealer(settings: Settings) -> OnDemandSealer | None:
    """Return what starts sealers in this process, or None where none may be started: in a replay, or by option.

    Where runs are sent instead, what it starts is their sender.
    """
    if settings.mode != "record" or settings.seal != "on_demand":
        return None
    if settings.export == "lake":
        return OnDemandSealer(settings.lake)
    return OnDemandSealer(outgoing_folder(settings), spawn=partial(_spawn_sender, settings))


def _spawn_sender(settings: Settings, outgoing: Path) -> None:
    from otel_agent_replay.export.outgoing import sender_environment
    from otel_agent_replay.export.sealer import spawn_sealer

    spawn_sealer(outgoing, "otlp_sender", sender_environment(settings))


_sealers: weakref.WeakSet[OnDemandSealer] = weakref.WeakSet()


def _forked() -> None:
    for sealer in list(_sealers):
        sealer._start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

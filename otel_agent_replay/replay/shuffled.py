"""Other scheduling for a replay: who of two threads goes first is decided by a seed instead of by habit.

Only what Python never promised is disturbed: when threads change over, and whether a thread that is started or a task
that is handed to a pool begins before its starter goes on. The order of an event loop's callbacks is promised, and
stays. So a replay that comes out otherwise has a race that is not on its tape.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import time

from otel_agent_replay.boundary import threads

_SWITCH_S = (0.00002, 0.0002, 0.001, 0.005, 0.02)  # Python's own is 0.005
_PAUSES_S = (0.0, 0.0, 0.0005, 0.003)

_sleep = time.sleep  # the real one: that of the replay takes no time


def shuffle_scheduling(seed: int) -> None:
    """Disturb this process's threads as `seed` says, for as long as it lives."""
    numbers = itertools.count(1)

    def drawn(number: int) -> int:
        return hashlib.sha256(f"{seed}:{number}".encode()).digest()[0]

    def pause() -> None:
        pause_s = _PAUSES_S[drawn(next(numbers)) % len(_PAUSES_S)]
        if pause_s:
            _sleep(pause_s)

    sys.setswitchinterval(_SWITCH_S[drawn(0) % len(_SWITCH_S)])
    threads.set_pause(pause)

"""The completion order: answers end in the order in which the recorded calls ended.

Which of three concurrent calls came first is an input of the agent, so playback imposes it. The recorded
begins and ends of a run's crossings form one list of turns; an answer may end when every turn before its own
has been taken. Between two ends of different tasks or threads the consumer of the first gets the time to act
(`quiet`). Code that crosses one call at a time pays an uncontended lock and nothing more.

A wait that can make no progress is let go: at once when nothing else can run, else after as long as the
recording took at that place plus a grace; `not_imposed` holds the steps. Runs that lie in one another share one
order: an agent that goes by which of its agents was done first must see the same one. This module serves nothing and
compares nothing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from otel_agent_replay.replay.quiet import loop_is_idle, quiet_loop, quiet_threads, threads_are_alone
from otel_agent_replay.replay.tape import Entry, Tape, ThreadEnd

Ending = Entry | ThreadEnd

_monotonic = time.monotonic  # bound at import: our own clock reads are never recorded
_running_loop = asyncio._get_running_loop
_current_task = asyncio.current_task
_ident = threading.get_ident
_sequence_of = attrgetter("sequence")

_GRACE = 0.25  # seconds beyond the recorded time before a turn counts as never coming
_LONGEST_WAIT = 60.0  # seconds, whatever the recording took
_FRONT_TICK = 0.005
_BACK_TICK = 0.1


class _At(NamedTuple):
    """One turn: a begin or an end, numbered in the order of its run; `tape` is its tape's place among the tapes."""

    sequence: int
    ending: Ending
    is_end: bool
    tape: int


class CompletionOrder:
    """The turns of one run, or of several that lie in one another. Thread-safe.

    Tasks of any event loop and plain threads may wait side by side. The ends of threads have turns too: which of two
    threads was done first does not follow from whose call ended first. Within a tape its own numbers count, between
    tapes the recorded times.
    """

    def __init__(self, tapes: Sequence[Tape]) -> None:
        self._tapes = tapes
        self._alone = len(tapes) == 1
        turns = _turns_of(tapes)
        self._turns = turns
        self._taken = bytearray(len(turns) + 2)  # one more for what never ended, and one that is never taken
        for number, (_, entry, is_end, _) in enumerate(turns):
            if is_end:
                entry.end_turn = number
            else:
                entry.begin_turn = number
        for tape in tapes:
            for crossing in tape.entries:
                if crossing.end_turn < 0 and not crossing.below:  # it never ended: after everything else
                    crossing.end_turn = len(turns)
        self._head = 0  # the first turn not taken
        self._marks = 0  # how many turns were taken, in whatever order
        self._last_ender: tuple[int, object] | None = None
        self._last_ended: Ending | None = None
        self._lock = threading.Lock()
        self._acquire, self._release = self._lock.acquire, self._lock.release  # a third of what `with` costs
        self._waiters: dict[int, list[tuple[Ending, Callable[[], None]]]] = {}
        self._held: set[Ending] = set()
        self._opened_up = False
        self._were_let_go: list[Ending] = []

    @property
    def not_imposed(self) -> list[int]:
        """The steps whose recorded order was let go, of whatever run."""
        return [entry.step for entry in self._were_let_go]

    def not_imposed_on(self, tape: Tape) -> tuple[int, ...]:
        """Return the steps of one tape whose recorded order was let go."""
        if not self._were_let_go:
            return ()
        own = {id(entry) for entry in (*tape.entries, *tape.thread_ends.values())}
        return tuple(entry.step for entry in self._were_let_go if id(entry) in own)

    # --- what playback tells ---

    def began(self, entry: Ending) -> None:
        """The recorded call was asked for."""
        self._take(entry.begin_turn)

    def ended(self, entry: Ending) -> None:
        """Its crossing has ended."""
        last = self._last_ender
        if last is None or not _is_owner(last):
            self._last_ender = _owner()
        self._last_ended = entry
        self._take(entry.end_turn)

    def open_up(self) -> None:
        """Let everybody go: the replay has stopped."""
        with self._lock:
            self._opened_up = True
            waiters = [wake for waiting in self._waiters.values() for _, wake in waiting]
            self._waiters.clear()
        for wake in waiters:
            wake()

    # --- what playback asks ---

    def settle(self, entry: Ending) -> None:
        """Block the thread until it is `entry`'s turn to end."""
        if self._opened_up:
            return
        if self._head < entry.end_turn:
            self._block(entry)
        last = self._last_ender
        if last is not None and not (_is_owner(last) and self._goes_on(entry)) and not self._opened_up:
            quiet_threads()

    async def settle_async(self, entry: Ending) -> None:
        """Let other tasks run until it is `entry`'s turn to end."""
        if self._opened_up:
            return
        if self._head < entry.end_turn:
            await self._suspend(entry, held=False)
        if self._must_be_quiet():
            last = self._last_ender
            same_loop = last is not None and last[0] == _ident()
            if same_loop and last is not None and last[1] is not None and self._ended_together(entry):
                return
            await quiet_loop(threads=not same_loop)

    async def hold(self, entry: Ending) -> None:
        """Wait to be cancelled, as the recorded call was; let go when nobody does so in the recorded time."""
        with self._lock:
            self._held.add(entry)
        try:
            await self._suspend(entry, held=True)
        finally:
            with self._lock:
                self._held.discard(entry)

    # --- inside ---

    def _take(self, turn: int) -> None:
        if turn < 0:
            return
        waiters = None
        self._acquire()
        try:
            taken = self._taken
            taken[turn] = 1
            self._marks += 1
            if turn == self._head:
                head = turn + 1
                while taken[head]:
                    head += 1
                self._head = head
                if self._waiters:
                    waiters = self._waiters.pop(head, None)
        finally:
            self._release()
        if waiters is not None:
            for _, wake in waiters:
                wake()

    def _must_be_quiet(self) -> bool:
        """Whether the end before this one was another thread's or task's: its consumer must have run first.

        Also where this call began after that end: in the recording it took its time, here it takes none.
        """
        last = self._last_ender
        return last is not None and not _is_owner(last) and not self._opened_up

    def _goes_on(self, entry: Ending) -> bool:
        """Whether the end before this one was of the same recorded thread of control.

        Answers take no time, so one worker of a pool may do what two did in the recording: whoever waits for the
        first task must have run before the second is done, although no other thread ended in between.
        """
        last = self._last_ended
        if last is None or last.strand != entry.strand:
            return last is None
        return self._alone or self._tape_of(last) == self._tape_of(entry)

    def _tape_of(self, entry: Ending) -> int:
        """Return the place of the tape that an entry lies on among the tapes; one that never ended lies anywhere."""
        return self._turns[entry.end_turn].tape if 0 <= entry.end_turn < len(self._turns) else 0

    def _ended_together(self, entry: Ending) -> bool:
        """Whether this end and the one before it fell into one turn of the recorded loop, or the turn after.

        Then no consumer of the first had run yet. A recording without any gap did not count turns, and the turns
        between the ends of two runs were not counted.
        """
        before = next((turn for turn in range(entry.end_turn - 1, -1, -1) if self._turns[turn].is_end), None)
        if before is None or entry.end_turn >= len(self._turns):
            return False
        (first, _, _, tape), (second, _, _, own) = self._turns[before], self._turns[entry.end_turn]
        numbers = self._tapes[own].numbers()
        if tape != own or not numbers or len(numbers) >= numbers[-1]:
            return False
        used = bisect_left(numbers, second) - bisect_right(numbers, first)
        return second - first - 1 - used <= 1

    def _register(self, entry: Ending, wake: Callable[[], None]) -> bool:
        with self._lock:
            if self._opened_up or self._head >= entry.end_turn:
                return False
            self._waiters.setdefault(entry.end_turn, []).append((entry, wake))
            return True

    def _forget(self, entry: Ending, wake: Callable[[], None]) -> None:
        with self._lock:
            waiting = self._waiters.get(entry.end_turn)
            if waiting is not None and (entry, wake) in waiting:
                waiting.remove((entry, wake))
                if not waiting:
                    del self._waiters[entry.end_turn]

    def _is_front(self, entry: Ending) -> bool:
        """Whether `entry` is let go when nothing moves: it is the held call that is due, else the first waiter."""
        with self._lock:
            head = self._head
            due = self._turns[head].ending if head < len(self._turns) else None
            if due is not None and due in self._held:
                return due is entry
            return not self._waiters or entry.end_turn <= min(self._waiters)

    def _patience(self, entry: Ending) -> float:
        """Return how many seconds the turn that everybody waits for may take, counted from the last one taken.

        A timeout that fired in the recording fires in the replay too, on the real clock, and later in the
        order than instant answers suggest: hence the recorded time since the oldest open call began.
        """
        with self._lock:
            head = self._head
            if head >= len(self._turns):
                return _GRACE
            open_calls = [entry, *self._held, *(one for waiting in self._waiters.values() for one, _ in waiting)]
        begun = min(one.span[0] for one in open_calls)
        return min(max(_recorded_ns(self._turns[head]) - begun, 0) / 1e9, _LONGEST_WAIT) + _GRACE

    def _let_go(self, entry: Ending) -> None:
        """Count every turn before this end as taken, so that nobody waits for it again."""
        with self._lock:
            for turn in range(self._head, entry.end_turn):
                self._taken[turn] = 1
            self._were_let_go.append(entry)
        self._take_again()

    def _take_again(self) -> None:
        with self._lock:
            while self._head < len(self._turns) and self._taken[self._head]:
                self._head += 1
            waiters = self._waiters.pop(self._head, ())
        for _, wake in waiters:
            wake()

    def _block(self, entry: Ending) -> None:
        turn = threading.Event()
        wake = turn.set
        if not self._register(entry, wake):
            return
        marks, since = self._marks, _monotonic()
        while not turn.is_set():
            front = self._is_front(entry)
            if front and self._marks == marks and threads_are_alone():
                break
            if turn.wait(_FRONT_TICK if front else _BACK_TICK):
                return
            if self._marks != marks:
                marks, since = self._marks, _monotonic()
            elif self._is_front(entry) and _monotonic() - since > self._patience(entry):
                break
        else:
            return
        self._forget(entry, wake)
        self._let_go(entry)

    async def _suspend(self, entry: Ending, *, held: bool) -> None:
        loop = asyncio.get_running_loop()
        turn = _Turn(loop)
        wake = turn.wake
        if not self._register(entry, wake) and not held:
            return
        try:
            marks, since = self._marks, loop.time()
            while not self._opened_up:
                front = self._is_front(entry)
                if await turn.wait(_FRONT_TICK if front else _BACK_TICK) and not held:
                    return
                if self._marks != marks:
                    marks, since = self._marks, loop.time()
                elif self._is_front(entry) and self._overdue(loop, entry, loop.time() - since):
                    self._let_go(entry)
                    return
        finally:
            self._forget(entry, wake)

    def _overdue(self, loop: asyncio.AbstractEventLoop, entry: Ending, waited: float) -> bool:
        return waited > self._patience(entry) or (loop_is_idle(loop, ignoring=_Turn._resolve) and threads_are_alone())


class _Turn:
    """One task's wait: woken from any thread, or after a tick."""

    __slots__ = ("_future", "_loop", "_thread", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = _ident()
        self._woken = False
        self._future: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """End the wait."""
        self._woken = True
        if _ident() == self._thread:
            self._resolve()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait to be woken, at most `seconds`; return whether it was."""
        if not self._woken:
            self._future = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._resolve)
            try:
                await self._future
            finally:
                timer.cancel()
                self._future = None
        woken, self._woken = self._woken, False
        return woken


def _is_owner(owner: tuple[int, object]) -> bool:
    """Whether the running thread and task are `owner`, a result of `_owner`."""
    if owner[0] != _ident():
        return False
    loop = _running_loop()
    return owner[1] is (None if loop is None else _current_task(loop))


def _owner() -> tuple[int, object]:
    loop = _running_loop()
    return (_ident(), None if loop is None else _current_task(loop))


def _recorded_ns(turn: _At) -> int:
    begin, end = turn.ending.span
    return (end or begin) if turn.is_end else begin


def _turns_of(tapes: Sequence[Tape]) -> list[_At]:
    turns: list[_At] = []
    times: list[int] = []
    for place, tape in enumerate(tapes):
        own = [_At(end.sequence, end, True, place) for end in tape.thread_ends.values()]
        for crossing in tape.entries:
            if not crossing.below:
                own.append(_At(crossing.node.sequence, crossing, False, place))
                if crossing.node.end_sequence:
                    own.append(_At(crossing.node.end_sequence, crossing, True, place))
        own.sort(key=_sequence_of)
        turns += own
        if len(tapes) > 1:  # a clock may have been set back: a run's own numbers know better
            times += accumulate(map(_recorded_ns, own), max)
    return [turns[number] for number in sorted(range(len(turns)), key=times.__getitem__)] if times else turns

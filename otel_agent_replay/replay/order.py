"""The completion order: answers end in the order in which the recorded calls ended.

Which of three concurrent calls came first is an input of the agent, so playback imposes it. The recorded
begins and ends of a run's crossings form one list of turns; an answer may end when every turn before its own
has been taken. Between two ends of different tasks or threads the consumer of the first gets the time to act
(`quiet`). Code that crosses one call at a time takes its turns without a lock: only who waits needs one.

A wait that can make no progress is let go: at once when nothing else can run, else when everything has stood still for
as long as the recording took at that place plus a grace (a thread that a busy machine does not run is not standing
still); `not_imposed_on` names the steps. Runs that lie in one another share one
order: an agent that goes by which of its agents was done first must see the same one. This module serves nothing and
compares nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextvars import Context
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from otel_agent_replay.boundary.ticks import TURNS_COUNTED
from otel_agent_replay.replay.early_timers import call_next_timer
from otel_agent_replay.replay.loop_turns import RecordedTurns, ReplayedTurns
from otel_agent_replay.replay.quiet import Rest, loop_is_idle, one_turn, quiet_loop, quiet_threads, threads_are_alone
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.tape_entry import Entry, ThreadEnd

Ending = Entry | ThreadEnd

_running_loop = asyncio._get_running_loop
_current_task = asyncio.current_task
_ident = threading.get_ident
_sequence_of = attrgetter("sequence")

_GRACE = 0.25  # seconds of rest beyond the recorded time before a turn counts as never coming
_LONGEST_REST = 60.0  # seconds, whatever the recording took
_TURNS_TOGETHER = 4  # turns of a loop for which a call looks that is to end together with others
_REST_BEFORE_TIMERS = 0.01  # seconds of rest after which only a timer can make a run go on
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
        self._several = len(tapes) > 1
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
        self._from = 0  # every turn before this one is taken; `_head` looks on from here
        self._last_ended: Ending | None = None
        self._last_ender: object = None  # the `_runner` that ended it
        self._recorded_turns: dict[int, RecordedTurns] = {}  # by the tape's place
        self._loop_turns = ReplayedTurns()
        self._lock = threading.Lock()
        self._waiters: dict[int, list[tuple[Ending, Callable[[], None]]]] = {}
        self._held: set[Ending] = set()
        self._opened_up = False
        self._were_let_go: list[Ending] = []

    @property
    def turns_taken(self) -> int:
        """How many turns were taken until now, in whatever order."""
        head = self._head()
        return head + self._taken.count(1, head)

    def not_imposed_on(self, tape: Tape) -> tuple[int, ...]:
        """Return the steps of one tape whose recorded order was let go."""
        if not self._were_let_go:
            return ()
        own = {id(entry) for entry in (*tape.entries, *tape.thread_ends.values())}
        return tuple(entry.step for entry in self._were_let_go if id(entry) in own)

    # --- what playback tells ---

    def began(self, entry: Ending) -> None:
        """The recorded call was asked for."""
        turn = entry.begin_turn
        if turn >= 0:
            self._taken[turn] = 1
            if turn == self._from:
                self._from = turn + 1
            if self._waiters:
                self._pass_on(turn)

    def ended(self, entry: Ending) -> None:
        """Its crossing has ended."""
        self._last_ender = _ident() if _running_loop() is None else _runner()
        self._last_ended = entry
        turn = entry.end_turn
        if turn >= 0:
            self._taken[turn] = 1
            if turn == self._from:
                self._from = turn + 1
        if self._waiters:
            if turn >= 0:
                self._pass_on(turn)
            self._loop_turns.ended()

    def gave_up(self, tape: Tape, end: ThreadEnd) -> None:
        """What came in the recording of `tape` and was waited for there did not come here."""
        with self._lock:
            tape.thread_ends[end.sequence] = end
            self._were_let_go.append(end)

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
        """Block the thread until it is `entry`'s turn to end.

        Answers take no time, so one worker of a pool may do what two did in the recording: whoever waits for the
        first task must have run before the second is done, although no other thread ended in between. Hence the look
        at the recorded thread of control.
        """
        if self._opened_up:
            return
        turn = entry.end_turn
        if self._from < turn and self._head() < turn:
            self._block(entry)
        last = self._last_ended
        if last is not None and not self._opened_up:
            runner = _ident() if _running_loop() is None else _runner()
            if (
                self._last_ender != runner
                or last.strand != entry.strand
                or (self._several and self._tape_of(last) != self._tape_of(entry))
            ):
                quiet_threads()

    async def settle_async(self, entry: Ending) -> None:
        """Let other tasks run until it is `entry`'s turn to end."""
        if self._opened_up:
            return
        if self._head() < entry.end_turn:
            await self._suspend(entry, held=False)
        if self._must_be_quiet():
            ender = self._last_ender
            same_loop = _loop_of(ender) is asyncio.get_running_loop()
            if same_loop:
                apart = self._turns_since_the_end_before(entry.end_turn)
                if apart is not None and apart < TURNS_COUNTED:
                    await self._loop_turns.passed(apart)
                    return
            await quiet_loop(threads=not same_loop and ender != _ident())

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

    def _head(self) -> int:
        """Return the first turn not taken.

        No lock: `_from` may be set back by a thread that looked earlier, which costs a longer look and nothing else.
        """
        head = self._from = self._taken.find(0, self._from)
        return head

    def _pass_on(self, turn: int) -> None:
        """Wake whose turn it is, now that this one is taken.

        A turn is taken before anybody looks for waiters, and whoever waits is told of before they look whether their
        turn has come (`_register`): one of the two sees the other.
        """
        with self._lock:
            head = self._head()
            if turn >= head:  # something before it is still to come
                return
            waiters = self._waiters.pop(head, ())
            together = self._wake_together(turn) if self._waiters else ()
        for _, wake in waiters:
            wake()
        for wake in together:
            wake()

    def _must_be_quiet(self) -> bool:
        """Whether the end before this one was another thread's or task's: its consumer must have run first.

        Also where this call began after that end: in the recording it took its time, here it takes none.
        """
        ender = self._last_ender
        return ender is not None and ender != _runner() and not self._opened_up

    def _tape_of(self, entry: Ending) -> int:
        """Return the place of the tape that an entry lies on among the tapes; one that never ended lies anywhere."""
        return self._turns[entry.end_turn].tape if 0 <= entry.end_turn < len(self._turns) else 0

    def _turns_since_the_end_before(self, turn: int) -> int | None:
        """Return how many turns of the recorded loop lay between this end and the one before it, None for unknown.

        The turns between the ends of two runs were not counted.
        """
        before = next((other for other in range(turn - 1, -1, -1) if self._turns[other].is_end), None)
        if before is None or turn >= len(self._turns):
            return None
        (first, _, _, tape), (second, _, _, own) = self._turns[before], self._turns[turn]
        if tape != own:
            return None
        recorded = self._recorded_turns.get(own)
        if recorded is None:
            recorded = self._recorded_turns[own] = RecordedTurns(self._tapes[own])
        return recorded.between(first, second) if recorded.counted else None

    def _wake_together(self, turn: int) -> Sequence[Callable[[], None]]:
        """Return the wakes of the running loop's tasks that may end in the same turn as the call that ended at `turn`,
        or as the one after it a turn later: in the recording each of them was done before anybody could act.

        They are still to look whether it is their turn (`_has_come`): each ends just before the next looks.
        """
        if turn >= len(self._turns) or not self._turns[turn].is_end or self._turns_since_the_end_before(turn) == 0:
            return ()  # who comes after the first of them was told by it
        found: list[Callable[[], None]] = []
        turns_later = 0
        for other in range(turn + 1, len(self._turns)):
            if not self._turns[other].is_end:
                continue
            apart = self._turns_since_the_end_before(other)
            if apart is None or turns_later + apart >= TURNS_COUNTED:
                break
            turns_later += apart
            for _, wake in self._waiters.get(other, ()):
                waiter = getattr(wake, "__self__", None)
                if isinstance(waiter, _Turn) and waiter.thread == _ident():
                    found.append(wake)
        return found

    async def _has_come(self, entry: Ending) -> bool:
        """Whether it is `entry`'s turn now, or a few turns of the loop later, in which those before it end."""
        for _ in range(_TURNS_TOGETHER):
            if self._head() >= entry.end_turn:
                return True
            await one_turn()
        return self._head() >= entry.end_turn

    def _register(self, entry: Ending, wake: Callable[[], None]) -> bool:
        with self._lock:
            self._waiters.setdefault(entry.end_turn, []).append((entry, wake))
            if self._opened_up or self._head() >= entry.end_turn:
                self._take_out(entry, wake)
                return False
            return True

    def _forget(self, entry: Ending, wake: Callable[[], None]) -> None:
        with self._lock:
            self._take_out(entry, wake)

    def _take_out(self, entry: Ending, wake: Callable[[], None]) -> None:
        waiting = self._waiters.get(entry.end_turn)
        if waiting is not None and (entry, wake) in waiting:
            waiting.remove((entry, wake))
            if not waiting:
                del self._waiters[entry.end_turn]

    def _is_front(self, entry: Ending) -> bool:
        """Whether `entry` is let go when nothing moves: it is the held call that is due, else the first waiter."""
        with self._lock:
            head = self._head()
            due = self._turns[head].ending if head < len(self._turns) else None
            if due is not None and due in self._held:
                return due is entry
            return not self._waiters or entry.end_turn <= min(self._waiters)

    def _patience(self, entry: Ending) -> float:
        """Return how many seconds of rest the turn that everybody waits for may take, from the last one taken.

        A timeout that fired in the recording fires in the replay too, on the real clock, and later in the
        order than instant answers suggest: hence the recorded time since the oldest open call began.
        """
        with self._lock:
            head = self._head()
            if head >= len(self._turns):
                return _GRACE
            open_calls = [entry, *self._held, *(one for waiting in self._waiters.values() for one, _ in waiting)]
        begun = min(one.span[0] for one in open_calls)
        return min(max(_recorded_ns(self._turns[head]) - begun, 0) / 1e9, _LONGEST_REST) + _GRACE

    def _recorded_until_head(self) -> float:
        """Return how many seconds of the recording had passed when the turn that everybody waits for was taken.

        A timer that takes longer had not fired by then.
        """
        head = min(self._head(), len(self._turns) - 1)
        return (_recorded_ns(self._turns[head]) - _recorded_ns(self._turns[0])) / 1e9 + _GRACE

    def _let_go(self, entry: Ending) -> None:
        """Count every turn before this end as taken, so that nobody waits for it again."""
        with self._lock:
            for turn in range(self._head(), entry.end_turn):
                self._taken[turn] = 1
            self._were_let_go.append(entry)
            waiters = self._waiters.pop(self._head(), ())
        for _, wake in waiters:
            wake()

    def _block(self, entry: Ending) -> None:
        turn = threading.Event()
        wake = turn.set
        if not self._register(entry, wake):
            return
        marks, rest = self.turns_taken, Rest()
        while not turn.is_set():
            front = self._is_front(entry)
            if front and self.turns_taken == marks and threads_are_alone():
                break
            tick = _FRONT_TICK if front else _BACK_TICK
            if turn.wait(tick):
                return
            if self.turns_taken != marks:
                marks, rest = self.turns_taken, Rest()
            elif self._is_front(entry) and rest.lasted(tick) > self._patience(entry):
                break
        else:
            return
        self._forget(entry, wake)
        if self._head() < entry.end_turn:  # else it has just come, and whoever took it was about to say so
            self._let_go(entry)

    async def _suspend(self, entry: Ending, *, held: bool) -> None:
        turn = _Turn(asyncio.get_running_loop())
        if not self._register(entry, turn.wake) and not held:
            return
        watch = _Watch(self, entry, turn)
        try:
            while not self._opened_up and not watch.overdue:
                await turn.come()
                if not held and not watch.overdue and await self._has_come(entry):
                    return
        finally:
            watch.stop()
            self._forget(entry, turn.wake)
        if watch.overdue and (held or self._head() < entry.end_turn):
            self._let_go(entry)

    def _overdue(self, loop: asyncio.AbstractEventLoop, entry: Ending, rested: float) -> bool:
        return rested > self._patience(entry) or (loop_is_idle(loop, ignoring=_Watch.look) and threads_are_alone())


class _Turn:
    """One task's wait for its turn, ended from any thread."""

    __slots__ = ("_future", "_woken", "loop", "thread")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = _ident()
        self._woken = False
        self._future: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """End the wait."""
        self._woken = True
        if _ident() == self.thread:
            self._resolve()
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def come(self) -> None:
        """Wait to be woken; only that lets the task run on, so that those woken one after another run so."""
        if not self._woken:
            self._future = self.loop.create_future()
            try:
                await self._future
            finally:
                self._future = None
        self._woken = False


class _Watch:
    """Looks now and then, beside a task that waits for its turn, whether that will never come: then it is `overdue`."""

    __slots__ = ("_entry", "_marks", "_order", "_rest", "_tick", "_timer", "_turn", "overdue")

    def __init__(self, order: CompletionOrder, entry: Ending, turn: _Turn) -> None:
        self.overdue = False
        self._order, self._entry, self._turn = order, entry, turn
        self._marks, self._rest = order.turns_taken, Rest(turn.loop)
        self._tick = 0.0
        self._look_again()

    def _look_again(self) -> None:
        self._tick = _FRONT_TICK if self._order._is_front(self._entry) else _BACK_TICK
        self._timer = Context().run(self._turn.loop.call_later, self._tick, self.look)  # in real time

    def look(self) -> None:
        """Look whether anything has moved."""
        order, entry, loop = self._order, self._entry, self._turn.loop
        if order.turns_taken != self._marks:
            self._marks, self._rest = order.turns_taken, Rest(loop)
        elif order._is_front(entry):
            rested = self._rest.lasted(self._tick)
            if rested >= _REST_BEFORE_TIMERS and call_next_timer(loop, within_s=order._recorded_until_head()):
                self._rest = Rest(loop)
            elif order._overdue(loop, entry, rested):
                self.overdue = True
                self._turn.wake()
                return
        self._look_again()

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()


def _runner() -> object:
    """Return who runs: a thread by its number where no loop does, else the task; the callbacks of a loop are one."""
    loop = _running_loop()
    return _ident() if loop is None else _current_task(loop) or loop


def _loop_of(runner: object) -> object:
    """Return the event loop that a runner is in; None for a thread without one."""
    if asyncio.isfuture(runner):
        return runner.get_loop()
    return runner if isinstance(runner, asyncio.AbstractEventLoop) else None


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

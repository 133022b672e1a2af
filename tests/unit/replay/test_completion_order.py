"""The order of ends holds however threads are switched, and nobody is forgotten."""

from __future__ import annotations

import random
import sys
import threading

import pytest

from otel_agent_replay.replay.order import CompletionOrder
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.testing import builders

THREADS = 6


@pytest.fixture
def switching_all_the_time():
    """Let the interpreter go from thread to thread as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def recorded(ends):
    """A run of calls that were all open together, and ended in this order."""
    calls = lambda here: [here.tool("look", {"number": number}, number) for number in range(len(ends))]
    return builders.run("desk").together(calls, end_order=ends).build()


@pytest.mark.usefixtures("switching_all_the_time")
@pytest.mark.parametrize("seed", range(8))
def test_threads_end_in_the_recorded_order_however_they_are_switched(seed):
    """Each thread ends at its turn, and none is let go because its wake was lost."""
    ends = random.Random(seed).sample(range(THREADS), THREADS)
    tape = Tape(recorded(ends))
    order, ended = CompletionOrder([tape]), []
    together = threading.Barrier(THREADS)

    def one(number):
        entry = tape.entries[number]
        together.wait()
        order.began(entry)
        order.settle(entry)
        ended.append(number)
        order.ended(entry)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == ends
    assert order.not_imposed_on(tape) == ()
    assert order.turns_taken == 2 * THREADS


def test_turns_that_were_taken_early_count_when_their_time_comes():
    """A call that ends where nothing waits is no obstacle to those after it, in whatever order turns are taken."""
    tape = Tape(recorded([2, 0, 1]))
    order = CompletionOrder([tape])
    for entry in reversed(tape.entries):
        order.began(entry)
    for entry in tape.entries:  # not as recorded, and nobody asked
        order.ended(entry)
    assert order.turns_taken == 6
    order.settle(tape.entries[1])
    assert order.not_imposed_on(tape) == ()


def test_a_turn_that_is_taken_while_somebody_begins_to_wait_for_it_wakes_them(monkeypatch):
    """Between the look at whose turn it is and the wait for it, the turn comes: the wait is over at once."""
    tape = Tape(recorded([0, 1]))
    order = CompletionOrder([tape])
    first, second = tape.entries
    order.began(first)
    order.began(second)
    looked = CompletionOrder._head
    ending = threading.Thread(target=order.ended, args=(first,))

    def look(self):
        seen = looked(self)
        if ending.ident is None and order._lock.locked():
            ending.start()
            while not order._taken[first.end_turn]:
                pass
        return seen

    monkeypatch.setattr(CompletionOrder, "_head", look)
    order.settle(second)
    ending.join()
    assert order.not_imposed_on(tape) == ()

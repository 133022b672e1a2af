"""Each recorded exchange is handed out once, whichever way it is found."""

from __future__ import annotations

import sys
import threading

import pytest

from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.testing import builders

PLACE = ("run:desk#0",)


def tape_of(*numbers):
    """A tape of one call a number; equal numbers are equal requests."""
    builder = builders.run("desk")
    for number in numbers:
        builder.tool("look", {"number": number}, number)
    return Tape(builder.build())


@pytest.mark.parametrize("numbers", [(1,), (1, 1)], ids=["alone", "repeated"])
@pytest.mark.parametrize("first", ["take", "claim"])
def test_what_was_found_one_way_is_not_found_another_way(numbers, first):
    """A request that was asked for is not claimed as one that says the same, nor the other way round."""
    tape = tape_of(*numbers)
    ways = {
        "take": lambda entry: tape.take(PLACE, entry.call, str) is not None,
        "claim": tape.claim,
    }
    second = "claim" if first == "take" else "take"
    assert [ways[first](entry) for entry in tape.entries] == [True] * len(numbers)
    assert [ways[second](entry) for entry in tape.entries] == [False] * len(numbers)
    assert [ways[first](entry) for entry in tape.entries] == [False] * len(numbers)
    assert tape.taken == len(numbers)


@pytest.mark.parametrize("numbers", [range(200), [1] * 200], ids=["alone", "repeated"])
def test_threads_that_ask_together_get_each_exchange_once(numbers):
    """However threads are switched, two of them never have the same exchange, and none is lost."""
    tape, before = tape_of(*numbers), sys.getswitchinterval()
    calls, together = [entry.call for entry in tape.entries], threading.Barrier(4)
    had: list[int] = []

    def ask(way):
        together.wait()
        for entry, call in zip(list(tape.entries), calls, strict=True):
            if way == "take":
                found = tape.take(PLACE, call, str)
                had.extend([] if found is None else [id(found)])
            elif tape.claim(entry):
                had.append(id(entry))

    threads = [threading.Thread(target=ask, args=(way,)) for way in ("take", "claim", "take", "claim")]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert sorted(had) == sorted(id(entry) for entry in tape.entries)

"""A stream that a crash cut: what was written on as it came is not written again when it comes again."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from otel_agent_replay.model import Kind, OutcomeStatus, RunStatus
from otel_agent_replay.replay.verdict import VerdictStatus
from tests.support.resume_world import KILLED, Theatre, until

PIECES = [f"x:{number} " for number in range(4)]


@pytest.mark.parametrize("ledger", ["file", ""])
def test_what_was_written_from_a_stream_is_not_written_again_when_it_is_asked_for_again(stage, world, tmp_path, ledger):
    """Killed in mid-stream with two pieces written on, it is asked for again, and each piece is written once."""
    theatre = Theatre(stage, world, tmp_path, ledger)
    world.hold_stream["x"] = threading.Event()
    scene = theatre.start("relays", "x")
    until(lambda: sum(world.done.values()) == 2, "two pieces are written on")
    os.kill(scene.pid, signal.SIGKILL)
    assert scene.wait() == KILLED
    world.hold_stream.pop("x").set()
    scene = theatre.resume("relays", theatre.run().run, "x")
    assert scene.result[:4] == [[piece, 1] for piece in PIECES]
    assert dict(world.asked) == {"x": 2, "last": 1}
    assert list(world.done.values()) == [1, 1, 1, 1]
    assert [len(keys) for keys in world.keys.values()] == [1, 1, 1, 1]
    run = theatre.run()
    (stream, _) = [node for node in run.nodes if node.kind is Kind.MODEL]
    assert stream.outcome.status is OutcomeStatus.OK
    body = run.payload(stream.outcome.result.digest)
    assert [body.count(piece.encode()) for piece in PIECES] == [1, 1, 1, 1]  # the cut one is not joined to it
    assert (run.run.status, run.run.attempt) == (RunStatus.OK, 2)
    verdict = theatre.replay("relays", run.run, "x")
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()


@pytest.mark.parametrize("kill_at", ["during:2", "after:3", "before:6", "during:4", "after:5"])
def test_killed_at_any_write_of_a_stream_each_piece_is_written_once(stage, world, tmp_path, kill_at):
    """The same at each point of the writes that a stream's pieces make."""
    theatre = Theatre(stage, world, tmp_path)
    theatre.record("relays", "x", kill_at=kill_at)
    scene = theatre.resume("relays", theatre.run().run, "x")
    assert scene.result[:4] == [[piece, 1] for piece in PIECES]
    assert list(world.done.values()) == [1, 1, 1, 1]
    verdict = theatre.replay("relays", theatre.run().run, "x")
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()

"""What a checkpoint says of the moment it was taken: whether one may go on, why not, what may be used."""

from __future__ import annotations

import contextvars
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import otel_agent_replay as replay
from tests.support.memory_journal import recording


@pytest.fixture
def journal():
    with recording() as found:
        yield found


def test_whether_one_may_go_on_is_always_said(journal):
    """A checkpoint that does not say whether it is resumable is refused: it is never guessed."""
    with pytest.raises(TypeError, match="resumable"):
        replay.checkpoint("planned", {})


def test_a_reason_why_not_outweighs_a_declared_yes(journal):
    """Reasons may be given as they are found: with one, a checkpoint is not resumable."""

    @replay.agent(name="desk")
    def agent() -> None:
        replay.checkpoint("fine", resumable=True, unsafe_reasons=[])
        replay.checkpoint("odd", resumable=True, unsafe_reasons=["the basket is locked"])

    agent()
    assert journal.attributes("fine")["agent_replay.checkpoint.resumable"] is True
    attributes = journal.attributes("odd")
    assert attributes["agent_replay.checkpoint.resumable"] is False
    assert list(attributes["agent_replay.checkpoint.unsafe_reasons"]) == ["the basket is locked"]


@pytest.mark.parametrize(
    ("side_effect", "key", "reasons"),
    [
        ("write", None, ["refund is in flight and has no idempotency key"]),
        ("external", None, ["refund is in flight and has no idempotency key"]),
        ("write", "order", []),
        ("read", None, []),
        ("none", None, []),
    ],
)
def test_a_checkpoint_beside_a_write_without_a_key_is_not_resumable(journal, side_effect, key, reasons):
    """Declared resumable, it is so only while every write in flight can tell a repeat by its key."""

    @replay.tool(side_effect=side_effect, idempotency_key=key)
    def refund(order: str) -> None:
        replay.checkpoint("half way", {"order": order}, resumable=True)

    @replay.agent(name="desk")
    def agent() -> None:
        refund("17")
        replay.checkpoint("after", resumable=True)

    agent()
    attributes = journal.attributes("half way")
    assert attributes["agent_replay.checkpoint.resumable"] is not bool(reasons)
    assert list(attributes["agent_replay.checkpoint.unsafe_reasons"]) == reasons
    assert journal.attributes("after")["agent_replay.checkpoint.resumable"] is True


def test_a_write_of_another_thread_is_in_flight_too(journal):
    """What the run does elsewhere at that moment counts like what it does here."""
    paying, seen = threading.Event(), threading.Event()

    @replay.tool(side_effect="write")
    def refund() -> None:
        paying.set()
        seen.wait(10)

    @replay.agent(name="desk")
    def agent() -> None:
        with ThreadPoolExecutor(1) as pool:
            task = pool.submit(contextvars.copy_context().run, refund)
            paying.wait(10)
            replay.checkpoint("meanwhile", {"at": 1}, resumable=True)
            seen.set()
            task.result()

    agent()
    assert journal.attributes("meanwhile")["agent_replay.checkpoint.resumable"] is False


def test_what_the_run_may_use_is_kept_with_a_checkpoint(journal):
    """The declared budget is there as JSON, redacted like any attribute; and the run's fuse, where it has one."""

    @replay.agent(name="desk", max_steps=40)
    def agent() -> None:
        replay.checkpoint("planned", {}, resumable=True, budget={"steps": 20, "tokens": 50_000, "usd": 0.5})
        replay.checkpoint("later", {}, resumable=True)

    agent()
    attributes = journal.attributes("planned")
    assert json.loads(attributes["agent_replay.checkpoint.budget"]) == {"steps": 20, "tokens": 50_000, "usd": 0.5}
    assert attributes["agent_replay.run.max_steps"] == 40
    assert "agent_replay.checkpoint.budget" not in journal.attributes("later")

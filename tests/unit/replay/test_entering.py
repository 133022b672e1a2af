"""Where an agent can be entered, what lies before that place, and what is told of the steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.model import CLIENT_STRAND, THREAD_END, Kind, Read
from otel_agent_replay.replay.continued_report import ContinuedReport, ContinuedStatus
from otel_agent_replay.replay.entering import Entrance, entrance_before
from otel_agent_replay.replay.past import Past
from otel_agent_replay.replay.recorded_places import RecordedPlaces
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.told_steps import How, ToldStep, all_steps
from otel_agent_replay.report.continued_lines import continued_lines
from otel_agent_replay.testing import builders


def rounds():
    """Three rounds of a tool and a checkpoint, each in a scope of its own."""
    run = builders.run("agent")
    for number in range(3):
        run.step(
            "round",
            lambda inside, number=number: (
                inside.read(Kind.CLOCK, "time.time", float(number))
                .tool("find", {"n": number}, number)
                .checkpoint("round", {"n": number}, resumable=number != 1)
            ),
        )
    return run.build()


@pytest.mark.parametrize(
    ("step", "found"),
    [(1, None), (2, None), (3, 2), (4, 2), (5, 2), (6, 2), (7, 6)],
)
def test_the_last_checkpoint_that_qualifies_is_the_entrance(step, found):
    """Before the step, and declared resumable; the reason is that of the nearest one."""
    entrance = entrance_before(rounds(), step)
    if found is None:
        assert entrance == f"the run has no checkpoint before step {step}"
    else:
        assert (entrance.checkpoint.step, entrance.checkpoint.state) == (found, {"n": found // 2 - 1})


def test_reasons_against_it_outweigh_a_declared_yes():
    """A recording of another writer may say both: it is not entered there."""
    recorded = builders.run("agent").checkpoint("odd", {}, resumable=True, unsafe_reasons=["locked"]).build()
    assert entrance_before(recorded, 2) == "checkpoint 'odd' (step 1) is not safe to go on from: locked"


def test_a_call_that_never_ended_is_in_flight():
    """The recording does not know its answer, and code that is entered could not wait for it."""
    recorded = builders.run("agent").tool("slow", {}, None, pending=True).checkpoint("x", {}, resumable=True).build()
    assert entrance_before(recorded, 3) == "checkpoint 'x' (step 2) was taken while 'slow' (step 1) was in flight"


def test_what_lies_before_is_skipped_and_never_handed_out():
    """The tape has the rest: calls and reads from the checkpoint on, with the places of before taken."""
    recorded = rounds()
    entrance = entrance_before(recorded, 4)
    assert isinstance(entrance, Entrance)
    tape = Tape(recorded, before_step=6, past=entrance.past)
    assert [entry.step for entry in tape.skipped] == [1, 2]
    assert [entry.step for entry in tape.entries] == [3, 4, 5]
    assert tape.steps == 5
    scopes = [node.path for node in recorded.nodes if node.kind is Kind.SCOPE]
    assert [len(tape.reads.left(path)) for path in scopes] == [0, 1, 1]
    assert [entrance.past.has(node) for node in recorded.nodes if node.kind is Kind.SCOPE] == [True, False, False]
    again = Place.root("agent").child(Kind.SCOPE, "round")
    RecordedPlaces(tape.nodes, goes_on=True, past=entrance.past).scope(again, str)
    assert again.path == scopes[1]


def test_a_scope_with_something_to_come_is_entered_again():
    """One that was open at the checkpoint and in which something follows is not over, also when a read is all."""
    for later in (
        lambda inside: inside.tool("find", {}, 1),
        lambda inside: inside.read(Kind.CLOCK, "time.time", 1.0),
    ):
        recorded = (
            builders.run("agent")
            .step("round", lambda inside, later=later: later(inside.checkpoint("x", {}, resumable=True)))
            .build()
        )
        entrance = entrance_before(recorded, 2)
        assert isinstance(entrance, Entrance)
        assert not any(entrance.past.has(node) for node in recorded.nodes if node.kind is Kind.SCOPE)


def test_threads_are_numbered_on_and_ends_of_earlier_ones_are_over():
    """A thread of control that began before the checkpoint cannot come again; its end is not waited for."""
    reads = [
        Read(Kind.CLOCK, "time.time", 1, "2.1", 9),
        Read(Kind.CLOCK, THREAD_END, 1, "3", 12),
        Read(Kind.ENV, "os.environ[A]", "x", CLIENT_STRAND, 1),
    ]
    recorded = builders.run("agent").tool("find", {}, 1).build()
    calls = {node.sequence for node in recorded.nodes}
    assert Past(recorded, until=10, calls=calls).next_strand == 1
    spans = [
        replace(item, node=replace(item.node, reads=reads)) if item.node.kind is Kind.RUN else item
        for item in recorded.spans
    ]
    past = Past(replace(recorded, spans=spans), until=10, calls=calls)
    assert past.next_strand == 3
    assert [past.has_read(read) for read in reads] == [True, False, True]
    assert past.has_read(Read(Kind.CLOCK, THREAD_END, 1, "2.4", 50))
    assert not past.has_read(Read(Kind.CLOCK, "time.time", 1, "2", 11))


def test_every_step_is_told_once():
    """Skipped, replayed with what lies below, not asked for, and a call that was made again under its step."""
    recorded = (
        builders.run("agent")
        .checkpoint("x", {}, resumable=True)
        .tool("search", {}, 1, inside=lambda tool: tool.http("POST", "http://h/q", 1, request={}))
        .tool("find", {}, 1)
        .tool("last", {}, 1)
        .build()
    )
    entrance = entrance_before(recorded, 2)
    tape = Tape(recorded, past=entrance.past)
    assert tape.claim(tape.entries[0])
    own = ToldStep(5, "tool", "last", How.LIVE, "live")
    told = all_steps(tape, [own])
    assert [(one.step, str(one.how)) for one in told] == [
        (1, "skipped"), (2, "replayed"), (3, "replayed"), (4, "not_asked"), (5, "live"),
    ]  # fmt: skip


def test_the_terminal_says_how_it_was_entered_and_what_became_of_the_steps():
    """One line a way, with ranges; which requests were edited; what the fence refused."""
    steps = [ToldStep(step, "tool", "t", How.SKIPPED, "tape", step) for step in (1, 2, 3)]
    steps += [ToldStep(4, "tool", "t", How.EDITED, "edited", 4)]
    steps += [ToldStep(step, "model", "m", How.LIVE, "live", None, step == 7) for step in (5, 7)]
    report = ContinuedReport(
        ContinuedStatus.FINISHED, "f" * 32, "agent", "fork", "0" * 32, entered="jump", entered_step=3,
        entered_name="planned", refusals=("write /x at a.py:1",), steps=tuple(steps),
    )  # fmt: skip
    assert ContinuedReport.from_json(report.to_json()) == report
    text = "\n".join(line.plain for line in continued_lines(report))
    for said in (
        "entered at checkpoint 'planned', step 3", "skipped: 1-3", "edited: 4",
        "live: 5, 7, the request of 7 edited", "refused: write /x at a.py:1",
    ):  # fmt: skip
        assert said in text
    report = ContinuedReport(ContinuedStatus.FINISHED, "f" * 32, "agent", "fork", "0" * 32, not_jumped="--no-jump")
    assert "replayed from the beginning: --no-jump" in "\n".join(line.plain for line in continued_lines(report))

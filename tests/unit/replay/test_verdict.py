"""A verdict survives JSON, and says the worst that is true."""

import json
from dataclasses import replace

import pytest

from otel_agent_replay.errors import Candidate, DamagedRecording, FenceViolation, ReplayDeparture, TapeEnded
from otel_agent_replay.model import Loss, LossReason, Outcome, OutcomeStatus, Payload, RecordedRun, RecordedSpan
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.replay.continued_report import ContinuedReport
from otel_agent_replay.replay.judge import End, judge
from otel_agent_replay.replay.playback import Playback
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.verdict import (
    Departure,
    MissedStep,
    OtherRun,
    RefusedAttempt,
    ReplayVerdict,
    VerdictStatus,
)
from tests.taped_runs import Replayed, record, tool

look_up = tool("look_up", lambda key: {"key": key}, "key")


def test_verdict_survives_json():
    """Every field comes back equal, nested ones too."""
    verdict = ReplayVerdict(
        VerdictStatus.DEPARTED,
        "ab" * 16,
        "agent",
        "cd" * 16,
        reason="é\ud800",
        departure=Departure(3, ("run:a#0",), "x", "y", (Candidate(2, ("p",), ("why",)),), ("a: 1 -> 2",), "message"),
        steps_recorded=5,
        never_asked=(MissedStep(4, ("run:a#0", "tool:t#0")),),
        output_same=False,
        order_not_imposed=(2, 3),
        fences=("in-process only",),
        attempts=(RefusedAttempt("connect to x:1", "f.py:2", True),),
        sources={"tape": 4},
        others=(OtherRun("ef" * 16, "b", VerdictStatus.SAME),),
        child_exit=-9,
    )
    assert ReplayVerdict.from_json(verdict.to_json()) == verdict


def test_what_is_no_verdict_is_damaged():
    """Text that no replay wrote is refused."""
    for text in ("", "[]", "{}", '{"status": "fine", "run_id": "a"}'):
        with pytest.raises(DamagedRecording):
            ReplayVerdict.from_json(text)


@pytest.mark.parametrize(
    ("status", "code"), [(VerdictStatus.SAME, 0), (VerdictStatus.DEPARTED, 1), (VerdictStatus.CANNOT_JUDGE, 125)]
)
def test_exit_codes(status, code):
    """0 same, 1 departed, 125 cannot judge."""
    assert ReplayVerdict(status, "").exit_code == code


def _end(*, output=None, interrupt=None, given=None, failure=None):
    payload = None if output is None else Payload.of(encode(output).data, "application/json")
    return End(b"n" * 16, given, payload, failure, interrupt)


def _judged(agent, end, *, asked=True, losses=(), change=lambda node: node):
    _, recording = record(agent)
    spans = [RecordedSpan(item.span, change(item.node)) for item in recording.spans]
    recording = RecordedRun(recording.run, spans, recording.payload, losses)
    if asked:
        playback = Replayed(recording, agent).playback
    else:
        playback = Playback(Tape(recording))
    return judge(playback.tape, playback, end)


def test_same_run_is_the_same():
    """All steps asked for and the output equal: same."""
    verdict = _judged(lambda: look_up("a")["key"], _end(output="a"))
    assert (verdict.status, verdict.output_same, verdict.steps_replayed) == (VerdictStatus.SAME, True, 1)


def test_other_output_is_a_departure():
    """The output differs though every step was the same."""
    verdict = _judged(lambda: look_up("a")["key"], _end(output="b"))
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.output_differences == ("value: 'a' -> 'b'",)


def test_output_that_cannot_be_kept_is_not_compared():
    """A recorded output that is text only is neither the same nor different."""
    verdict = _judged(
        lambda: look_up("a")["key"],
        _end(output="b"),
        change=lambda node: replace(node, outcome=replace(node.outcome, round_trips=False)) if not node.step else node,
    )
    assert (verdict.status, verdict.output_same) == (VerdictStatus.SAME, None)


def test_step_never_asked_for_is_a_departure():
    """A recorded step that the replay never asked for is named."""
    verdict = _judged(lambda: look_up("a")["key"], _end(output="a"), asked=False)
    assert verdict.status is VerdictStatus.DEPARTED
    assert [missed.step for missed in verdict.never_asked] == [1]


DEPARTURE = ReplayDeparture(step=None, path=("run:agent#0",), expected="x", came="y")


def test_unknown_call_on_a_tape_with_holes_cannot_be_judged():
    """When the recording lost records, a call that is not on the tape may be one of them."""
    losses = (Loss(LossReason.DROPPED, "record", 3),)
    verdict = _judged(lambda: look_up("a"), _end(interrupt=DEPARTURE), losses=losses)
    assert verdict.status is VerdictStatus.CANNOT_JUDGE
    assert "3 record: dropped" in verdict.reason
    assert verdict.losses == ("3 record: dropped",)


@pytest.mark.parametrize(
    ("place", "status"), [("tool:look_up#0", VerdictStatus.DEPARTED), ("tool:look_up#1", VerdictStatus.CANNOT_JUDGE)]
)
def test_changed_request_on_a_tape_with_holes(place, status):
    """One that differs from what is recorded at its very place has departed; another may be the one that was lost."""
    path = ("run:agent#0", place)
    differs = ReplayDeparture(step=1, path=path, expected="x", came="y", differences=("key: 'a' -> 'b'",))
    losses = (Loss(LossReason.DROPPED, "record", 3),)
    assert _judged(lambda: look_up("a"), _end(interrupt=differs), losses=losses).status is status


def test_fence_is_a_departure_with_its_place():
    """A refused way out is a departure that names the attempt and the place."""
    verdict = _judged(lambda: look_up("a"), _end(interrupt=FenceViolation("connect to x:1", "f.py:3", "in-process")))
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.departure.came == "connect to x:1 at f.py:3"


def test_end_of_the_tape_is_no_departure():
    """Where the recorded process died the replay is the same so far, and says that the tape ended."""
    verdict = _judged(lambda: look_up("a"), _end(interrupt=TapeEnded(2, "tool x")))
    assert (verdict.status, verdict.tape_ended, verdict.output_same) == (VerdictStatus.SAME, True, None)


def test_call_after_the_last_record_of_a_dead_process_ends_the_tape():
    """A process that died between two calls has a tape that ends there: the next call is no departure."""
    _, recording = record(lambda: look_up("a"))
    spans = [
        RecordedSpan(
            item.span,
            item.node if item.node.step else replace(item.node, outcome=Outcome(OutcomeStatus.PENDING)),
        )
        for item in recording.spans
    ]
    died = RecordedRun(recording.run, spans, recording.payload)
    with pytest.raises(TapeEnded):
        Replayed(died, lambda: [look_up("a"), look_up("b")])


def test_printed_verdicts_are_ascii():
    """Recorded text with control characters of terminals, or half a character, is escaped and comes back the same."""
    said = "\x1b[2J \u202e \x9b31m \ud83d"
    verdict = ReplayVerdict(VerdictStatus.CANNOT_JUDGE, "01", "desk", reason=said)
    report = ContinuedReport.never_began("01", "desk", "fork", said)
    for text in (verdict.to_json(), report.to_json()):
        assert text.isascii()
        assert said in json.loads(text).values()

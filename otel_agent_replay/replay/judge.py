"""From what a replay did to its verdict. Pure: the tape, the playback and the end of the run in, a verdict out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.errors import (
    DamagedRecording,
    FenceViolation,
    MissingPayload,
    ReplayDeparture,
    ReplayInterrupt,
    TapeEnded,
)
from otel_agent_replay.model import (
    AnswerSource,
    Call,
    Failure,
    Kind,
    LossReason,
    MediaType,
    Payload,
    SideEffect,
)
from otel_agent_replay.payload.canonical import is_json
from otel_agent_replay.replay import matching
from otel_agent_replay.replay.playback import Playback
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.verdict import Departure, MissedStep, ReplayVerdict, VerdictStatus, losses_told

_HOLES = frozenset((LossReason.DROPPED, LossReason.TORN, LossReason.SAMPLED, LossReason.INTERNAL))
_MOST_MISSED = 200  # named in a verdict
_NOTHING_VOLATILE = matching.Volatile()


@dataclass(frozen=True, slots=True)
class End:
    """How the replayed run ended: its redacted input and output, or its failure; `interrupt` when it was stopped."""

    replay_run_id: bytes
    given: Payload | None
    output: Payload | None
    failure: Failure | None
    interrupt: ReplayInterrupt | None


def judge(tape: Tape, playback: Playback, end: End) -> ReplayVerdict:
    """Return the verdict on one finished run."""
    left = list(tape.left())
    input_same, input_differences = compared_values(tape, recorded_input(tape), end.given)
    output_same, output_differences = (None, ()) if end.interrupt is not None else _outputs(tape, end)
    status, reason, departure = _status(tape, end, left_count=len(left))
    if status is VerdictStatus.SAME and end.interrupt is None:
        if left:
            status, departure = VerdictStatus.DEPARTED, _never_asked(playback)
        elif output_same is False:
            status = VerdictStatus.DEPARTED
            departure = Departure(
                None,
                (),
                "the recorded outcome",
                "another outcome, though every step was the same",
                differences=output_differences,
                message=f"the outcome differs at {output_differences[0].split(':', 1)[0]}",
            )
    return ReplayVerdict(
        status=status,
        run_id=tape.run.run_id.hex(),
        agent=tape.run.agent,
        replay_run_id=end.replay_run_id.hex(),
        reason=reason,
        departure=departure,
        steps_recorded=tape.steps,
        steps_replayed=tape.taken,
        reads_replayed=tape.reads.taken,
        reads_never_made=tape.count_reads_left(),
        never_asked=tuple(MissedStep(entry.node.step, entry.node.path) for entry in left[:_MOST_MISSED]),
        tape_ended=isinstance(end.interrupt, TapeEnded) or tape.died,
        input_same=input_same,
        input_differences=input_differences,
        output_same=output_same,
        output_differences=output_differences,
        order_not_imposed=playback.order.not_imposed_on(tape),
        canonical_matches=tuple(playback.canonical_matches),
        volatile=playback.volatile.paths,
        losses=losses_told(tape.losses),
        sources={AnswerSource.TAPE.value: tape.taken},
    )


def _status(tape: Tape, end: End, *, left_count: int) -> tuple[VerdictStatus, str, Departure | None]:
    interrupt = end.interrupt
    if interrupt is None or isinstance(interrupt, TapeEnded):
        return VerdictStatus.SAME, "", None
    if isinstance(interrupt, FenceViolation):
        return VerdictStatus.DEPARTED, "", Departure.of(interrupt)
    if isinstance(interrupt, ReplayDeparture):
        holes = [loss for loss in tape.losses if loss.reason in _HOLES]
        if holes and not _is_at_its_place(tape, interrupt):
            reason = (
                f"what the run asked for is not on the tape as it was asked, but the recording has holes "
                f"({losses_told(holes)[0]}; {left_count} recorded steps were still to come)"
            )
            return VerdictStatus.CANNOT_JUDGE, reason, Departure.of(interrupt)
        return VerdictStatus.DEPARTED, "", Departure.of(interrupt)
    return VerdictStatus.CANNOT_JUDGE, str(interrupt), None


def _is_at_its_place(tape: Tape, departure: ReplayDeparture) -> bool:
    """Whether a call differs from the one recorded at its very place: a lost one was then another."""
    return bool(departure.differences) and any(
        entry.node.step == departure.step and entry.node.path == departure.path for entry in tape.entries
    )


def _never_asked(playback: Playback) -> Departure:
    first = next(playback.tape.left())
    what = matching.describe(first.call)
    return Departure(
        first.node.step,
        first.node.path,
        what,
        "the run ended without asking for it",
        message=f"step {first.node.step} was never asked for: {what}",
    )


def recorded_input(tape: Tape) -> Payload | None:
    """Return the input that the run had, None where it is not on record."""
    call = None if tape.root is None else tape.root.call
    return None if call is None else call.request


def _outputs(tape: Tape, end: End) -> tuple[bool | None, tuple[str, ...]]:
    outcome = None if tape.root is None else tape.root.outcome
    if outcome is None or tape.died:
        return None, ()
    if outcome.failure is not None or end.failure is not None:
        return _failures(outcome.failure, end.failure)
    same, differences = compared_values(tape, outcome.result, end.output)
    return (None, ()) if same is False and not outcome.round_trips else (same, differences)


def _failures(recorded: Failure | None, came: Failure | None) -> tuple[bool, tuple[str, ...]]:
    was, now = (
        None if failure is None else (failure.type, matching.without_addresses(failure.message))
        for failure in (recorded, came)
    )
    if was == now:
        return True, ()
    told = [f"{one[0]}: {one[1]}" if one is not None else "no error" for one in (was, now)]
    return False, (f"error: {told[0]!r} -> {told[1]!r}",)


def compared_values(tape: Tape, recorded: Payload | None, came: Payload | None) -> tuple[bool | None, tuple[str, ...]]:
    """Return whether two typed values are the same, None where that cannot be told, and the differences."""
    if recorded is None and came is None:
        return True, ()
    if recorded is None or came is None:
        return None, ()
    if recorded.digest == came.digest:
        return True, ()
    try:
        data = tape.loaded(recorded, None, "value").data
    except (MissingPayload, DamagedRecording):
        return None, ()
    if came.data is None:
        return None, ()
    was, now = (
        _as_call(Payload(b"", bytes_, MediaType.VALUE.value, len(bytes_ or b""))) for bytes_ in (data, came.data)
    )
    if matching.normal_form(was, data, _NOTHING_VOLATILE) == matching.normal_form(now, came.data, _NOTHING_VOLATILE):
        return True, ()
    differences: Sequence[str] = matching.value_differences(data or b"", came.data)
    return False, tuple(differences) or ("value: differs",)


def _as_call(payload: Payload) -> Call:
    """Wrap a value so that it is compared like arguments that could not be kept whole: without addresses."""
    if not is_json(payload.media_type):
        raise AssertionError("run inputs and outputs are typed JSON")
    return Call(Kind.RUN, "", SideEffect.NONE, payload, round_trips=False)

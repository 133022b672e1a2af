"""How a resumed run or a fork went, as data that survives its process: finished, waiting, stopped, and why."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import (
    AgentReplayError,
    AwaitingPerson,
    DamagedRecording,
    EffectInDoubt,
    LeaseLost,
    ReplayDeparture,
    ReplayInterrupt,
    RunBusy,
)
from otel_agent_replay.model import Word
from otel_agent_replay.replay.entering import Entrance
from otel_agent_replay.replay.report_file import fields_in, write_whole
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.told_steps import ToldStep


class ContinuedStatus(Word):
    """How a run that goes on stands."""

    FINISHED = "finished"  # the agent's code ran to its end
    FAILED = "failed"  # the agent's code raised
    DEPARTED = "departed"  # the code asked for something else than the recording has
    STOPPED = "stopped"  # a rule stopped it: a refused call, a fence, a step limit
    WAITING = "waiting"  # a person must answer or decide, or another worker holds it: try again later
    NOT_BEGUN = "not_begun"  # it could not go on: other code, not recorded, damaged, or the process died


_EXIT_CODES = {
    ContinuedStatus.FINISHED: 0,
    ContinuedStatus.FAILED: 1,
    ContinuedStatus.DEPARTED: 1,
    ContinuedStatus.STOPPED: 1,
    ContinuedStatus.WAITING: 75,
    ContinuedStatus.NOT_BEGUN: 125,
}
FAST_FORWARD, JUMP = "fast-forward", "jump"
_WAITS = (EffectInDoubt, AwaitingPerson, LeaseLost)


@dataclass(frozen=True, slots=True)
class ContinuedReport:
    """How run `run_id` (32 hex digits) went when it was gone on with in `mode` (resume or fork).

    `origin_run_id` is the run that it goes on from: itself when resumed. `steps_shared` of `steps_recorded` are the
    recording's (answered from it, or skipped), `steps_live` is how many came after; `steps` says of each what became of
    it. `entered` is `jump` (at the checkpoint `entered_name`, step `entered_step`; of LangGraph's: its id `entered_id`)
    or `fast-forward`, by exact replay from the beginning; `not_jumped` then says why. `reason` says why it is not
    finished, `code` is the stable code of that. `changes` are a fork's, one line each; `refusals` is what its fence
    refused, with file and line. `child_exit` is the process's exit status.
    """

    status: ContinuedStatus
    run_id: str
    agent: str = ""
    mode: str = "resume"
    origin_run_id: str = ""
    reason: str = ""
    code: str = ""
    step: int | None = None
    steps_recorded: int = 0
    steps_shared: int = 0
    steps_live: int = 0
    entered: str = FAST_FORWARD
    entered_step: int | None = None
    entered_name: str = ""
    entered_id: str = ""
    not_jumped: str = ""
    changes: tuple[str, ...] = ()
    fences: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    child_exit: int | None = None
    steps: tuple[ToldStep, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 finished; 1 departed, stopped or the agent failed; 75 not now; 125 it could not go on."""
        return _EXIT_CODES[self.status]

    @classmethod
    def never_began(cls, run_id: str, agent: str, mode: str, reason: str = "", code: str = "") -> ContinuedReport:
        """Return the report on a run that its process never asked for."""
        told = reason or f"the command never started a run of agent {agent!r}: is it the command that was recorded?"
        return cls(ContinuedStatus.NOT_BEGUN, run_id, agent, mode, run_id, told, code)

    @classmethod
    def refused(cls, run_id: str, agent: str, mode: str, error: AgentReplayError) -> ContinuedReport:
        """Return the report on a run that could not go on because of `error`."""
        status = ContinuedStatus.WAITING if isinstance(error, RunBusy) else ContinuedStatus.NOT_BEGUN
        return cls(status, run_id, agent, mode, run_id, str(error), error.code)

    @classmethod
    def of(
        cls,
        session: Session,
        tape: Tape,
        *,
        mode: str,
        error: BaseException | None,
        interrupt: ReplayInterrupt | None,
        ended: bool,
        changes: tuple[str, ...],
        entrance: Entrance | str = "",
        steps: tuple[ToldStep, ...] = (),
    ) -> ContinuedReport:
        """Return the report on a run that went on in `session`; `ended` tells that its code came to an end."""
        status, reason, code = _standing(error, interrupt, ended=ended)
        at = entrance.checkpoint if isinstance(entrance, Entrance) else None
        return cls(
            status,
            session.run_id.hex(),
            tape.run.agent,
            mode,
            tape.run.run_id.hex(),
            reason,
            code,
            getattr(interrupt, "step", None),
            tape.steps,
            tape.taken_steps + sum(1 for entry in tape.skipped if not entry.below),
            session.live_steps,
            entered=FAST_FORWARD if at is None else JUMP,
            entered_step=None if at is None else at.step,
            entered_name="" if at is None else at.name,
            entered_id=entrance.langgraph_id if isinstance(entrance, Entrance) else "",
            not_jumped=entrance if isinstance(entrance, str) else "",
            changes=changes,
            steps=steps,
        )

    def to_json(self) -> str:
        """Return the report as one JSON object in ASCII, so that recorded text can drive no terminal."""
        return json.dumps({**asdict(self), "exit_code": self.exit_code}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> ContinuedReport:
        """Return the report that `to_json` wrote. Raises DamagedRecording when it is not one."""
        try:
            values = fields_in(text, cls)
            values["status"] = ContinuedStatus(values["status"])
            values["steps"] = tuple(map(ToldStep.from_json, values.get("steps", ())))
            return cls(**values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DamagedRecording(f"this is no report on a run that went on: {error}") from error

    def write(self, path: Path) -> None:
        """Write it to `path` atomically."""
        write_whole(path, self.to_json())


def _standing(
    error: BaseException | None, interrupt: ReplayInterrupt | None, *, ended: bool
) -> tuple[ContinuedStatus, str, str]:
    if interrupt is not None:
        if isinstance(interrupt, _WAITS):
            return ContinuedStatus.WAITING, str(interrupt), interrupt.code
        if isinstance(interrupt, ReplayDeparture):
            return ContinuedStatus.DEPARTED, str(interrupt), interrupt.code
        return ContinuedStatus.STOPPED, str(interrupt), interrupt.code
    if not ended:
        return ContinuedStatus.NOT_BEGUN, "the process left the run before its end", "not_ended"
    if error is not None:
        return ContinuedStatus.FAILED, f"{type(error).__name__}: {error}", "agent_failed"
    return ContinuedStatus.FINISHED, "", ""

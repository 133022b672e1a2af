"""How a re-run went, as its own process tells it: data that survives that process, also when it is killed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from otel_agent_replay.errors import (
    AgentReplayError,
    CrossingRefused,
    DamagedRecording,
    FenceViolation,
    ReplayInterrupt,
)
from otel_agent_replay.model import Word
from otel_agent_replay.replay.report_file import fields_in, write_whole
from otel_agent_replay.replay.rerun.drift import Drift

KILLED = "limit"
"""Code of a re-run whose process was killed: by its time, or by a limit of the kernel."""

_LONGEST = 200  # characters of what was refused


class RerunStatus(Word):
    """How a re-run ended."""

    FINISHED = "finished"  # the agent's code ran to its end
    FAILED = "failed"  # the agent's code raised
    REFUSED = "refused"  # it wanted what nobody may answer: a write off the tape, a way out
    STOPPED = "stopped"  # a limit, or a user's turn that no longer fits
    NOT_BEGUN = "not_begun"  # it could not be begun, or its process died


@dataclass(frozen=True, slots=True)
class RerunReport:
    """How the re-run `run_id` (32 hex digits, "" when none began) of run `origin_run_id` went.

    `reason` says why it did not finish, `code` is the stable code of that, `step` the re-run's step. `refused` names
    what was refused. `drifted` are live reads that were answered otherwise than on record, of `reads_checked` that
    were; `reads_unknown` are live ones that are not on record. `pool_misses` say why other runs did not answer.
    `turns_closely` counts the user's turns that fit only closely. `unfrozen` says what was not as it was then.
    `spent_usd` is what its model calls cost, by known prices or the one that was given.
    """

    status: RerunStatus
    origin_run_id: str
    run_id: str = ""
    agent: str = ""
    reason: str = ""
    code: str = ""
    step: int | None = None
    refused: tuple[str, ...] = ()
    drifted: tuple[Drift, ...] = ()
    reads_checked: int = 0
    reads_unknown: int = 0
    pool_misses: tuple[str, ...] = ()
    turns_closely: int = 0
    unfrozen: tuple[str, ...] = ()
    fences: tuple[str, ...] = ()
    child_exit: int | None = None
    spent_usd: float = 0.0

    @classmethod
    def not_begun(cls, origin_run_id: str, agent: str, reason: str, code: str = "not_begun") -> RerunReport:
        """Return the report on a re-run that never was."""
        return cls(RerunStatus.NOT_BEGUN, origin_run_id, agent=agent, reason=reason, code=code)

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> RerunReport:
        """Return the report that `to_json` wrote. Raises DamagedRecording when it is not one."""
        try:
            values = fields_in(text, cls)
            values["status"] = RerunStatus(values["status"])
            values["drifted"] = tuple(Drift(**one) for one in values.get("drifted", ()))
            return cls(**values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DamagedRecording(f"this is no report on a re-run: {error}") from error

    def write(self, path: Path) -> None:
        """Write it to `path` atomically."""
        write_whole(path, self.to_json())


def standing(
    error: BaseException | None, interrupt: ReplayInterrupt | None, *, ended: bool
) -> tuple[RerunStatus, str, str]:
    """Return status, reason and code of a re-run whose code raised `error`, or was stopped by `interrupt`."""
    if interrupt is not None:
        refused = isinstance(interrupt, (CrossingRefused, FenceViolation))
        return RerunStatus.REFUSED if refused else RerunStatus.STOPPED, str(interrupt), interrupt.code
    if not ended:
        return RerunStatus.NOT_BEGUN, "the process left the run before its end", "not_ended"
    if isinstance(error, AgentReplayError):
        return RerunStatus.FAILED, f"{type(error).__name__}: {error}", error.code
    if error is not None:
        return RerunStatus.FAILED, f"{type(error).__name__}: {error}", "agent_failed"
    return RerunStatus.FINISHED, "", ""


def refusals(interrupt: ReplayInterrupt | None, missed: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return what was refused, in words; `missed` are the arguments of calls that nobody answered, by name."""
    if isinstance(interrupt, CrossingRefused):
        arguments = missed.get(interrupt.what.partition(" ")[2], b"").decode("utf-8", "replace")
        return (f"{interrupt.what} {arguments}".strip()[:_LONGEST],)
    return (f"{interrupt.attempt} at {interrupt.location}",) if isinstance(interrupt, FenceViolation) else ()

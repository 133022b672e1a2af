"""The verdict on one replay, as data that survives a process: same, departed, or cannot judge, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import Candidate, DamagedRecording, FenceViolation, ReplayDeparture
from otel_agent_replay.model import Word
from otel_agent_replay.replay.report_file import read_whole, write_whole


class VerdictStatus(Word):
    """What a replay showed."""

    SAME = "same"  # every recorded step was asked for, in the same words, and the outcome was the same
    DEPARTED = "departed"  # the code left its tape
    CANNOT_JUDGE = "cannot_judge"  # not recorded, damaged, lossy at that place, or never ended


_EXIT_CODES = {VerdictStatus.SAME: 0, VerdictStatus.DEPARTED: 1, VerdictStatus.CANNOT_JUDGE: 125}


@dataclass(frozen=True, slots=True)
class Departure:
    """Where the run left its tape; the fields of `errors.ReplayDeparture`, and the message that was raised.

    `location` is `file:line` of the code that asked, "" where that is unknown.
    """

    step: int | None
    path: tuple[str, ...]
    expected: str
    came: str
    candidates: tuple[Candidate, ...] = ()
    differences: tuple[str, ...] = ()
    message: str = ""
    location: str = ""

    @classmethod
    def of(cls, error: ReplayDeparture | FenceViolation, step: int | None = None) -> Departure:
        """Return the departure that `error` tells of; `step` is where a fence was hit."""
        if isinstance(error, FenceViolation):
            return cls(
                step,
                (),
                "nothing leaves the process",
                f"{error.attempt} at {error.location}",
                message=str(error),
                location=error.location,
            )
        return cls(
            error.step,
            error.path,
            error.expected,
            error.came,
            error.candidates,
            error.differences,
            str(error),
            error.location,
        )


@dataclass(frozen=True, slots=True)
class MissedStep:
    """A recorded step that the replay never asked for."""

    step: int | None
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefusedAttempt:
    """A way out that a fence refused: what, where (`file:line`), and whether it stopped the run."""

    what: str
    location: str
    in_run: bool


@dataclass(frozen=True, slots=True)
class OtherRun:
    """Another run of the same process, and how its replay went."""

    run_id: str
    agent: str
    status: VerdictStatus


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """The verdict on the replay of run `run_id` (32 hex digits). Empty or None: unknown.

    `reason` says why it cannot be judged. `steps_replayed` of `steps_recorded` were answered, `sources` counts by
    answer source. `output_same` is None where the outputs could not be compared. `order_not_imposed` are steps
    whose recorded completion order had to be let go, 0 for the end of a thread, a put on a queue or a wait.
    `canonical_matches` are steps that matched in canonical form only, `volatile` the JSON paths left out of the
    comparison. `losses` are the recording's, one line each. `fences` are the walls that stood. `child_exit` is the
    replaying process's exit status.
    """

    status: VerdictStatus
    run_id: str
    agent: str = ""
    replay_run_id: str = ""
    reason: str = ""
    departure: Departure | None = None
    steps_recorded: int = 0
    steps_replayed: int = 0
    reads_replayed: int = 0
    reads_never_made: int = 0
    never_asked: tuple[MissedStep, ...] = ()
    tape_ended: bool = False
    input_same: bool | None = None
    input_differences: tuple[str, ...] = ()
    output_same: bool | None = None
    output_differences: tuple[str, ...] = ()
    order_not_imposed: tuple[int, ...] = ()
    canonical_matches: tuple[int, ...] = ()
    volatile: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    fences: tuple[str, ...] = ()
    attempts: tuple[RefusedAttempt, ...] = ()
    closed_sockets: tuple[str, ...] = ()
    sources: Mapping[str, int] = field(default_factory=dict)
    others: tuple[OtherRun, ...] = ()
    child_exit: int | None = None

    @property
    def exit_code(self) -> int:
        """0 same, 1 departed, 125 cannot judge (what `git bisect run` takes as "skip")."""
        return _EXIT_CODES[self.status]

    def to_json(self) -> str:
        """Return the verdict as one JSON object in ASCII, so that recorded text can drive no terminal."""
        return json.dumps({**asdict(self), "exit_code": self.exit_code}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> ReplayVerdict:
        """Return the verdict that `to_json` wrote. Raises DamagedRecording when it is not one."""
        try:
            found: dict[str, Any] = json.loads(text)
            known = {item.name for item in fields(cls)}
            values = {name: _restored(name, value) for name, value in found.items() if name in known}
            return cls(**values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DamagedRecording(f"this is no verdict of a replay: {error}") from error

    def write(self, path: Path) -> None:
        """Write it to `path` atomically."""
        write_whole(path, self.to_json())

    @classmethod
    def read(cls, path: Path) -> ReplayVerdict:
        """Return the verdict in `path`. Raises OSError, DamagedRecording."""
        return cls.from_json(read_whole(path))


_ITEMS: Mapping[str, type] = {"never_asked": MissedStep, "attempts": RefusedAttempt}


def _restored(name: str, value: Any) -> Any:
    if name == "status":
        return VerdictStatus(value)
    if name == "departure":
        return None if value is None else _departure(value)
    if name == "others":
        return tuple(OtherRun(one["run_id"], one["agent"], VerdictStatus(one["status"])) for one in value)
    if name in _ITEMS:
        return tuple(_ITEMS[name](**_with_tuples(one)) for one in value)
    return tuple(value) if isinstance(value, list) else value


def _departure(value: dict[str, Any]) -> Departure:
    fields_of = _with_tuples(value)
    fields_of["candidates"] = tuple(Candidate(**_with_tuples(one)) for one in value["candidates"])
    return Departure(**fields_of)


def _with_tuples(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}


def losses_told(losses: Sequence[Any]) -> tuple[str, ...]:
    """Return each loss of a recording as one line."""
    return tuple(
        f"{loss.count} {loss.what}: {loss.reason}" + (f" ({loss.detail})" if loss.detail else "") for loss in losses
    )

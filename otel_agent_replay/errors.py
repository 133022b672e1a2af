"""Every error of ours.

    AgentReplayError(Exception)
    ├── ConfigurationError        a setting, rule or argument is wrong
    ├── RecordingError            something that was read back is not what was written
    │   ├── RunNotFound           no run, or several, for what was asked
    │   ├── DamagedRecording      a digest, frame or file does not hold
    │   ├── UnsupportedFormat     written by a newer version than this reader
    │   └── MissingPayload        a payload is not in the lake
    ├── CodecError                bytes that are not what the typed codec writes
    └── CannotJudge               no verdict is possible: not recorded, damaged, unsafe
    ReplayInterrupt(BaseException)
    ├── ReplayDeparture           the code left its tape
    ├── TapeEnded                 the recording itself ends here: its process died
    ├── TapeUnreadable            the recorded answer is there but its bytes are missing or damaged
    └── FenceViolation            the code tried to leave the process during a replay

`ReplayInterrupt` derives from BaseException so that an agent's `except Exception` cannot hide it. Errors
carry a stable `code` for scripts, structured fields, and a message that says what happened and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class AgentReplayError(Exception):
    """Base of the errors that a caller may catch. `code` is stable across versions."""

    code: ClassVar[str] = "error"


class ConfigurationError(AgentReplayError):
    """A setting, redaction rule or argument is wrong; the message names it, its value and its source."""

    code = "configuration"


class RecordingError(AgentReplayError):
    """What was read back is not what was written."""

    code = "recording"


class RunNotFound(RecordingError):
    """No run fits, or several do: `asked` is what was asked for, `candidates` run ids that begin so."""

    code = "run_not_found"

    def __init__(self, asked: str, candidates: Sequence[str] = ()) -> None:
        self.asked = asked
        self.candidates = tuple(candidates)
        if candidates:
            shown = ", ".join(self.candidates[:5])
            message = f"{asked!r} is ambiguous: {len(self.candidates)} runs begin so ({shown}); give more of the id"
        else:
            message = f"no run {asked!r} in this lake; `agent-replay runs` lists what is there"
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.asked, self.candidates))


class DamagedRecording(RecordingError):
    """A digest, frame or file does not hold what it says."""

    code = "damaged"


class UnsupportedFormat(RecordingError):
    """The file needs a newer reader than this one."""

    code = "unsupported_format"


class MissingPayload(RecordingError):
    """A payload is referenced but not in the lake; `digest` is its SHA-256."""

    code = "missing_payload"

    def __init__(self, digest: bytes, wanted_for: str) -> None:
        self.digest = digest
        self.wanted_for = wanted_for
        super().__init__(
            f"payload {digest.hex()[:16]} ({wanted_for}) is not in the lake: it was captured at level "
            "`digest`, or its partition is gone"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.digest, self.wanted_for))


class CodecError(AgentReplayError):
    """The bytes are not what the typed codec writes; the message gives the path to the bad value."""

    code = "codec"


class CannotJudge(AgentReplayError):
    """No verdict is possible; the command line answers it with exit code 125."""

    code = "cannot_judge"


class ReplayInterrupt(BaseException):
    """Base of what stops a replay; deliberately not an Exception."""

    code: ClassVar[str] = "replay_interrupt"


@dataclass(frozen=True)
class Candidate:
    """A recorded step that comes near to what was asked, and in what it differs (one phrase a reason)."""

    step: int | None
    path: tuple[str, ...]
    reasons: tuple[str, ...]


class ReplayDeparture(ReplayInterrupt):
    """The code asked for something that its tape does not hold.

    `step` is the recorded step that was expected there (None when the tape had none left), `expected` and
    `came` are one line each, `candidates` the nearest recorded steps with reasons, `differences` the places
    where the request differs (`messages[3].content: 'a' -> 'b'`).
    """

    code = "departure"

    def __init__(
        self,
        *,
        step: int | None,
        path: Sequence[str],
        expected: str,
        came: str,
        candidates: Sequence[Candidate] = (),
        differences: Sequence[str] = (),
    ) -> None:
        self.step = step
        self.path = tuple(path)
        self.expected = expected
        self.came = came
        self.candidates = tuple(candidates)
        self.differences = tuple(differences)
        super().__init__(self._message())

    def _message(self) -> str:
        where = "a call that is not on the tape" if self.step is None else f"step {self.step}"
        if self.differences:
            head = f"request differs at {where}: {self.differences[0].split(':', 1)[0]}"
        else:
            head = f"departed at {where}"
        lines = [head, f"  expected: {self.expected}", f"  came:     {self.came}"]
        lines += [f"  differs:  {difference}" for difference in self.differences[:10]]
        if len(self.differences) > 10:
            lines.append(f"  ... and {len(self.differences) - 10} more differences")
        for candidate in self.candidates[:3]:
            label = "-" if candidate.step is None else str(candidate.step)
            lines.append(f"  nearest:  step {label}: {'; '.join(candidate.reasons)}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_departure, (self.__dict__.copy(),))


def _rebuild_departure(fields: dict[str, Any]) -> ReplayDeparture:
    names = ("step", "path", "expected", "came", "candidates", "differences")
    return ReplayDeparture(**{name: fields[name] for name in names})


class TapeEnded(ReplayInterrupt):
    """The recording ends in the middle of this call: the recorded process died there. Nothing departed so far."""

    code = "tape_ended"

    def __init__(self, step: int | None, what: str) -> None:
        self.step = step
        self.what = what
        super().__init__(f"the recording ends at step {step} ({what}): the recorded process died during it")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.step, self.what))


class TapeUnreadable(ReplayInterrupt):
    """The recorded answer of step `step` cannot be served (`why`), so nothing can be said of what follows."""

    code = "tape_unreadable"

    def __init__(self, step: int | None, why: str) -> None:
        self.step = step
        self.why = why
        super().__init__(f"the recorded answer of step {step} cannot be served: {why}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.step, self.why))


class FenceViolation(ReplayInterrupt):
    """The code tried to leave the process during a replay.

    `attempt` says what (`connect to 10.0.0.1:443`), `location` is `file:line` of the application's call.
    """

    code = "fence"

    def __init__(self, attempt: str, location: str, fence: str) -> None:
        self.attempt = attempt
        self.location = location
        self.fence = fence
        super().__init__(
            f"{attempt} at {location} was refused by the {fence} fence: an exact replay is offline. Declare the call "
            "as a tool (`@replay.tool`) so that it is recorded, or allow it by name"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.attempt, self.location, self.fence))

"""Every error of ours.

    AgentReplayError(Exception)
    ├── ConfigurationError        a setting, rule or argument is wrong
    ├── RecordingError            something that was read back is not what was written
    │   ├── RunNotFound           no run, or several, for what was asked
    │   ├── DamagedRecording      a digest, frame or file does not hold
    │   ├── UnsupportedFormat     written by a newer version than this reader
    │   └── MissingPayload        a payload is not in the lake
    ├── CodecError                bytes that are not what the typed codec writes
    ├── CannotJudge               no verdict is possible: not recorded, damaged, unsafe
    ├── MaintenanceError          work on a lake as a whole could not be done; nothing is lost
    ├── ExportRefused             an endpoint did not take what was sent to it
    ├── LedgerError               the ledger cannot be read or written, or has not what is decided on
    ├── RunBusy                   another worker holds the run
    ├── FingerprintChanged        the code or configuration is not the recorded one
    ├── ApprovalRequired          a tool that needs an approval was called without one for exactly this action
    ├── EffectRunning             the same effect (same key) is still running in this run
    ├── KeyReused                 an idempotency key stands for another call already
    └── NotHappened               raised by a tool's status query: the effect never happened
    ReplayInterrupt(BaseException)
    ├── ReplayDeparture           the code left its tape
    ├── TapeEnded                 the recording itself ends here: its process died
    ├── TapeUnreadable            the recorded answer is there but its bytes are missing or damaged
    ├── FenceViolation            the code tried to leave the process during a replay
    ├── CrossingRefused           nobody may answer this call in this mode
    ├── EffectInDoubt             a side effect may or may not have happened: a person must decide
    ├── AwaitingPerson            the run waits for a person's answer
    ├── LeaseLost                 another worker has taken the run over
    ├── StepLimit                 the run has made as many steps as it may
    ├── SpendingLimit             the run has used as many tokens, or as much money, as it may
    └── TurnMisfit                the user's recorded turn no longer fits what the agent says

`ReplayInterrupt` derives from BaseException so that an agent's `except Exception` cannot hide it. Errors
carry a stable `code` for scripts, structured fields, and a message that says what happened and what to do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
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


class ExportRefused(AgentReplayError):
    """An OTLP endpoint did not take spans; the message says what it answered. What was sent before it has.

    `may_try_again` tells that it may take them another time.
    """

    code = "export_refused"

    def __init__(self, message: str, *, may_try_again: bool = False) -> None:
        self.may_try_again = may_try_again
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_refusal, (str(self), self.may_try_again))


def _rebuild_refusal(message: str, may_try_again: bool) -> ExportRefused:
    return ExportRefused(message, may_try_again=may_try_again)


class CannotJudge(AgentReplayError):
    """No verdict is possible; the command line answers it with exit code 125."""

    code = "cannot_judge"


class MaintenanceError(AgentReplayError):
    """Work on a lake as a whole (compaction, retention, repair, upgrade) could not be done, and nothing is lost."""

    code = "maintenance"


class LedgerError(AgentReplayError):
    """The ledger cannot be read or written, or has not what is decided on."""

    code = "ledger"


class RunBusy(AgentReplayError):
    """Another worker holds the run: `holder` until `until_ns` (Unix nanoseconds), unless it renews."""

    code = "run_busy"

    def __init__(self, run_id: str, holder: str, until_ns: int) -> None:
        self.run_id = run_id
        self.holder = holder
        self.until_ns = until_ns
        left = max(0.0, until_ns / 1e9 - time.time())
        super().__init__(f"run {run_id} is held by {holder} for {left:.1f} s more, unless it renews; try again then")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.run_id, self.holder, self.until_ns))


class FingerprintChanged(AgentReplayError):
    """The code or configuration is not the recorded one; `differences` has one line each."""

    code = "fingerprint"

    def __init__(self, run_id: str, differences: Sequence[str]) -> None:
        self.run_id = run_id
        self.differences = tuple(differences)
        told = "; ".join(self.differences)
        super().__init__(
            f"run {run_id} was recorded with other code or configuration: {told}. Go back to it, or go on all the "
            "same with --changed (AGENT_REPLAY_CHANGED=true)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.run_id, self.differences))


class ApprovalRequired(AgentReplayError):
    """The tool `tool` needs an approval of exactly these arguments, not yet spent, and there is none."""

    code = "approval_required"

    def __init__(self, tool: str, why: str) -> None:
        self.tool = tool
        self.why = why
        super().__init__(f"{tool} needs an approval of exactly this call: {why}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.tool, self.why))


class EffectRunning(AgentReplayError):
    """The effect `key` of tool `tool` is still running in this run: it is not called a second time meanwhile."""

    code = "effect_running"

    def __init__(self, tool: str, key: str) -> None:
        self.tool = tool
        self.key = key
        super().__init__(f"{tool} with idempotency key {key!r} is still running in this run; it is not called again")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.tool, self.key))


class KeyReused(AgentReplayError):
    """The idempotency key `key` of tool `tool` stands for the call at step `step`, which had other arguments."""

    code = "key_reused"

    def __init__(self, tool: str, key: str, step: int) -> None:
        self.tool = tool
        self.key = key
        self.step = step
        super().__init__(
            f"{tool} is called with idempotency key {key!r}, which stands for its call at step {step} with other "
            "arguments: that one's result is not this one's; let the key depend on all that makes a call another one"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.tool, self.key, self.step))


class NotHappened(AgentReplayError):
    """Raised by a tool's `recover` function: the system says that the effect never happened."""

    code = "not_happened"


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
    where the request differs (`messages[3].content: 'a' -> 'b'`). `location` is `file:line` of the application's code
    that asked, "" where none was on the stack.
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
        location: str = "",
    ) -> None:
        self.step = step
        self.path = tuple(path)
        self.location = location
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

    `attempt` says what (`connect to 10.0.0.1:443`), `location` is `file:line` of the application's call, `path` the
    file that would have been changed ("": none).
    """

    code = "fence"

    def __init__(self, attempt: str, location: str, fence: str, path: str = "") -> None:
        self.attempt = attempt
        self.location = location
        self.fence = fence
        self.path = path
        why = (
            f"a replay changes no file. Allow it with `--allow-write {PurePath(path).parent}`"
            if path
            else "a replay is offline. Allow it with `--allow HOST:PORT` where that is an endpoint it may reach"
        )
        super().__init__(
            f"{attempt} at {location} was refused by the {fence} fence: {why}, or declare the call as a tool "
            "(`@replay.tool`) so that it is recorded"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.attempt, self.location, self.fence, self.path))


class CrossingRefused(ReplayInterrupt):
    """Nobody may answer `what` in mode `mode`, which does not let it go live."""

    code = "refused"

    def __init__(self, step: int | None, what: str, mode: str) -> None:
        self.step = step
        self.what = what
        self.mode = mode
        super().__init__(f"{what} (step {step}) is not on the tape, and mode {mode} does not let it happen: refused")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.step, self.what, self.mode))


class EffectInDoubt(ReplayInterrupt):
    """An earlier attempt began this effect and left no result; the tool takes no key and has no status query."""

    code = "in_doubt"

    def __init__(self, run_id: str, step: int | None, tool: str, key: str) -> None:
        self.run_id = run_id
        self.step = step
        self.tool = tool
        self.key = key
        super().__init__(
            f"{tool} (step {step} of run {run_id}) was begun by an attempt that died: it may have happened or not. "
            f"Look it up, then say `agent-replay decide {run_id} --step {step} --happened @result.json` or "
            f"`--not-happened`, and resume"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.run_id, self.step, self.tool, self.key))


class AwaitingPerson(ReplayInterrupt):
    """The run waits for a person's answer to approval `name` (step `step`); resume it when the answer is there."""

    code = "awaiting_person"

    def __init__(self, run_id: str, step: int | None, name: str) -> None:
        self.run_id = run_id
        self.step = step
        self.name = name
        super().__init__(
            f"run {run_id} waits for a person: {name} (step {step}). Answer with "
            f"`agent-replay decide {run_id} --step {step} --approve|--reject --by NAME`, then resume"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.run_id, self.step, self.name))


class LeaseLost(ReplayInterrupt):
    """This worker may no longer act for the run; `why` says what became of its lease."""

    code = "lease_lost"

    def __init__(self, run_id: str, fence: int, why: str = "the lease ran out and another worker has it") -> None:
        self.run_id = run_id
        self.fence = fence
        self.why = why
        super().__init__(f"this worker lost run {run_id} (its fence was {fence}): {why}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.run_id, self.fence, self.why))


class StepLimit(ReplayInterrupt):
    """The run has made `limit` steps, as many as it may: it is aborted."""

    code = "step_limit"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"the run was aborted: it has made {limit} steps, as many as it may (max_steps)")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.limit,))


class SpendingLimit(ReplayInterrupt):
    """The run is aborted before its next model call: `what` says what was used, and how much it may use."""

    code = "spending_limit"

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the run was stopped before its next model call: {what}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.what,))


class TurnMisfit(ReplayInterrupt):
    """A user's turn `name` (step `step`) is asked for that the recording does not answer (`why`), nor anybody else."""

    code = "turn_misfit"

    def __init__(self, step: int | None, name: str, why: str) -> None:
        self.step = step
        self.name = name
        self.why = why
        super().__init__(
            f"the user's turn no longer fits: {name} (step {step}): {why}. Give the further turns with --user-script, "
            "or a --simulator"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.step, self.name, self.why))

"""A case replayed exactly with today's code: free, offline, and decided where every request is on the recording."""

from __future__ import annotations

from pathlib import Path

from otel_agent_replay.casebook.queries import rows_of
from otel_agent_replay.compare import compare
from otel_agent_replay.errors import AgentReplayError, ConfigurationError
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.gate import check
from otel_agent_replay.gate.decision import part_of_run, whole_run
from otel_agent_replay.gate.verdict import Means, Reason, Trial
from otel_agent_replay.lake.catalog import Lake, StoredRun
from otel_agent_replay.model import RunStatus
from otel_agent_replay.replay.launch import in_process_run, replay_command
from otel_agent_replay.replay.verdict import ReplayVerdict, VerdictStatus
from otel_agent_replay.trials.options import TrialOptions
from otel_agent_replay.trials.started import argv_of, enclosure_of, loaded
from otel_agent_replay.trials.subject import Subject
from otel_agent_replay.trials.words import first_line, with_last_words

ENDED = (RunStatus.OK, RunStatus.ERROR)
"""How a run stands whose code came to its end: nothing stopped it on its way."""


def exact_trial(subject: Subject, options: TrialOptions) -> Trial:
    """Replay the run of a subject and hold the replayed run against the case.

    A run that left its recording is `departed` at the step that the trial names; what it breaks before, it breaks.
    """
    recorded = _recorded(subject)
    output = subject.work / "replay.log"
    try:
        verdict = _replayed(subject, recorded, options, output)
    except ConfigurationError:
        raise
    except AgentReplayError as error:
        return Trial(Means.EXACT, Reason.NOT_REPLAYED, str(error))
    seal(subject.lake)
    came = loaded(subject.lake, verdict.replay_run_id)
    if came is None:
        reason = Reason.DEPARTED if verdict.status is VerdictStatus.DEPARTED else Reason.NOT_REPLAYED
        return Trial(Means.EXACT, reason, with_last_words(_why(verdict), output))
    results = check(subject.case, came, rows=rows_of(subject.lake, came.run.run_id))
    step = None if verdict.departure is None else verdict.departure.step
    if verdict.input_same is False:
        other = "; ".join(verdict.input_differences)
        reason, detail = Reason.NOT_REPLAYED, f"it was called with another input than on record: {other}"
    elif verdict.status is VerdictStatus.CANNOT_JUDGE:
        reason, detail = Reason.NOT_REPLAYED, with_last_words(_why(verdict), output)
    elif verdict.status is VerdictStatus.SAME or came.run.status in ENDED:
        reason, detail = whole_run(subject.case, recorded, came, results)
    else:
        reason, detail = part_of_run(results, Reason.DEPARTED, _why(verdict))
    changed = None if verdict.status is VerdictStatus.SAME else compare(recorded, came)
    run = came.run.run_id.hex()
    return Trial(Means.EXACT, reason, detail, results, run, subject.lake, step, changed, _differences(verdict))


def _recorded(subject: Subject) -> StoredRun:
    if subject.recorded is None:
        raise ConfigurationError(f"case {subject.case.name!r} has no recorded run: use --mode component")
    return subject.recorded


def _replayed(subject: Subject, recorded: StoredRun, options: TrialOptions, output: Path) -> ReplayVerdict:
    return replay_command(
        recorded.run,
        argv_of(subject, options),
        enclosure=enclosure_of(subject, options, output),
        volatile=options.volatile,
        process_run=bool(options.command) and in_process_run(Lake(subject.lake), recorded.run),
    )


def _why(verdict: ReplayVerdict) -> str:
    if verdict.departure is not None:
        return first_line(verdict.departure.message)
    return verdict.reason


def _differences(verdict: ReplayVerdict) -> tuple[str, ...]:
    return () if verdict.departure is None else verdict.departure.differences

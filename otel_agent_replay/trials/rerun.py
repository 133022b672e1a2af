"""A case run again from its first step: the model live, reads from the recording, nothing written."""

from __future__ import annotations

from dataclasses import replace

from otel_agent_replay.casebook.queries import rows_of
from otel_agent_replay.compare import compare
from otel_agent_replay.errors import AgentReplayError, ConfigurationError, SpendingLimit
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.gate import check
from otel_agent_replay.gate.decision import part_of_run, whole_run
from otel_agent_replay.gate.verdict import Means, Reason, Trial
from otel_agent_replay.replay.fork import model_endpoints
from otel_agent_replay.replay.rerun.launch import endpoint_of, rerun_command
from otel_agent_replay.replay.rerun.plan import BASELINE, CANDIDATE, RerunPlan
from otel_agent_replay.replay.rerun.report import RerunStatus
from otel_agent_replay.replay.spending import Spending
from otel_agent_replay.trials.live import spent_usd
from otel_agent_replay.trials.options import TrialOptions
from otel_agent_replay.trials.started import argv_of, enclosure_of, loaded
from otel_agent_replay.trials.subject import Subject
from otel_agent_replay.trials.words import first_line, with_last_words

_OVER = (RerunStatus.FINISHED, RerunStatus.FAILED)


def rerun_trial(subject: Subject, repeat: int, options: TrialOptions, *, usd: float | None) -> Trial:
    """Run a subject again; it may spend `usd` (None: no limit). `repeat` (from 1) numbers the trials of one subject."""
    recorded = subject.recorded
    if recorded is None:
        raise ConfigurationError(f"case {subject.case.name!r} has no recorded run to run again")
    output = subject.work / f"rerun-{repeat}.log"
    candidate = options.candidate
    into = subject.work / "reruns"
    into.mkdir(exist_ok=True)
    endpoints = [*([endpoint_of(candidate.base_url)] if candidate.base_url else []), *model_endpoints(recorded)]
    enclosure = enclosure_of(subject, options, output, endpoints=endpoints, into=into)
    changed = bool(options.edits) or candidate.base_url or candidate.key
    plan = RerunPlan(
        lane=CANDIDATE if changed else BASELINE,
        repeat=repeat,
        candidate=candidate,
        edits=options.edits,
        live_clock=options.live_clock,
        spending=Spending(usd=usd),
    )
    argv = argv_of(subject, options)
    try:
        report = rerun_command(recorded.run, argv, plan, enclosure=enclosure, max_steps=options.max_steps)
    except ConfigurationError:
        raise
    except AgentReplayError as error:
        return Trial(Means.RERUN, Reason.NOT_REPLAYED, str(error))
    seal(into)
    came = loaded(into, report.run_id)
    if came is None:
        return Trial(Means.RERUN, Reason.NOT_REPLAYED, with_last_words(first_line(report.reason), output))
    results = check(subject.case, came, rows=rows_of(into, came.run.run_id))
    if report.status in _OVER:
        reason, detail = whole_run(subject.case, recorded, came, results)
    else:
        stopped = Reason.OVER_BUDGET if report.code == SpendingLimit.code else Reason.STOPPED
        reason, detail = part_of_run(results, stopped, first_line(report.reason))
    usd_spent = spent_usd(came.spans, candidate.price)
    made = Trial(Means.RERUN, reason, detail, results, came.run.run_id.hex(), into, None, None, usd=usd_spent)
    return replace(made, comparison=compare(recorded, came))

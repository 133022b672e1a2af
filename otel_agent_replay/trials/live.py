"""A case that departed, gone on with live from there: a fork at its departure, on today's code and the candidate.

Exact up to the departure; from there the model is asked, reads come from the recording where their arguments are the
same, and writes never happen. Owns what one such trial is and what a fork's own calls cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from otel_agent_replay import semconv
from otel_agent_replay.casebook.queries import rows_of
from otel_agent_replay.compare import compare
from otel_agent_replay.errors import AgentReplayError, ConfigurationError, SpendingLimit
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.gate import check
from otel_agent_replay.gate.decision import part_of_run, whole_run
from otel_agent_replay.gate.verdict import Means, Reason, Trial
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import AnswerSource, Kind, RecordedRun, RecordedSpan
from otel_agent_replay.replay.continued_report import ContinuedReport, ContinuedStatus
from otel_agent_replay.replay.fork import ForkPlan, model_endpoints
from otel_agent_replay.replay.launch_continued import fork_command
from otel_agent_replay.replay.spending import Spending
from otel_agent_replay.trials.options import TrialOptions
from otel_agent_replay.trials.started import argv_of, enclosure_of, loaded
from otel_agent_replay.trials.subject import Subject
from otel_agent_replay.trials.words import first_line, with_last_words

_OVER = (ContinuedStatus.FINISHED, ContinuedStatus.FAILED)


def live_trial(subject: Subject, at: int, repeat: int, options: TrialOptions, *, usd: float | None = None) -> Trial:
    """Go on live with a subject from step `at`; `repeat` (from 1) numbers the trials of one subject.

    `subject.recorded` must be there. Money is spent here: at most `usd` (None: no limit) before its last model call.
    """
    recorded = subject.recorded
    if recorded is None:
        raise ConfigurationError(f"case {subject.case.name!r} has no recorded run to leave")
    output = subject.work / f"live-{repeat}.log"
    argv = argv_of(subject, options)
    enclosure = enclosure_of(subject, options, output, endpoints=model_endpoints(recorded))
    plan = ForkPlan(
        at,
        options.edits,
        seed=f"gate {repeat}",
        live_clock=options.live_clock,
        jumps=False,
        spending=Spending(usd=usd),
        price=options.candidate.price,
    )
    try:
        report = fork_command(recorded.run, argv, plan, enclosure=enclosure, max_steps=options.max_steps)
    except ConfigurationError:
        raise
    except AgentReplayError as error:
        return Trial(Means.LIVE, Reason.NOT_REPLAYED, str(error), step=at)
    seal(subject.lake)
    return _judged(subject, recorded, report, at, subject.work / f"live-{repeat}", output, options)


def _judged(
    subject: Subject,
    recorded: RecordedRun,
    report: ContinuedReport,
    at: int,
    folder: Path,
    output: Path,
    options: TrialOptions,
) -> Trial:
    fork = None if report.run_id == recorded.run.run_id.hex() else loaded(subject.lake, report.run_id)
    if fork is None:
        return Trial(Means.LIVE, Reason.NOT_REPLAYED, with_last_words(first_line(report.reason), output), step=at)
    lake = folder / "lake"
    write_runs(lake, [standing_alone(fork)], segments=())
    came = Lake(lake).load(fork.run.run_id)
    results = check(subject.case, came, rows=rows_of(lake, came.run.run_id))
    if report.status in _OVER:
        reason, detail = whole_run(subject.case, recorded, came, results)
    else:
        stopped = Reason.OVER_BUDGET if report.code == SpendingLimit.code else Reason.STOPPED
        reason, detail = part_of_run(results, stopped, first_line(report.reason))
    own = [one for one in fork.spans if one.node is not None and one.node.run_id == fork.run.run_id]
    usd = spent_usd(own, options.candidate.price)
    return Trial(Means.LIVE, reason, detail, results, came.run.run_id.hex(), lake, at, compare(recorded, came), usd=usd)


def standing_alone(fork: RecordedRun) -> RecordedRun:
    """Return a fork that shares nothing any more: a run that SQL sees whole, and that can be replayed by itself."""
    run_id = fork.run.run_id
    run = replace(fork.run, fork_step=0, origin_run_id=b"", replay=False)
    spans = [one if one.node is None else replace(one, node=replace(one.node, run_id=run_id)) for one in fork.spans]
    return RecordedRun(run, spans, fork.payload, fork.losses)


def spent_usd(spans: Sequence[RecordedSpan], price: tuple[float, float] | None) -> float:
    """Return what the live model calls among spans cost, US dollars: by `price` (in, out, a million tokens), or known.

    A call whose tokens or price nobody knows counts as nothing.
    """
    total = 0.0
    for one in spans:
        if one.node is None or one.node.kind is not Kind.MODEL or one.node.source is not AnswerSource.LIVE:
            continue
        facts = one.span.attributes
        if price is None:
            known = facts.get(semconv.COST_USD)
            total += known if isinstance(known, (int, float)) else 0.0
        else:
            tokens = (facts.get(semconv.USAGE_INPUT_TOKENS), facts.get(semconv.USAGE_OUTPUT_TOKENS))
            counts = [count if isinstance(count, int) else 0 for count in tokens]
            total += (counts[0] * price[0] + counts[1] * price[1]) / 1e6
    return total

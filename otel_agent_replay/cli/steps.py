"""`agent-replay steps`: every recorded model step of a cohort put to a candidate."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.candidate_options import (
    CANDIDATE_HELP,
    candidate_of,
    candidate_options,
    enter_asking,
    environment_of,
)
from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import remark
from otel_agent_replay.cli.reading import open_lake

if TYPE_CHECKING:
    from otel_agent_replay.lake.catalog import Lake
    from otel_agent_replay.replay.ask.candidate import Candidate
    from otel_agent_replay.replay.ask.plan import Plan
    from otel_agent_replay.replay.ask.results import Results

_EPILOG = """\b
Each recorded request is sent as it was, to the candidate; answers are compared as actions. What a model answers after
its first disagreement in a run is counted apart: there it would not have come. It screens; `rerun` then runs those
again that disagree. Answers are kept in FILE: the same command goes on after a kill, and pays for nothing twice.
A budget holds what was spent over all goes at FILE, and what questions under way may cost at most.

\b
Exit codes: 0 every step agrees, 1 some differ, 2 usage, 125 not every step could be asked or was answered.

\b
Examples:
  agent-replay steps --where "agent = 'support'" --candidate model=gpt-5-mini --plan
  agent-replay steps --where "agent = 'support'" --candidate model=gpt-5-mini --baseline --budget 5 --out mini.steps
  agent-replay steps --cohort bad.jsonl --candidate model=gpt-5-mini --out mini.steps --disagreeing again.jsonl
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--where", metavar="SQL", help="The cohort: a condition over the view `runs`.")
@click.option(
    "--cohort",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help='The cohort: a file with {"run": ID} a line.',
)
@click.option("--candidate", metavar="CANDIDATE", default="", help=CANDIDATE_HELP)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="K",
    help="Ask each step so many times.",
)
@click.option("--baseline", is_flag=True, help="Ask the recorded model too: the noise floor.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The results file.")
@click.option("--plan", "only_plan", is_flag=True, help="Show questions, tokens and price; ask nothing.")
@click.option("--budget", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="Spend no more than this.")
@click.option("--max-calls", type=click.IntRange(min=1), metavar="N", help="Ask no more questions than this.")
@click.option("--parallel", type=click.IntRange(min=1, max=64), default=4, show_default=True, help="At once.")
@click.option("--rate", metavar="N/min", help="No faster than this: N/s, N/min or N/h.")
@click.option("--again", is_flag=True, help="Ask once more what is in doubt, though it may have been paid for.")
@click.option(
    "--disagreeing",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the cohort of runs that disagree.",
)
@click.option(
    "--show", type=click.IntRange(min=0), default=20, show_default=True, metavar="N", help="Show so many disagreements."
)
@candidate_options
@json_option
def steps(
    lake: Path,
    where: str | None,
    cohort: Path | None,
    candidate: str,
    repeats: int,
    baseline: bool,
    out: Path | None,
    only_plan: bool,
    budget: float | None,
    max_calls: int | None,
    parallel: int,
    rate: str | None,
    again: bool,
    disagreeing: Path | None,
    show: int,
    settings: tuple[str, ...],
    env_file: Path | None,
    text_likeness: float,
    timeout: float,
    as_json: bool,
) -> int:
    """Put every model step of a cohort's runs to a candidate, and say where it acts otherwise."""
    if (where is None) == (cohort is None):
        raise click.UsageError("say which runs: --where SQL or --cohort FILE, one of them")
    if out is None and not only_plan:
        raise click.UsageError("say where the answers are kept: --out FILE (or --plan, which asks nothing)")
    from otel_agent_replay.replay.ask.client import Patience
    from otel_agent_replay.replay.ask.pace import Limits, parse_rate
    from otel_agent_replay.replay.ask.works import BASELINE, CANDIDATE

    lanes = {CANDIDATE: candidate_of(candidate, settings)}
    if baseline:
        lanes[BASELINE] = lanes[CANDIDATE].recorded_again()
    limits = Limits(
        repeats, parallel, None if rate is None else parse_rate(rate), budget, max_calls, again,
        Patience(answer_s=timeout),
    )  # fmt: skip
    stored = open_lake(lake)
    if only_plan:
        from otel_agent_replay.cli.steps_plan import planned, show_plan

        show_plan(planned(stored, _run_ids(stored, where, cohort), lanes, repeats), lanes, as_json=as_json)
        return 0
    from otel_agent_replay.cli.steps_report import Shown, report_on
    from otel_agent_replay.replay.ask.results import Results

    if out is None:
        raise AssertionError("checked above")
    with Results(out) as results:
        _bind(results, stored, where, cohort, lanes[CANDIDATE])
        stopped = _ask(results, stored, lanes, limits, env_file, out)
        return report_on(results, lanes, Shown(show, as_json, text_likeness, disagreeing), stopped)


def _run_ids(lake: Lake, where: str | None, cohort: Path | None) -> list[bytes]:
    from otel_agent_replay.errors import CannotJudge
    from otel_agent_replay.replay.cohort import read_cohort, runs_where

    found = runs_where(lake.root, where) if where is not None else [] if cohort is None else read_cohort(cohort)
    if not found:
        raise CannotJudge(f"no run of {lake.root} is in the cohort {where or cohort}: there is nothing to ask")
    return [run.run_id for run in found]


def _bind(results: Results, lake: Lake, where: str | None, cohort: Path | None, candidate: Candidate) -> None:
    """Make the results file one of this cohort and candidate; a condition keeps the runs that it found first."""
    if where is not None and results.about("cohort") is not None:
        results.bind({"cohort": {"where": where}, "candidate": candidate.to_json()})
        return
    run_ids = _run_ids(lake, where, cohort)
    runs = hashlib.sha256(b"".join(sorted(run_ids))).hexdigest()
    results.bind(
        {"cohort": {"where": where} if where is not None else {"runs": runs}, "candidate": candidate.to_json()}
    )
    results.add_runs(run_ids)
    results.commit()


def _ask(
    results: Results, lake: Lake, lanes: dict[str, Candidate], limits: Any, env_file: Path | None, out: Path
) -> str:
    """Ask what is left to ask; return why that ended early."""
    from otel_agent_replay.cli.progress import Interrupt, ProgressLine
    from otel_agent_replay.cli.steps_plan import checked, plan_sentence, planned
    from otel_agent_replay.redaction import redaction_at
    from otel_agent_replay.replay.ask.screen import screen

    todo = planned(lake, [run_id for run_id, _ in results.runs()], lanes, limits.repeats)
    checked(todo, has_budget=limits.usd is not None)
    left = todo.questions - results.settled(tuple(lanes), limits.repeats, again=limits.again)
    if left <= 0:
        return ""
    remark(plan_sentence(todo, left))
    environment = environment_of(env_file, *lanes.values())
    enter_asking(
        lake.root,
        "steps",
        lanes,
        ["--out", str(out)],
        environment=environment,
        endpoints=_endpoints(todo),
        runs=todo.runs,
        questions=left,
    )
    line = ProgressLine(left)
    with Interrupt() as interrupt:
        try:
            return screen(
                lambda run_id: lake.load(run_id, whole=False),
                results,
                lanes,
                limits,
                environment=environment,
                redaction=redaction_at(lake.root),
                tell=line.tell,
                stopping=interrupt.asked,
            )
        finally:
            line.end()


def _endpoints(todo: Plan) -> list[str]:
    return sorted({endpoint for lane in todo.lanes.values() for endpoint in lane.endpoints})

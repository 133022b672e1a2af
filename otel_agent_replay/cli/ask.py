"""`agent-replay ask RUN --step N`: one recorded question put to a model again."""

from __future__ import annotations

from pathlib import Path

import click

from otel_agent_replay.cli.candidate_options import (
    CANDIDATE_HELP,
    candidate_of,
    candidate_options,
    enter_asking,
    environment_of,
)
from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import CANNOT_JUDGE, emit_json, remark

_EPILOG = """\b
The recorded request is put together again byte for byte and sent to the recorded model, or to a candidate. No agent
runs, no tool, no side effect. Answers are compared as actions: tools, arguments, text, refusal. Of text only the
letters are compared, and their likeness is shown: what it means is for you to read.

\b
Exit codes: 0 every answer agrees, 1 one differs, 2 usage, 125 it cannot be asked or was not answered.

\b
Examples:
  agent-replay ask 0198c2 --step 4 --repeat 10                    # was it bad luck, or is it systematic?
  agent-replay ask 0198c2 --step 4 --model gpt-5-mini --set temperature=0
  agent-replay ask 0198c2 --step 4 --candidate model=qwen3,base_url=http://127.0.0.1:8000/v1 --baseline
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.argument("run")
@click.option("--step", type=click.IntRange(min=1), required=True, metavar="N", help="The model step to ask again.")
@click.option("--model", metavar="M", help="Ask this model: short for --candidate model=M.")
@click.option("--candidate", "candidates", multiple=True, metavar="CANDIDATE", help=CANDIDATE_HELP + " Repeatable.")
@click.option("--baseline", is_flag=True, help="Ask the recorded model too, beside the candidates.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, metavar="K", help="So many times.")
@click.option("--parallel", type=click.IntRange(min=1, max=64), default=4, show_default=True, help="At once.")
@candidate_options
@json_option
def ask(
    lake: Path,
    run: str,
    step: int,
    model: str | None,
    candidates: tuple[str, ...],
    baseline: bool,
    repeat: int,
    parallel: int,
    settings: tuple[str, ...],
    env_file: Path | None,
    text_likeness: float,
    timeout: float,
    as_json: bool,
) -> int:
    """Ask the model of step N of RUN again, or another one, and compare the answers with the recorded one."""
    from otel_agent_replay.compare.screening import distinct_actions
    from otel_agent_replay.export.unsealed import load_run
    from otel_agent_replay.redaction import redaction_at
    from otel_agent_replay.replay.ask.client import Patience
    from otel_agent_replay.replay.ask.repeated import ask_repeatedly
    from otel_agent_replay.replay.ask.request import model_step
    from otel_agent_replay.report.screened import asked_actions, recorded_action

    asked = [*([f"model={model}"] if model is not None else []), *candidates] or [""]
    given = [candidate_of(text, settings) for text in asked]
    lanes = {candidate.name: candidate for candidate in given}
    if len(lanes) < len(given):
        raise click.UsageError("the same candidate is given twice")
    if baseline:
        again = given[0].recorded_again()
        lanes.setdefault(again.name, again)
    asked_step = model_step(load_run(lake, run), step)
    environment = environment_of(env_file, *lanes.values())
    questions = {name: candidate.question(asked_step, environment) for name, candidate in lanes.items()}
    enter_asking(
        lake,
        "ask",
        lanes,
        [run, "--step", str(step)],
        environment=environment,
        run_id=asked_step.run_id,
        url=asked_step.url,
    )
    came = ask_repeatedly(
        questions, repeat, parallel=parallel, patience=Patience(answer_s=timeout), redaction=redaction_at(lake)
    )
    recorded = recorded_action(asked_step)
    actions = {name: asked_actions(lanes[name], questions[name], found) for name, found in came.items()}
    groups = {name: distinct_actions(recorded, found) for name, found in actions.items()}
    if asked_step.masked:
        remark("note: redaction replaced something in the recorded request: it is asked with what stands in its place")
    lost = {name: question.lost for name, question in questions.items()}
    if as_json:
        from otel_agent_replay.report.asked import asked_document

        emit_json(asked_document(asked_step.run_id, step, recorded, groups, text_likeness=text_likeness, lost=lost))
    else:
        from otel_agent_replay.report.asked import asked_lines
        from otel_agent_replay.report.terminal import print_lines

        print_lines(asked_lines(recorded, groups, text_likeness=text_likeness, lost=lost))
    told = [group for found in groups.values() for group in found]
    if any(group.first.error for group in told):
        return CANNOT_JUDGE
    return 0 if all(group.comparison.agrees(text_likeness) for group in told) else 1

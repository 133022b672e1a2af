"""`agent-replay fork RUN --at STEP`: what if one thing had been different from there on."""

from __future__ import annotations

from pathlib import Path

import click

from otel_agent_replay.cli.going_on import going_on_options, tell
from otel_agent_replay.cli.lake_option import lake_option
from otel_agent_replay.cli.started_options import (
    allow_option,
    allow_write_option,
    env_file_option,
    isolate_option,
    limit_option,
    live_clock_option,
    one_way_in,
    text_of,
)

_EPILOG = """\b
Exact before STEP: entered at the last resumable checkpoint before it where the agent says how
(@replay.agent(enter=...)), else replayed from its beginning. From there the model is asked live with what you
change, where the recording asked; reads come from the recording where their arguments are the same, and writes never
happen: the recording's, the tool's dry run, or refused.

\b
Exit codes: 0 finished, 1 departed, stopped or the agent failed, 2 usage, 75 a person must answer, 125 it cannot begin.

\b
Examples:
  agent-replay fork 0198c2 --at 4 --set model=gpt-5-mini -- python agent.py "Where is order 17?"
  agent-replay fork 0198c2 --at 4 --set prompt=@new_prompt.txt --entry app.agents:support
  agent-replay fork 0198c2 --at 4 --tool-result 4='{"state": "delivered"}' --entry app.agents:support
"""


@click.command(context_settings={"ignore_unknown_options": True}, epilog=_EPILOG)
@lake_option
@click.option(
    "--at", "at", type=click.IntRange(min=1), required=True, metavar="STEP", help="The first step that may differ."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change model requests: model=, prompt=@FILE, temperature=0 ...",
)
@click.option(
    "--tool-result", "results", multiple=True, metavar="STEP=JSON", help="Give that step this result (or STEP=@FILE)."
)
@click.option("--message", metavar="TEXT", help="Add a user message to the conversation at that step.")
@click.option("--no-jump", is_flag=True, help="Replay from the beginning, also where a checkpoint can be entered.")
@click.option("--seed", default="fork", metavar="TEXT", help="Seed of the random draws beyond the recording.")
@live_clock_option
@isolate_option
@allow_option
@allow_write_option
@limit_option
@env_file_option
@going_on_options
def fork(
    lake: Path,
    at: int,
    settings: tuple[str, ...],
    results: tuple[str, ...],
    message: str | None,
    no_jump: bool,
    seed: str,
    live_clock: bool,
    isolate: bool,
    allow: tuple[str, ...],
    allow_write: tuple[str, ...],
    limits: tuple[str, ...],
    env_file: Path | None,
    entry: str | None,
    timeout: float | None,
    max_steps: int | None,
    as_json: bool,
    run: str,
    command: tuple[str, ...],
) -> None:
    """Fork RUN at a step: a new run, the same up to there, with one thing changed. RUN is never touched."""
    one_way_in(entry, command)
    from otel_agent_replay.export.sealer import seal
    from otel_agent_replay.export.unsealed import load_with_inner
    from otel_agent_replay.redaction import redaction_at
    from otel_agent_replay.replay.enclosed import Enclosure
    from otel_agent_replay.replay.fork import ForkPlan, model_endpoints
    from otel_agent_replay.replay.launch import entry_command
    from otel_agent_replay.replay.launch_continued import fork_command
    from otel_agent_replay.replay.limits import Limits
    from otel_agent_replay.replay.scrub import read_env_file

    plan = ForkPlan.from_arguments(
        at,
        settings=settings,
        results=results,
        message=message,
        seed=seed,
        live_clock=live_clock,
        jumps=not no_jump,
        read=text_of,
    )
    origin, *inner = load_with_inner(lake, run)
    endpoints = dict.fromkeys(endpoint for one in (origin, *inner) for endpoint in model_endpoints(one))
    enclosure = Enclosure(
        lake=lake,
        isolate=isolate,
        allow=[*allow, *(one for one in endpoints if one not in allow)],
        allow_write=allow_write,
        timeout_s=timeout,
        limits=Limits.parse(limits),
        identity={} if env_file is None else read_env_file(env_file),
        redaction=redaction_at(lake),
    )
    argv = entry_command(entry) if entry is not None else command
    report = fork_command(origin.run, argv, plan, enclosure=enclosure, max_steps=max_steps or 0)
    seal(lake)
    tell(report, as_json=as_json)

"""`agent-replay demo`: replay the recording that the package carries. No key, no server, no network."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from otel_agent_replay.cli.output import CANNOT_JUDGE
from otel_agent_replay.demo import RECORDING

_AGENT = "otel_agent_replay.demo.pocket_agent"
_EPILOG = """\b
Exit codes: 0 the demo showed both, 125 it did not.

\b
Example:
  agent-replay demo
"""


@click.command(epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print the two verdicts as JSON, nothing else.")
def demo(as_json: bool) -> None:
    """Show, replay and depart: a recorded support agent, its exact replay, and the same after a word was changed."""
    if not RECORDING.is_dir():
        raise click.ClickException(f"the recording is not in this installation ({RECORDING}); reinstall the package")
    from otel_agent_replay.lake.catalog import Lake
    from otel_agent_replay.replay.enclosed import Enclosure
    from otel_agent_replay.replay.launch import entry_command, replay_command
    from otel_agent_replay.report.run_tree import run_lines
    from otel_agent_replay.report.terminal import print_lines
    from otel_agent_replay.report.verdict_lines import verdict_lines

    with tempfile.TemporaryDirectory(prefix="agent-replay-demo-") as folder:
        lake = Path(folder) / "lake"
        shutil.copytree(RECORDING, lake)
        stored, enclosure = Lake(lake), Enclosure(lake)
        recorded = stored.load(stored.runs()[0].run.run_id)
        if not as_json:
            click.echo("A support agent was recorded: what crossed its boundary, step by step.\n")
            print_lines(run_lines(recorded))
            click.echo("\nIts code now runs again, every answer from the recording, the network shut:\n")
        same = replay_command(recorded.run, entry_command(f"{_AGENT}:answer"), enclosure=enclosure)
        if not as_json:
            print_lines(verdict_lines(same))
            click.echo("\nSomebody changed one word of the prompt. The same replay:\n")
        changed = replay_command(recorded.run, entry_command(f"{_AGENT}:answer_friendly"), enclosure=enclosure)
    if as_json:
        click.echo(f"[{same.to_json()},\n{changed.to_json()}]")
    else:
        print_lines(verdict_lines(changed))
        click.echo("\nNext: agent-replay record -- python your_agent.py")
    sys.exit(0 if same.exit_code == 0 and changed.exit_code == 1 else CANNOT_JUDGE)

"""`agent-replay`: the group of all commands, loaded one by one when asked for, and the form of every error."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from otel_agent_replay.cli.output import CANNOT_JUDGE, NOT_NOW, USAGE, complain
from otel_agent_replay.errors import AgentReplayError, ConfigurationError, RunBusy
from otel_agent_replay.version import VERSION

_INTERRUPTED = 130
_REMEDY = "see to it, then give the same command again"
_REMEDIES = {
    errno.ENOSPC: "make room on that disk, then give the same command again",
    errno.EDQUOT: "make room in that quota, then give the same command again",
    errno.EACCES: "it needs leave to read and write there, or another --lake",
    errno.EPERM: "it needs leave to read and write there, or another --lake",
    errno.EROFS: "it needs a file system that can be written, or another --lake",
}


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command lives, and its line in the list; its module is imported only when it is called."""

    module: str
    summary: str


COMMANDS: Mapping[str, LazyCommand] = {
    "record": LazyCommand("record", "Run a command with recording on."),
    "replay": LazyCommand("replay", "Run an agent's real code with every answer from a recording."),
    "resume": LazyCommand("resume", "Finish a run that died, was stopped or waits, with no side effect twice."),
    "fork": LazyCommand("fork", "Leave a run at a step with one thing changed."),
    "rerun": LazyCommand("rerun", "Run runs again on another model, prompt or version, side effects shut off."),
    "ask": LazyCommand("ask", "Put one recorded question to a model again, or to another one."),
    "steps": LazyCommand("steps", "Put every model step of many runs to a candidate, and say where it acts otherwise."),
    "component": LazyCommand("component", "Run an orchestrator on prepared answers, and check its whole event log."),
    "case": LazyCommand("case", "Keep runs as cases, and try whether they notice what they are there for."),
    "gate": LazyCommand("gate", "Try every kept case with today's code, and say whether it may ship."),
    "decide": LazyCommand("decide", "Answer an approval, or say what became of an effect in doubt."),
    "drill": LazyCommand("drill", "Kill an agent at a chosen point, and resume it."),
    "retain": LazyCommand("retain", "Delete what is older than it must be kept, and hold what must stay."),
    "runs": LazyCommand("runs", "List the runs of a lake."),
    "show": LazyCommand("show", "Show one run: its steps, one step in full, or its coverage."),
    "protocol": LazyCommand("protocol", "Reduce recorded answers from their raw bytes again, in any chunking."),
    "diff": LazyCommand("diff", "Say where two runs part, and why."),
    "brief": LazyCommand("brief", "Write one short document on a run or a report, for a person or a coding agent."),
    "sample": LazyCommand("sample", "Draw a cohort of runs, stratum by stratum, that says how it was drawn."),
    "compare": LazyCommand("compare", "Say whether one cohort of runs does anything else than another, beyond noise."),
    "sql": LazyCommand("sql", "Query a lake with SQL."),
    "verify": LazyCommand("verify", "Recompute every digest of a run."),
    "calibrate": LazyCommand("calibrate", "Find what an agent does not do twice alike, and the rules to replay it."),
    "audit": LazyCommand("audit", "List who went back to which run, and check that log."),
    "import": LazyCommand("import_", "Take other people's traces into the lake as runs."),
    "export": LazyCommand("export", "Send runs as OTLP to an endpoint, or write them into a file, nothing lost."),
    "collector": LazyCommand("collector", "Receive OTLP from any service, and keep it as runs."),
    "seal": LazyCommand("seal", "Move closed journal segments into the lake."),
    "compact": LazyCommand("compact", "Merge the lake's small files, while it is in use."),
    "stats": LazyCommand("stats", "Show what the lake takes, and what of it is shared."),
    "upgrade": LazyCommand("upgrade", "Bring a lake of an older format to the current one."),
    "demo": LazyCommand("demo", "Replay the recording that comes with the package."),
    "doctor": LazyCommand("doctor", "Show settings, lake health and what of this installation is covered."),
}


class CommandGroup(click.Group):
    """Loads commands lazily and writes every error as `error[code]: what; what next`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command; None when there is none of that name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        found: click.Command = getattr(import_module(f"otel_agent_replay.cli.{entry.module}"), entry.module)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run; in standalone mode end the process with the command's exit code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            result = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            sys.exit(_INTERRUPTED)
        except click.ClickException as error:
            sys.exit(_report(error))
        except AgentReplayError as error:
            complain(error.code, str(error))
            sys.exit(_exit_code(error))
        except BrokenPipeError:
            # The reader of our output went away (`| head`): nobody is left to tell, and the flush at exit must not.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except OSError as error:
            complain("system", _refused_by_system(error))
            sys.exit(CANNOT_JUDGE)
        sys.exit(result if isinstance(result, int) else 0)


def _exit_code(error: AgentReplayError) -> int:
    if isinstance(error, ConfigurationError):
        return USAGE
    return NOT_NOW if isinstance(error, RunBusy) else CANNOT_JUDGE


def _refused_by_system(error: OSError) -> str:
    """Say what the operating system refused, where, and what helps."""
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror or error}; {_REMEDIES.get(error.errno or 0, _REMEDY)}"


def _report(error: click.ClickException) -> int:
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx is not None else "agent-replay"
        complain("usage", f"{error.format_message().rstrip('.')}; `{command} --help` shows how")
        return USAGE
    complain("error", error.format_message())
    return error.exit_code


def _version(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(f"agent-replay {VERSION}")
        context.exit(0)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
RUN is a run id, a trace id from any backend, or a unique beginning of one.
Exit codes: 0 same, 1 departed or different, 2 usage, 125 cannot judge.

\b
Example:
  agent-replay runs
  agent-replay show 0198c2
""",
)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def main() -> None:
    """Record, replay, compare and query runs of AI agents."""

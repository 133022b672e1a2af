"""`--judge PKG.MOD:FUNC`: a function of the user's that says whether two final answers mean the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from otel_agent_replay.errors import CannotJudge, ConfigurationError

if TYPE_CHECKING:
    from otel_agent_replay.compare.judged import NamedJudge

_Command = TypeVar("_Command", bound=Callable[..., Any])


def judge_option(command: _Command) -> _Command:
    """Add `--judge` to a command."""
    return click.option(
        "--judge",
        metavar="PKG.MOD:FUNC",
        help="Ask this function (before, after) whether two final answers mean the same: None, or what differs. "
        "Its word is told as a judge's and changes no verdict.",
    )(command)


def load_judge(name: str) -> NamedJudge:
    """Return the judge that `pkg.mod:func` names, looked for from the current folder too.

    Raises ConfigurationError where there is none.
    """
    from otel_agent_replay.compare.judged import NamedJudge
    from otel_agent_replay.replay.entry import load_entry

    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return NamedJudge(name, load_entry(name))
    except CannotJudge as error:
        raise ConfigurationError(f"--judge {error}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"--judge {str(error).removeprefix('entry ')}") from error

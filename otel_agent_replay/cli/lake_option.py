"""The options that commands share: which lake, how talkative, JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from otel_agent_replay.settings import Settings

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _effective(_context: click.Context, _parameter: click.Parameter, given: Path | None) -> Path:
    return Settings.load({"lake": given}).lake


def lake_option(command: _Command) -> _Command:
    """Add `--lake DIR`; the command gets `lake`, resolved as every setting is: argument, environment, file."""
    return click.option(
        "--lake",
        type=click.Path(file_okay=False, path_type=Path),
        callback=_effective,
        metavar="DIR",
        help="Folder of the lake.  [env AGENT_REPLAY_LAKE; default .agent-replay]",
    )(command)


def verbose_option(command: _Command) -> _Command:
    """Add `-v`; the command gets `verbose`."""
    return click.option("-v", "--verbose", is_flag=True, help="Say what was sealed first.")(command)


def json_option(command: _Command) -> _Command:
    """Add `--json`; the command gets `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)

"""The options of commands that start an agent: what is started, and the walls around it, checked before it starts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def named_function(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    """Be the callback of an option that names a function of the user's."""
    if given is not None and not _FUNCTION.fullmatch(given):
        raise click.BadParameter(f"{given!r} is not like pkg.mod:func")
    return given


def _endpoints(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    if given:
        from otel_agent_replay.errors import ConfigurationError
        from otel_agent_replay.replay.endpoints import Endpoints

        try:
            Endpoints.resolve(given)
        except ConfigurationError as error:
            raise click.BadParameter(str(error)) from error
    return given


allow_option = click.option(
    "--allow",
    multiple=True,
    callback=_endpoints,
    metavar="HOST:PORT",
    help="An endpoint that it may reach; repeatable.",
)
allow_write_option = click.option(
    "--allow-write", multiple=True, type=click.Path(exists=True), metavar="DIR", help="A folder it may write files in."
)
entry_option = click.option(
    "--entry",
    callback=named_function,
    metavar="PKG.MOD:FUNC",
    help="Call this with the recorded input, instead of a command.",
)
env_file_option = click.option(
    "--env-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Variables (KEY=VALUE lines) of its own identity, a model key for one; never stored.",
)
isolate_option = click.option(
    "--isolate", is_flag=True, help="Put a kernel fence around it (Linux), beside the one in process."
)
limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N",
    help="Bound what it may use: cpu=SECONDS, memory=MIB or files=NUMBER; repeatable.",
)
live_clock_option = click.option(
    "--live-clock", is_flag=True, help="Clocks show today: for agents that sign requests or tokens with the time."
)
timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Kill it after this long."
)
volatile_option = click.option(
    "--volatile", multiple=True, metavar="PATH", help="A JSON path of requests that is not compared; repeatable."
)


def options(*added: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Return what adds options to a command, shown in this order."""

    def add(command: _Command) -> _Command:
        for option in reversed(added):
            command = option(command)
        return command

    return add


def one_way_in(entry: str | None, command: tuple[str, ...], *, which: str = "the recorded command") -> None:
    """Raise a usage error unless exactly one of entry and command is given."""
    if (entry is None) == (not command):
        raise click.UsageError(f"say what to run: either --entry PKG.MOD:FUNC or, after `--`, {which}")


def text_of(path: str) -> str:
    """Return the text of a file that a value names (`@FILE`). Raises a usage error."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {path!r}: {error}") from error

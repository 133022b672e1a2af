"""The options of commands that put recorded requests to a model: what is changed, whose key, how texts compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from otel_agent_replay.cli.started_options import text_of

if TYPE_CHECKING:
    from otel_agent_replay.replay.ask.candidate import Candidate

_Command = TypeVar("_Command", bound=Callable[..., Any])

CANDIDATE_HELP = (
    "What is asked: model=NEW, and base_url=URL (where it went), key_env=VARIABLE, api=PROTOCOL, "
    "price=IN/OUT (US dollars a million tokens), comma separated."
)


def candidate_options(command: _Command) -> _Command:
    """Add `--set`, `--env-file`, `--text-likeness` and `--timeout`."""
    for option in (
        click.option("--timeout", type=click.FloatRange(min=1), default=600, show_default=True, metavar="SECONDS",
                     help="Longest wait for one answer."),
        click.option("--text-likeness", type=click.FloatRange(0, 1), default=0.0, show_default=True, metavar="0..1",
                     help="How alike the letters of two texts must be to agree; 0: that both are text is enough."),
        click.option("--env-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
                     help="Variables (KEY=VALUE lines) with the key; they count before the environment."),
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
                     help="Change the request: prompt=@FILE, temperature=0, tools=@FILE ..."),
    ):  # fmt: skip
        command = option(command)
    return command


def candidate_of(text: str, settings: tuple[str, ...]) -> Candidate:
    """Return the candidate of a `--candidate` text and of edits."""
    from otel_agent_replay.replay.ask.candidate import Candidate

    return Candidate.from_arguments(text, settings, read=text_of)


def environment_of(env_file: Path | None, *candidates: Candidate) -> dict[str, str]:
    """Return the variables that may hold a key: those of the file, then those of the environment."""
    from otel_agent_replay.replay.ask.keys import variables as key_variables
    from otel_agent_replay.replay.scrub import read_env_file
    from otel_agent_replay.settings import variables

    names = {name for candidate in candidates for name in key_variables(candidate.key_variable)}
    return {**variables(names), **(read_env_file(env_file) if env_file is not None else {})}


def enter_asking(
    lake: Path,
    action: str,
    candidates: Mapping[str, Candidate],
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    run_id: bytes = b"",
    url: str = "",
    endpoints: Sequence[str] = (),
    **more: Any,
) -> None:
    """Enter in the audit log that recorded requests are about to be sent: where, with which keys, and what changed.

    `url` is where they went when they were recorded, `endpoints` (`host:port`) are others that they go to. Of
    `environment` the names of the variables that may hold a key are entered, never their values.
    """
    from otel_agent_replay.redaction import redaction_at
    from otel_agent_replay.replay.ask.destination import shown_endpoint
    from otel_agent_replay.replay.ask.keys import variables as key_variables
    from otel_agent_replay.replay.audit import enter

    told = {shown_endpoint(candidate.base_url or url) for candidate in candidates.values() if candidate.base_url or url}
    keys = {name for candidate in candidates.values() for name in key_variables(candidate.key_variable)}
    enter(
        lake,
        action,
        run_id=run_id,
        mode=action,
        command=["agent-replay", action, *arguments],
        allowed={"endpoints": sorted(told | set(endpoints)), "identity": sorted(keys & environment.keys())},
        redaction=redaction_at(lake),
        candidates=[candidate.name for candidate in candidates.values()],
        **more,
    )

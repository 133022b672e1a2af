"""`agent-replay collector`: receive OTLP from any service, and seal it into the lake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_EPILOG = """\b
Every option is also AGENT_REPLAY_COLLECTOR_<OPTION> in the environment, and a key of the --config file (TOML).
Tokens and the key of hashes are read from there only, never from the command line.

\b
Exit codes: 0 ended when told to, 2 an option does not work.

\b
Example:
  agent-replay collector --lake ./lake
  agent-replay collector --config collector.toml --http 0.0.0.0:4318 --token-file tokens
"""
_NOT_ON_THE_LINE = ("token", "hash_key")

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _options(command: _Command) -> _Command:
    from otel_agent_replay_collector.options import CollectorOptions

    for name, (_, meaning, default) in reversed(CollectorOptions.options().items()):
        if name not in _NOT_ON_THE_LINE:
            shown = _shown(default)
            told = f"{meaning[0].upper()}{meaning[1:]}." + (f"  [default: {shown}]" if shown else "")
            command = click.option("--" + name.replace("_", "-"), name, metavar="VALUE", help=told)(command)
    return command


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, tuple):
        return ",".join(default)
    return "" if default is None else f"{default:g}" if isinstance(default, float) else str(default)


@click.command(epilog=_EPILOG)
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="TOML file of options.")
@click.option("--json", "as_json", is_flag=True, help="Say in JSON where it listens.")
@_options
def collector(config: Path | None, as_json: bool, **given: Any) -> int:
    """Receive OTLP over gRPC and HTTP, and keep it as runs.

    What is acknowledged is on disk. Another process seals it into the lake, so that a sender never waits for that until
    max-waiting-mb are on disk; then it is told to wait, as the protocol has it. Ends on SIGTERM or SIGINT.
    """
    from otel_agent_replay_collector.main import serve
    from otel_agent_replay_collector.options import CollectorOptions

    return serve(CollectorOptions.load(given, file=config), given, config, as_json=as_json)

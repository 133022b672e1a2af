"""What a trial starts, behind which walls, and the run that came of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from otel_agent_replay.errors import AgentReplayError, ConfigurationError
from otel_agent_replay.lake.catalog import Lake, StoredRun
from otel_agent_replay.redaction import redaction_at
from otel_agent_replay.replay.enclosed import Enclosure
from otel_agent_replay.replay.launch import entry_command
from otel_agent_replay.trials.options import TrialOptions
from otel_agent_replay.trials.subject import Subject


def argv_of(subject: Subject, options: TrialOptions) -> list[str]:
    """Return the command that is started. Raises ConfigurationError where nobody says what to run."""
    if options.command:
        return list(options.command)
    entry = options.entry or subject.case.entry
    if not entry:
        raise ConfigurationError(
            f"nobody says what to run for case {subject.case.name!r}: give --entry PKG.MOD:FUNC or, after `--`, a "
            f"command; or write `entry:` into its case.yaml"
        )
    return entry_command(entry)


def enclosure_of(
    subject: Subject, options: TrialOptions, output: Path, *, endpoints: Iterable[str] = (), into: Path | None = None
) -> Enclosure:
    """Return the walls of a trial; it may ask models live at `endpoints`, and records into `into`, or its own lake."""
    return Enclosure(
        lake=subject.lake,
        into=into,
        isolate=options.isolate,
        allow=list(dict.fromkeys([*options.allow, *endpoints])),
        allow_write=options.allow_write,
        timeout_s=options.timeout_s,
        limits=options.limits,
        identity=options.identity,
        environment=options.environment,
        redaction=redaction_at(subject.lake),
        output=output,
    )


def loaded(lake: Path, run: str) -> StoredRun | None:
    """Return a run of a lake by its id in hexadecimal; None where there is none or it cannot be read."""
    try:
        return Lake(lake).load(bytes.fromhex(run)) if run else None
    except AgentReplayError:
        return None

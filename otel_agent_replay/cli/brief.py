"""`agent-replay brief RUN|REPORT.json`: one document of a stated size, for a person or a coding agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import emit_json
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.errors import ConfigurationError, RunNotFound
from otel_agent_replay.report.brief import DEFAULT_CHARS, FEWEST_CHARS, Section, brief_text

if TYPE_CHECKING:
    from otel_agent_replay.lake.catalog import Lake
    from otel_agent_replay.model import RecordedRun

_EPILOG = """\b
Reports: what diff, replay, gate, steps, rerun and verify --replay print with --json. `-` is standard input.
Exit codes: 0 written, 2 usage or no such report, 125 the run cannot be read.

\b
Examples:
  agent-replay brief 0198c2
  agent-replay brief report.json --max-chars 8000
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option(
    "--max-chars",
    type=click.IntRange(min=FEWEST_CHARS),
    default=DEFAULT_CHARS,
    show_default=True,
    metavar="N",
    help="Most characters of the document; the default is about 8,000 tokens.",
)
@json_option
@click.argument("subject", metavar="RUN|REPORT.json")
def brief(lake: Path, max_chars: int, as_json: bool, subject: str) -> int:
    """Say what failed, where it departs, why, the two values, and how to reproduce it, in one Markdown document.

    A run that repeats or leaves another one is compared with that one. What was recorded is quoted in fences, redacted
    and shortened: data, never instructions.
    """
    from otel_agent_replay.redaction import redaction_at

    what, sections = _report(subject) if subject == "-" or Path(subject).is_file() else _run(lake, subject)
    redaction = redaction_at(lake)
    text = brief_text(what, sections, redaction=redaction, max_chars=max_chars)
    if as_json:
        emit_json({"schema": "agent-replay/brief", "schema_version": 1, "of": what, "chars": len(text), "text": text})
    else:
        click.echo(text, nl=False)
    return 0


def _report(subject: str) -> tuple[str, list[Section]]:
    from otel_agent_replay.report.brief_reports import sections_of

    try:
        with click.open_file(subject, encoding="utf-8") as file:
            found: Any = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{subject} is no JSON report: {error}") from error
    return sections_of(found)


def _run(lake: Path, subject: str) -> tuple[str, list[Section]]:
    from otel_agent_replay.report.brief_run import run_sections

    stored = open_lake(lake)
    recorded = stored.load(stored.find(subject))
    return "a run", run_sections(recorded, _origin(stored, recorded))


def _origin(stored: Lake, recorded: RecordedRun) -> RecordedRun | None:
    if not recorded.run.origin_run_id:
        return None
    try:
        return stored.load(recorded.run.origin_run_id)
    except RunNotFound:
        return None

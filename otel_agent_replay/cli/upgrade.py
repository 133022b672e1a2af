"""`agent-replay upgrade`: a lake of an older format into the current one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from otel_agent_replay.casefile.document import CASE_FILE
from otel_agent_replay.cli.counting import Counting
from otel_agent_replay.cli.lake_option import json_option, lake_option
from otel_agent_replay.cli.output import emit_json, remark
from otel_agent_replay.cli.reading import tell_absent
from otel_agent_replay.report.amounts import counted

_EPILOG = """\b
Each file is replaced by one of the current format, whole or not at all, so it may be stopped and begun again. A file
that needs a newer version of this package, or has columns that this one does not know, is named and left as it is.

\b
Exit codes: 0 all files have the current format, 1 some have not, 2 usage, 125 it could not be done.

\b
Example:
  agent-replay upgrade --dry-run
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--dry-run", is_flag=True, help="Only say what would be upgraded.")
@json_option
def upgrade(lake: Path, dry_run: bool, as_json: bool) -> int:
    """Bring every file of the lake to the format that this version writes."""
    from otel_agent_replay.lake.schema import FORMAT_VERSION
    from otel_agent_replay.lake.upgrade import upgrade as upgrade_lake

    tell_absent(lake)
    with Counting("files looked at") as progress:
        report = upgrade_lake(lake, dry_run=dry_run, progress=progress)
    if as_json:
        told = {**asdict(report), "unknown_quirks": sorted(report.unknown_quirks)}
        emit_json({"schema": "agent-replay/upgrade", "schema_version": 1, "format_version": FORMAT_VERSION, **told})
    else:
        for one in report.left:
            remark(f"left as it is: {one.why}")
        for quirk in sorted(report.unknown_quirks):
            remark(f"recordings with {quirk!r} can be looked at, not replayed, by this version")
        verb = "would be" if dry_run else "were"
        click.echo(f"{report.upgraded} of {counted(report.files, 'file')} {verb} upgraded to format {FORMAT_VERSION}")
    folder = lake.absolute().parent
    if report.upgraded and not dry_run and (folder / CASE_FILE).is_file():
        remark(f"the files of case {folder.name} are others now: seal it again, `agent-replay case seal {folder}`")
    return 1 if report.left else 0

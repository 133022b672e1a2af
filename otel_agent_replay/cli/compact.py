"""`agent-replay compact`: many small files of the lake into few, while it is in use."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_agent_replay.cli.counting import Counting
from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit_json, remark
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.cli.sealed_case import refuse_case_lake
from otel_agent_replay.report.amounts import counted

if TYPE_CHECKING:
    from otel_agent_replay.lake.compaction import CompactionReport

_EPILOG = """\b
What sealers wrote as many small files of an hour becomes few, in order of run; what several runs share (prompts, tool
schemas, states) is then stored once for all of them. Readers see every run once all the while, and sealers may write.
Killed at any moment, the lake is as it was or as it should become; the next compaction tidies up. It needs as much
free space as the files of one hour take.

\b
Exit codes: 0 done, 1 some file was left as it is (said why), 2 usage, 125 it could not be done.

\b
Example:
  agent-replay compact --dry-run
  agent-replay compact --json
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--dry-run", is_flag=True, help="Only say what would be merged.")
@click.option(
    "--grace",
    "grace_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds that replaced files stay for readers that began before.",
)
@verbose_option
@json_option
def compact(lake: Path, dry_run: bool, grace_s: float, verbose: bool, as_json: bool) -> int:
    """Merge the small files of each hour, and store once what its runs share."""
    from otel_agent_replay.lake.compaction import compact as compact_lake

    refuse_case_lake(lake, "compacted")
    if not dry_run:
        open_lake(lake, verbose=verbose)
    with Counting("files merged") as progress:
        report = compact_lake(lake, dry_run=dry_run, grace_s=grace_s, progress=progress)
    _tell(report, as_json=as_json)
    return 1 if report.skipped else 0


def _tell(report: CompactionReport, *, as_json: bool) -> None:
    if as_json:
        emit_json({"schema": "agent-replay/compact", "schema_version": 1, **asdict(report)})
        return
    for one in report.skipped:
        remark(f"left as it is: {one.why}")
    if report.split_traces:
        remark(f"{report.split_traces} runs are a part of their trace each, begun more than a day from the others")
    verb = "would become" if report.dry_run else "became"
    size = "" if report.bytes_after is None else f", {report.bytes_after:,} bytes instead of {report.bytes_before:,}"
    hours = f"{report.partitions} hour{'s' if report.partitions != 1 else ''}"
    click.echo(
        f"{counted(report.merged, 'file')} of {hours} {verb} {report.made}: "
        f"{counted(report.files_after, 'file')} in all instead of {report.files_before}{size}"
    )

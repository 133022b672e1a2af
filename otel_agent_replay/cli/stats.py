"""`agent-replay stats`: what the lake takes, what of it is shared, and whether it should be compacted."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.counting import Counting
from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import emit_json, remark, table
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.report.amounts import counted

if TYPE_CHECKING:
    from otel_agent_replay.lake.stats import LakeStats

_COLUMNS = 12
_EPILOG = """\b
Bytes of columns are compressed, as they lie on disk; bytes of payloads are before compression. A dedup ratio of 20 says
that of twenty bytes which models and tools were given or gave, one is stored. A file of spans is small when it is less
than half full: compaction merges those of an hour.

\b
Exit codes: 0 told, 1 some file cannot be read, 2 usage.

\b
Example:
  agent-replay stats --json
"""


@click.command(epilog=_EPILOG)
@lake_option
@click.option("--all", "everything", is_flag=True, help=f"Every column and hour, not the {_COLUMNS} largest.")
@verbose_option
@json_option
def stats(lake: Path, everything: bool, verbose: bool, as_json: bool) -> int:
    """Show rows, bytes by column and by kind of payload, how much is shared, and the files of each hour."""
    from otel_agent_replay.lake.stats import stats_of

    open_lake(lake, verbose=verbose)
    with Counting("hours read") as progress:
        found = stats_of(lake, progress=progress)
    if as_json:
        emit_json({"schema": "agent-replay/stats", "schema_version": 1, **_document(found)})
    else:
        _tell(found, None if everything else _COLUMNS)
    return 1 if found.unreadable else 0


def _document(found: LakeStats) -> dict[str, Any]:
    return {
        "runs": found.runs,
        "tables": {
            name: {
                "files": one.files,
                "rows": one.rows,
                "bytes": one.size,
                "footer_bytes": one.footers,
                "columns": dict(one.columns.most_common()),
            }
            for name, one in found.tables.items()
        },
        "payload_kinds": {kind: {"rows": rows, "bytes": size} for kind, (rows, size) in _by_size(found)},
        "given_bytes": dict(found.given.most_common()),
        "stored_bytes": found.stored,
        "dedup_ratio": found.dedup_ratio,
        "partitions": [asdict(one) for one in found.partitions],
        "small_file_share": found.small_share,
        "mergeable_files": found.mergeable,
        "merged_into": found.merged_into,
        "unreadable": [asdict(one) for one in found.unreadable],
        "advice": found.advice,
    }


def _by_size(found: LakeStats) -> list[tuple[str, tuple[int, int]]]:
    return sorted(found.kinds.items(), key=lambda item: (-item[1][1], item[0]))


def _tell(found: LakeStats, most: int | None) -> None:
    tables = [
        {"table": name, "files": one.files, "rows": one.rows, "bytes": one.size} for name, one in found.tables.items()
    ]
    _print(counted(found.runs, "run"), tables)
    sizes: Counter[str] = Counter()
    for name, one in found.tables.items():
        sizes.update({f"{name}.{column}": size for column, size in one.columns.items()})
        sizes[f"{name}: footers"] = one.footers
    columns = [{"column": column, "bytes": size} for column, size in sizes.most_common(most) if size]
    _print("bytes by column, compressed", columns)
    kinds = [{"kind": kind, "rows": rows, "bytes": size} for kind, (rows, size) in _by_size(found)]
    _print("payloads stored, by role of a piece", kinds)
    given = [{"of": kind, "bytes": size} for kind, size in found.given.most_common()]
    ratio = "" if found.dedup_ratio is None else f": {found.dedup_ratio:.1f} bytes for each that is stored"
    _print(f"payloads given{ratio}", given)
    hours = sorted(found.partitions, key=lambda one: -one.files)[:most]
    _print(f"files of spans by hour, {found.small_share:.0%} of them small", [asdict(one) for one in hours])
    for unreadable in found.unreadable:
        remark(f"cannot be read: {unreadable.why}")
    for advice in found.advice:
        click.echo(f"advice: {advice}")


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        click.echo(title)
        for text in table(rows):
            click.echo(f"  {text}")
        click.echo()

"""Rows of a spans file -> the attempts at runs that they tell of. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake.columns import Columns
from otel_agent_replay.lake.run_rows import RowsLater
from otel_agent_replay.lake.span_table import SpansLater, load_spans
from otel_agent_replay.model import CoverageEntry, RecordedSpan

ROOT_COLUMNS = ["run_id", "attempt", "trace_id", "span_id", "agent", "run"]
"""What `run_row.load_run` reads of a root row."""


@dataclass(frozen=True, slots=True)
class AttemptRows:
    """One attempt: its root row, its spans in order, the number of each payload in the pack beside by digest, and the
    short check of each node by span id. `coverage` is that of its run where the root row does not tell.
    """

    root: Mapping[str, Any]
    coverage: Sequence[CoverageEntry] | None
    spans: tuple[RecordedSpan, ...]
    numbers: Mapping[bytes, int]
    checks: Mapping[bytes, bytes]


def attempts_in(table: pa.Table, path: Path, later: RowsLater | None = None) -> dict[tuple[bytes, int], AttemptRows]:
    """Return the attempts whose rows `table` has, by run id and number; `path` is the file that the rows lie in.

    `later` has the columns that attributes and coverage are made of, where `table` does not.
    Raises DamagedRecording where the root of one is missing.
    """
    columns = Columns(table)
    of_attempt: dict[tuple[bytes, int], list[int]] = {}
    keys = list(zip(columns.values("run_id"), columns.filled("attempt", 1), strict=True))
    positions = columns.values("position")
    for row in sorted(range(len(table)), key=positions.__getitem__):
        of_attempt.setdefault(keys[row], []).append(row)
    roots = _roots(columns)
    left = None if later is None else SpansLater(table, later)
    spans = load_spans(table, columns, left)
    named = _Named(columns)
    found = {}
    for key, rows in of_attempt.items():
        row, root = roots.get(key, (0, None))
        if root is None or root["run"] is None:
            raise DamagedRecording(f"{path} holds spans of run {key[0].hex()} but not its root")
        coverage = None if left is None else left.coverage(row)
        members = tuple([spans[row] for row in rows])
        found[key] = AttemptRows(root, coverage, members, named.numbers(rows), named.checks(rows))
    return found


def _roots(columns: Columns) -> dict[tuple[bytes, int], tuple[int, Mapping[str, Any]]]:
    """Return the place and what is told of each root."""
    positions = columns.values("position")
    rows = [row for row, is_root in enumerate(columns.values("root")) if is_root]
    rows.sort(key=positions.__getitem__, reverse=True)  # of several the first counts
    nothing = dict.fromkeys(ROOT_COLUMNS)
    stored = [(name, column) for name in ROOT_COLUMNS if (column := columns.array(name)) is not None]
    roots: list[dict[str, Any]] = [
        {**nothing, **{name: column[row].as_py() for name, column in stored}} for row in rows
    ]
    return {(root["run_id"], root["attempt"] or 1): (row, root) for row, root in zip(rows, roots, strict=True)}


class _Named:
    """What rows say by a digest or a span id."""

    def __init__(self, columns: Columns) -> None:
        self._payloads = [
            (columns.values(f"{side}_digest"), columns.values(f"{side}_payload")) for side in ("request", "result")
        ]
        self._span_ids, self._checks = columns.values("span_id"), columns.values("entry_check")

    def numbers(self, rows: list[int]) -> dict[bytes, int]:
        """Return the numbers of the payloads that rows name, by digest."""
        return {
            digests[row]: numbers[row]
            for digests, numbers in self._payloads
            for row in rows
            if numbers[row] is not None
        }

    def checks(self, rows: list[int]) -> dict[bytes, bytes]:
        """Return the checks of the nodes of rows, by span id."""
        return {self._span_ids[row]: self._checks[row] for row in rows if self._checks[row] is not None}

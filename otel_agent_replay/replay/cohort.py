"""Cohorts: a sample of runs, as a condition over the lake or as a file that names them.

A cohort file is JSON lines, one run a line: `{"run": "<32 hexadecimal digits>"}`. Whoever writes one may say more of a
run in further members (why it is in, where it parted, `weight`: how many runs it stands for); readers keep what they do
not know for people. Its first line may say how it was drawn: `{"cohort": {...}}`. Blank lines are nothing. Owns that
format, and what `--where` means; a cohort is run ids only, never loaded runs.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import format_run_id

_HEX_DIGITS = 32


@dataclass(frozen=True, slots=True)
class CohortRun:
    """A run of a cohort; `notes` are what its line says beside the id, plain JSON."""

    run_id: bytes
    notes: Mapping[str, Any] = field(default_factory=dict)


def read_cohort(path: Path) -> list[CohortRun]:
    """Return the runs of a cohort file in its order, each once. Raises ConfigurationError, naming the line.

    A file without any run is a cohort of none. Whether the runs are in a lake is not looked at.
    """
    found: dict[bytes, CohortRun] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not (number == 1 and _drawn_of(line) is not None):
                    run = _run_of(line, f"line {number} of {path}")
                    found.setdefault(run.run_id, run)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the cohort file {path} cannot be read: {error}") from error
    return list(found.values())


def how_drawn(path: Path) -> Mapping[str, Any]:
    """Return what the first line of a cohort file says of how it was drawn; empty where it says nothing.

    Raises ConfigurationError where the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return _drawn_of(file.readline()) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the cohort file {path} cannot be read: {error}") from error


class CohortWriter:
    """Writes a cohort file one run at a time; it stands there whole when the `with` block ends well, or not at all.

    `drawn` says how the cohort was drawn, plain JSON. Raises ConfigurationError where it cannot be written.
    """

    def __init__(self, path: Path, drawn: Mapping[str, Any] | None = None) -> None:
        self._path = path
        try:
            handle, self._name = tempfile.mkstemp(dir=path.parent, prefix=".cohort-")
        except OSError as error:
            raise ConfigurationError(f"the cohort file {path} cannot be written: {error}") from error
        self._file = os.fdopen(handle, "w", encoding="utf-8")
        if drawn:
            self._file.write(_header(drawn) + "\n")

    def add(self, run: CohortRun) -> None:
        """Write one run."""
        self._file.write(_line(run) + "\n")

    def __enter__(self) -> CohortWriter:  # noqa: PYI034 - typing.Self needs 3.11
        return self

    def __exit__(self, kind: type[BaseException] | None, *what: object) -> None:
        with self._file:
            pass
        if kind is None:
            Path(self._name).replace(self._path)
        else:
            Path(self._name).unlink()


def cohort_lines(runs: Iterable[CohortRun], drawn: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield the lines of a cohort file."""
    if drawn:
        yield _header(drawn)
    yield from map(_line, runs)


def write_cohort(path: Path, runs: Iterable[CohortRun], *, drawn: Mapping[str, Any] | None = None) -> None:
    """Write a cohort file, whole or not at all. Raises ConfigurationError where it cannot be written."""
    with CohortWriter(path, drawn) as file:
        for run in runs:
            file.add(run)


def runs_where(lake: Path, condition: str) -> list[CohortRun]:
    """Return the runs of a lake for which `condition` holds, oldest first. Loads DuckDB.

    `condition` is SQL over the view `runs`, as it would stand behind WHERE; the other views are there for sub-queries:
    `agent = 'support' AND run_id IN (SELECT run_id FROM tool_calls WHERE outcome = 'error')`. Raises
    ConfigurationError for SQL that is wrong.
    """
    from otel_agent_replay.lake.conditions import rows_of_condition

    query = f"SELECT run_id FROM runs WHERE run_id IS NOT NULL AND (\n{condition}\n) ORDER BY run_id"  # noqa: S608 - theirs
    return [CohortRun(bytes.fromhex(row[0])) for row in rows_of_condition(lake, query, f"--where {condition!r}")]


def _header(drawn: Mapping[str, Any]) -> str:
    return json.dumps({"cohort": dict(drawn)})


def _line(run: CohortRun) -> str:
    return json.dumps({"run": format_run_id(run.run_id), **run.notes})


def _drawn_of(line: str) -> Mapping[str, Any] | None:
    """Return what a first line says of the whole cohort; None for any other line."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    found = value.get("cohort") if isinstance(value, dict) and "run" not in value else None
    return found if isinstance(found, dict) else None


def _run_of(line: str, where: str) -> CohortRun:
    wanted = '{"run": "<32 hexadecimal digits>"}'
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    text = value.get("run") if isinstance(value, dict) else None
    try:
        run_id = bytes.fromhex(text) if isinstance(text, str) and len(text) == _HEX_DIGITS else None
    except ValueError:
        run_id = None
    if run_id is None or not isinstance(value, dict):
        raise ConfigurationError(f"{where} is no run of a cohort: {line.strip()[:80]!r}; a line is {wanted}")
    return CohortRun(run_id, {name: one for name, one in value.items() if name != "run"})

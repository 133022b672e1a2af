"""`agent-replay sql`: the lake's views in DuckDB, from an argument, from standard input, or as a shell."""

from __future__ import annotations

import contextlib
import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_agent_replay.cli.lake_option import json_option, lake_option, verbose_option
from otel_agent_replay.cli.output import USAGE, complain, emit_json, on_terminal, table
from otel_agent_replay.cli.reading import open_lake, tell_passed_over
from otel_agent_replay.errors import DamagedRecording

if TYPE_CHECKING:
    import duckdb

_EPILOG = """\b
Views: runs lineage spans steps model_calls messages tool_calls retrievals decisions approvals
checkpoints clock_reads random_draws payloads effects losses labels replayability

\b
A torn file is left out and named on standard error: what it held is in no answer then.

\b
Exit codes: 0 answered (also with no rows), 1 answered but for torn files, 2 usage or a query that is wrong, 125 the
lake cannot be read.

\b
Example:
  agent-replay sql "SELECT request_model, sum(cost_usd) FROM model_calls GROUP BY ALL"
  agent-replay sql --csv < report.sql > report.csv
"""

_Printer = Callable[[list[str], list[tuple[Any, ...]]], None]


@click.command(epilog=_EPILOG)
@lake_option
@click.argument("query", required=False)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print comma separated values with a head.")
@verbose_option
def sql(lake: Path, query: str | None, as_json: bool, as_csv: bool, verbose: bool) -> int:
    """Run QUERY over the lake. Without one: a shell on a terminal, else the query is read from standard input."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms; give one of them")
    open_lake(lake, verbose=verbose)
    printer = _print_json if as_json else _print_csv if as_csv else _print_table
    with contextlib.closing(_Readable(lake)) as readable:
        if query is None and on_terminal():
            return _shell(readable, printer)
        return _run(readable, query if query is not None else sys.stdin.read(), printer)


class _Readable:
    """The views over what can be read of a lake: files that are torn are left out once a query meets one."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.left_out: dict[Path, str] = {}
        self._connection: duckdb.DuckDBPyConnection | None = None

    def execute(self, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns and rows of a query. Raises duckdb.Error, DamagedRecording."""
        import duckdb

        try:
            return self._execute(query)
        except (duckdb.IOException, duckdb.InvalidInputException, DamagedRecording):
            from otel_agent_replay.lake.layout import SPANS, all_files
            from otel_agent_replay.lake.passed_over import unreadable_files

            torn = unreadable_files(self._lake).files
            if torn.keys() <= self.left_out.keys() or all(one.path in torn for one in all_files(self._lake, SPANS)):
                raise
            self.left_out.update(torn)
            self.close()
        return self._execute(query)

    def _execute(self, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        from otel_agent_replay.lake.views import connect

        if self._connection is None:
            self._connection = connect(self._lake, without=self.left_out)
        cursor = self._connection.execute(query)
        columns = [column[0] for column in cursor.description or ()]
        return columns, cursor.fetchall() if columns else []

    def close(self) -> None:
        """Close the connection; the next query opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _run(readable: _Readable, query: str, printer: _Printer) -> int:
    import duckdb

    if not query.strip():
        raise click.UsageError("no query was given")
    try:
        columns, rows = readable.execute(query)
    except duckdb.Error as error:
        complain("sql", f"{error}\n`agent-replay sql --help` lists the views")
        return USAGE
    printer(columns, rows)
    return tell_passed_over(readable.left_out)


def _shell(readable: _Readable, printer: _Printer) -> int:
    """Read statements that end in a semicolon until the end of input; an error ends its statement only."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives `input` its line editing
    click.echo("SQL over the lake; end a statement with ;  and the shell with Ctrl-D", err=True)
    statement = ""
    while True:
        try:
            statement += input("sql> " if not statement else "  -> ") + "\n"
        except EOFError:
            click.echo()
            return 0
        except KeyboardInterrupt:
            click.echo()
            statement = ""
            continue
        if statement.rstrip().endswith(";"):
            if statement.strip(" ;\n"):
                _run(readable, statement, printer)
            statement = ""
        elif not statement.strip():
            statement = ""


def _print_table(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    names = _distinct(columns)
    for line in table([dict(zip(names, row, strict=True)) for row in rows]):
        click.echo(line)
    click.echo(f"({len(rows)} row{'' if len(rows) == 1 else 's'})", err=True)


def _print_json(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    from otel_agent_replay.report.run_document import plain

    names = _distinct(columns)
    emit_json([{name: plain(_readable(value)) for name, value in zip(names, row, strict=True)} for row in rows])


def _print_csv(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([value.hex() if isinstance(value, bytes) else value for value in row] for row in rows)


def _readable(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _distinct(columns: list[str]) -> list[str]:
    """Number the columns that share a name, so that none hides another."""
    seen: dict[str, int] = {}
    names = []
    for column in columns:
        seen[column] = seen.get(column, 0) + 1
        names.append(column if seen[column] == 1 else f"{column}_{seen[column]}")
    return names

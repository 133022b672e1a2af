"""SQL over one run: what answers the `sql` invariants of a case. Loads duckdb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from otel_agent_replay.gate import Rows


def rows_of(lake: Path, run_id: bytes) -> Rows:
    """Return what runs a query over the views of one run of a lake. What it raises is ValueError.

    A query is one SELECT; it sees that run alone, and nothing outside the lake.
    """

    def rows(query: str) -> Sequence[Mapping[str, Any]]:
        import duckdb

        from otel_agent_replay.lake.views import connect

        with connect(lake, run_id=run_id) as connection:
            try:
                statements = connection.extract_statements(query)
                if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                    raise ValueError("it must be one SELECT")
                cursor = connection.execute(query)
                names = [column[0] for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            except duckdb.Error as error:
                raise ValueError(str(error)) from error

    return rows

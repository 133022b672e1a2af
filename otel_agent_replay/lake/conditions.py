"""Queries over a lake's views that hold a condition which a person wrote. Loads DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otel_agent_replay.errors import ConfigurationError

_CONDITION = "it is what stands behind WHERE, like agent = 'support'"


def rows_of_condition(
    lake: Path, query: str, given: str, *, wanted: str = f"is no condition over the runs of this lake; {_CONDITION}"
) -> list[tuple[Any, ...]]:
    """Return the rows of `query`. Raises ConfigurationError where it is wrong.

    `given` is a person's part of it with the option that it came by, `wanted` the end of the sentence that says what it
    is not, or why it cannot be asked.
    """
    import duckdb

    from otel_agent_replay.lake.views import connect

    with connect(lake) as connection:
        try:
            rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        except duckdb.Error as error:
            columns = 'columns: `agent-replay sql "DESCRIBE runs"`'
            raise ConfigurationError(f"{given} {wanted} ({columns}); DuckDB says of {lake}: {error}") from error
    return rows

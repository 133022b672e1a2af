"""SQL over a lake: a DuckDB connection in which the documented views stand ready. Loads duckdb.

Each view is a file under `views/`, selecting from the four raw tables `lake_spans`, `lake_payloads`, `lake_losses` and
`lake_labels`; `payload_text(pack, number)` there is a payload as text, `payload_messages` and `payload_documents` are
what a request says and what a search found. README.md beside this file documents every view and column.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake import schema
from otel_agent_replay.lake.layout import LABELS, LOSSES, PAYLOADS, SPANS
from otel_agent_replay.lake.listing import LakeListing
from otel_agent_replay.lake.payload_contents import PayloadContents
from otel_agent_replay.lake.payload_text import PayloadTexts

if TYPE_CHECKING:
    import pyarrow as pa

VIEWS = (
    "runs",
    "lineage",
    "spans",
    "steps",
    "model_calls",
    "messages",
    "tool_calls",
    "retrievals",
    "decisions",
    "approvals",
    "checkpoints",
    "clock_reads",
    "random_draws",
    "payloads",
    "effects",
    "losses",
    "labels",
    "replayability",
)

_SCHEMAS = {
    SPANS: schema.SPANS,
    PAYLOADS: schema.PAYLOADS,
    LOSSES: schema.LOSSES,
    LABELS: schema.LABELS,
}

_HIVE_TYPES = "{'date': DATE, 'hour': INTEGER}"
_BEFORE_ALL = -1  # no transaction has that number


def connect(lake: Path, *, run_id: bytes | None = None, without: Collection[Path] = ()) -> duckdb.DuckDBPyConnection:
    """Return an in-memory connection with the views of `lake`; of an empty or absent lake they have no rows.

    With `run_id` they have the rows of that run alone; the files of the lake in `without` are left out. SQL run on it
    reads the lake's tables and no other file, URL or extension; the connection holds no lock on the lake. Tables that
    have no file yet are seen as empty for as long as the connection lives. Raises DamagedRecording where a file of the
    lake cannot be read.
    """
    root = Path(lake).resolve()
    connection = duckdb.connect(":memory:")
    # Published files never change: their footers, a good part of the time of a short query, are read once.
    connection.execute("SET parquet_metadata_cache = true")
    listing = LakeListing(root, {Path(path).resolve() for path in without})
    _define_functions(connection, root, listing)
    try:
        for table, arrow_schema in _SCHEMAS.items():
            _define(connection, listing, table, arrow_schema, run_id)
        for name in VIEWS:
            connection.execute(f"CREATE VIEW {name} AS\n{view_sql(name)}")
    except duckdb.Error as error:
        connection.close()
        what = str(error).partition("\n")[0]
        raise DamagedRecording(
            f"{lake} cannot be queried ({what}); `agent-replay doctor --deep` names its bad files"
        ) from error
    _shut(connection, root)
    return connection


def _define_functions(connection: duckdb.DuckDBPyConnection, root: Path, listing: LakeListing) -> None:
    """Define what lists files, and what shows payloads: functions over one row at a time.

    Over Arrow arrays they are faster, but up to 1.5 DuckDB then shows freed memory.
    """
    connection.create_function(
        "lake_files",
        listing.paths,
        [duckdb.type("VARCHAR"), duckdb.type("UBIGINT")],
        duckdb.type("VARCHAR[]"),
        type="native",
        null_handling="special",
    )
    texts = PayloadTexts(root)
    contents = PayloadContents(texts)
    found = {
        "payload_text": (texts.text, "VARCHAR"),
        "payload_messages": (contents.messages, 'STRUCT(role VARCHAR, digest VARCHAR, "text" VARCHAR)[]'),
        "payload_documents": (
            contents.documents,
            'STRUCT(id VARCHAR, source VARCHAR, digest VARCHAR, "text" VARCHAR)[]',
        ),
    }
    for name, (function, returned) in found.items():
        connection.create_function(
            name,
            function,
            [duckdb.type("BIGINT"), duckdb.type("INTEGER")],
            duckdb.type(returned),
            type="native",
            null_handling="special",
        )


def view_sql(name: str) -> str:
    """Return the SELECT statement of a view."""
    return resources.files(__package__).joinpath("views").joinpath(f"{name}.sql").read_text("utf-8")


def _define(
    connection: duckdb.DuckDBPyConnection,
    listing: LakeListing,
    table: str,
    arrow_schema: pa.Schema,
    run_id: bytes | None,
) -> None:
    if not listing.paths(table, _BEFORE_ALL):
        empty = arrow_schema.empty_table()
        connection.register("empty", empty)
        columns = "*, NULL::DATE AS date, NULL::INTEGER AS hour"
        connection.execute(f"CREATE TABLE lake_{table} AS SELECT {columns} FROM empty")  # noqa: S608 - our own names
        connection.unregister("empty")
        return
    # Asked again by every statement: a glob would see the files that a compaction replaces beside those it makes.
    files = f"lake_files({_quoted(table)}, txid_current()::UBIGINT)"
    source = f"read_parquet({files}, hive_partitioning = true, hive_types = {_HIVE_TYPES})"
    limit = "" if run_id is None else f" WHERE {_of_run(table, run_id)}"
    connection.execute(f"CREATE VIEW lake_{table} AS SELECT * FROM {source}{limit}")  # noqa: S608 - quoted above


def _of_run(table: str, run_id: bytes) -> str:
    """Return the condition that leaves one run's rows of a table; payloads belong to the pack of its spans."""
    if table == PAYLOADS:
        return "pack IN (SELECT pack FROM lake_spans)"
    return f"run_id = from_hex('{run_id.hex()}')"


def _shut(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    """Leave the lake's tables as the only thing outside the process that SQL can reach."""
    folders = ", ".join(_quoted(f"{root}/{table}/") for table in _SCHEMAS)
    connection.execute(f"SET allowed_directories = [{folders}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

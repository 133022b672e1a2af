"""Where the columns of a spans file lie among its leaves, and which of them a run is made of.

A leaf is a column as Parquet stores it: a struct or a list is several. Asking a file for the names of its leaves takes
as long as reading a small run, so what is known of one file serves all that are laid out alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from otel_agent_replay.lake.promoted import COLUMN_OF

_NOT_ASKED = frozenset(
    {
        "parent_basis",
        "service",
        "pack",
        *(
            f"run.{name}"
            for name in (
                "step_count",
                "last_step",
                "error_count",
                "model_call_count",
                "input_tokens",
                "output_tokens",
                "cost_usd",
                "loss_count",
            )
        ),
    }
)
"""Leaves that lists and SQL ask for: `attempt_rows` makes a run without them."""


ATTRIBUTE_COLUMNS = frozenset(
    {"attributes", "call_attributes", "outcome_attributes", *(name for name, _ in COLUMN_OF.values())}
)
"""Columns that nothing but attributes is made of."""


@dataclass(frozen=True, slots=True)
class SpanLeaves:
    """The leaves of one layout, by their places: `by_column` has those that a run is made of, `run_id` says whose a
    row is.
    """

    run_id: int
    by_column: Mapping[str, Sequence[int]]


def _read(schema: pq.ParquetSchema) -> SpanLeaves:
    names = [schema.column(place).path for place in range(len(schema))]
    by_column: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if name not in _NOT_ASKED:
            by_column.setdefault(name.partition(".")[0], []).append(place)
    return SpanLeaves(by_column.get("run_id", [0])[0], by_column)


_known: tuple[pq.ParquetSchema, SpanLeaves] | None = None


def leaves_of(metadata: pq.FileMetaData) -> SpanLeaves:
    """Return the leaves of a spans file."""
    global _known
    schema = metadata.schema
    known = _known
    if known is None or not known[0].equals(schema):
        known = _known = schema, _read(schema)
    return known[1]

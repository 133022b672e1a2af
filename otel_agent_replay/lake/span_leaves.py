"""Where the columns of a spans file lie among its leaves, and which of them a run is made of.

A leaf is a column as Parquet stores it: a struct or a list is several. Asking a file for the names of its leaves takes
as long as reading a small run, so what is known of one file serves all that are laid out alike.
"""

from __future__ import annotations

from collections import defaultdict
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


BESIDE_COLUMNS = frozenset({"call_attributes", "outcome_attributes"})
"""Columns that most runs have nothing in: what is not there need not be read later."""

_ATTRIBUTE_COLUMNS = frozenset(
    {"attributes", "round_trips", *BESIDE_COLUMNS, *(name for name, _ in COLUMN_OF.values())}
)
"""Columns that nothing but attributes is made of."""

_COVERAGE = "run.coverage."


@dataclass(frozen=True, slots=True)
class SpanLeaves:
    """The leaves of one layout, by their places: `by_column` has those that a run is made of, `run_id` says whose a
    row is. `now` and `later` are the same in two: `later` has what attributes and the coverage of a run are made of.
    """

    run_id: int
    by_column: Mapping[str, Sequence[int]]
    now: Mapping[str, Sequence[int]]
    later: Mapping[str, Sequence[int]]


def _read(schema: pq.ParquetSchema) -> SpanLeaves:
    names = [schema.column(place).path for place in range(len(schema))]
    by_column: dict[str, list[int]] = defaultdict(list)
    now: dict[str, list[int]] = defaultdict(list)
    later: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        if name not in _NOT_ASKED:
            column = name.partition(".")[0]
            by_column[column].append(place)
            is_later = column in _ATTRIBUTE_COLUMNS or name.startswith(_COVERAGE)
            (later if is_later else now)[column].append(place)
    return SpanLeaves(by_column.get("run_id", [0])[0], dict(by_column), dict(now), dict(later))


_known: tuple[pq.ParquetSchema, SpanLeaves] | None = None


def leaves_of(metadata: pq.FileMetaData) -> SpanLeaves:
    """Return the leaves of a spans file."""
    global _known
    schema = metadata.schema
    known = _known
    if known is None or not known[0].equals(schema):
        known = _known = schema, _read(schema)
    return known[1]

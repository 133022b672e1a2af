"""Which attributes lie in a column of their own, and how they come back. Pure.

Such an attribute keeps its place in the attribute map with a null value, so that the mapping can be rebuilt in
order, and its value is stored once. A value of another type than the column's stays in the map.
"""

from __future__ import annotations

from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.lake.arrays import Lists
from otel_agent_replay.lake.columns import Columns
from otel_agent_replay.model import AttributeValue

_INT64 = 1 << 63
_PLAIN = (str, int, float)

COLUMN_OF: dict[str, tuple[str, type[Any]]] = {
    semconv.OPERATION_NAME: ("operation", str),
    semconv.PROVIDER_NAME: ("provider", str),
    semconv.PROTOCOL: ("protocol", str),
    semconv.REQUEST_MODEL: ("request_model", str),
    semconv.RESPONSE_MODEL: ("response_model", str),
    semconv.USAGE_INPUT_TOKENS: ("input_tokens", int),
    semconv.USAGE_OUTPUT_TOKENS: ("output_tokens", int),
    semconv.USAGE_CACHE_READ_INPUT_TOKENS: ("cache_read_input_tokens", int),
    semconv.USAGE_REASONING_OUTPUT_TOKENS: ("reasoning_output_tokens", int),
    semconv.COST_USD: ("cost_usd", float),
    semconv.RESPONSE_FINISH_REASONS: ("finish_reasons", tuple),
    semconv.TOOL_NAME: ("tool_name", str),
    semconv.TOOL_CALL_ID: ("tool_call_id", str),
    semconv.HTTP_STATUS: ("http_status", int),
    semconv.SERVER_ADDRESS: ("server_address", str),
    semconv.ERROR_TYPE: ("error_type", str),
}
"""Attribute key -> column and the only Python type that goes there."""


DERIVED: dict[str, str] = {
    semconv.RUN_ID: "run_id",
    semconv.STEP: "step",
    semconv.KIND: "kind",
    semconv.PATH: "path",
    semconv.SIDE_EFFECT: "side_effect",
    semconv.SOURCE: "source",
    semconv.REQUEST_DIGEST: "request_digest",
    semconv.RESULT_DIGEST: "result_digest",
    semconv.OUTCOME: "outcome",
    semconv.ROUND_TRIPS: "round_trips",
    semconv.IDEMPOTENCY_KEY: "idempotency_key",
    semconv.AGENT_NAME: "agent",
}
"""Attribute key -> the column that says the same (ids and digests as hex); not stored where the two agree."""


def promote(lists: Lists, row: int, key: str, value: AttributeValue) -> bool:
    """Put `value` into its column at `row`; False when it has none or does not fit there."""
    derived = DERIVED.get(key)
    if derived is not None:
        known = lists[derived][row] if derived in lists else None
        known = known.hex() if isinstance(known, bytes) else str(known) if isinstance(known, str) else known
        return known is not None and type(known) is type(value) and bool(known == value)
    fits = fitting(key, value)
    if fits is not None:
        lists[COLUMN_OF[key][0]][row] = fits
    return fits is not None


def promote_all(lists: Lists, key: str, values: list[AttributeValue], count: int) -> bool:
    """Put the values of one key, None where a row has none, into their column; False unless all `count` of them fit."""
    column, kind = COLUMN_OF.get(key, ("", object))
    told = [value for value in values if value is not None]
    if len(told) != count or kind not in _PLAIN or set(map(type, told)) != {kind}:
        return False
    if kind is int and not (min(told) >= -_INT64 and max(told) < _INT64):
        return False
    lists[column] = values
    return True


def fitting(key: str, value: AttributeValue) -> AttributeValue:
    """Return the value of an attribute that has a column of its own, None when it does not fit there."""
    kind = COLUMN_OF[key][1] if key in COLUMN_OF else None
    if kind is tuple:
        fits = type(value) in (tuple, list) and all(type(item) is str for item in value)
    else:
        fits = type(value) is kind and (kind is not int or -_INT64 <= value < _INT64)
    return value if fits else None


PROMOTED = frozenset({*COLUMN_OF, *DERIVED})


def recall(columns: Columns, key: str) -> list[AttributeValue]:
    """Return, of every row, the value that `promote` took or would have taken."""
    derived = DERIVED.get(key)
    if derived is None:
        return columns.values(COLUMN_OF[key][0])
    return [value.hex() if isinstance(value, bytes) else value for value in columns.values(derived)]

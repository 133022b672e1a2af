"""Plain spans, many at a time: OTLP requests -> the lake, without an object a span.

    request_columns    requests -> Arrow arrays        attribute_columns    attributes -> the lake's maps and columns
    plain_spans        which spans are plain           trace_order          which traces are sound, and their order
    rows               spans -> rows of the lake       root_columns         facts, node and digests of their runs
    anomalies          what is wrong with them         landing              which traces land here, in which files

What is not plain goes the way of `imports.landing`; a test holds the two to the same rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from otel_agent_replay.imports.plain.landed import PlainLanded

if TYPE_CHECKING:
    from otel_agent_replay.imports.plain.landing import PlainLander

__all__ = ["PlainLanded", "plain_lander"]

_NEEDED = ("numpy", "ptars")


def plain_lander(lake: Path, source: str) -> PlainLander | None:
    """Return what lands plain traces into a lake; None where the extra `collector` is not installed, which it needs."""
    try:
        from otel_agent_replay.imports.plain.landing import PlainLander
    except ImportError as error:
        if error.name not in _NEEDED:
            raise
        return None
    return PlainLander(lake, source)

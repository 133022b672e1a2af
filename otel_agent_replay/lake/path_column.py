"""A logical place in a run <-> one text: the parts joined by "/", with % and / in them as %25 and %2F. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from otel_agent_replay.wire.text import text_from_wire, text_to_wire


def join_path(path: Sequence[str]) -> str:
    """Return a logical place as one text, which a column of texts then escapes where UTF-8 cannot hold it."""
    joined = "/".join(path)
    if "%" in joined or joined.count("/") >= len(path):
        return "/".join([part.replace("%", "%25").replace("/", "%2F") for part in path])
    return joined


def store_path(path: Sequence[str]) -> str:
    """Return a logical place as the column holds it."""
    return text_to_wire(join_path(path))


def load_path(stored: str) -> tuple[str, ...]:
    """Return the parts of a logical place."""
    parts = text_from_wire(stored).split("/")
    return tuple([part.replace("%2F", "/").replace("%25", "%") for part in parts] if "%" in stored else parts)

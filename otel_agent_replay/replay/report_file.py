"""The file in which a replaying process leaves what it has to say: whole, or not there."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path` in one step, so that nobody reads half of it. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".report-")
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    os.replace(name, path)  # noqa: PTH105 - `name` is text here


def read_whole(path: Path) -> str:
    """Return what `write_whole` wrote. Raises OSError."""
    return path.read_text(encoding="utf-8", errors="surrogatepass")


def fields_in(text: str, report: Any) -> dict[str, Any]:
    """Return the fields of the dataclass `report` in a JSON object, its arrays as tuples; others are passed over.

    Raises ValueError, AttributeError where `text` is no JSON object.
    """
    known = {field.name for field in fields(report)}
    found = json.loads(text).items()
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found if name in known}

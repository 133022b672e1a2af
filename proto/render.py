"""Writes the tables of proto/README.md from the code that defines them: `python proto/render.py` (in `make proto`).

Attributes come from `otel_agent_replay/semconv.py` (name and the comment beside it), columns from the Arrow schemas
of `otel_agent_replay/lake/schema.py` (name, type and the meaning stored with each). With `--check` nothing is written
and the exit code tells whether the page is up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from otel_agent_replay.lake import schema

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
SEMCONV = HERE.parent / "otel_agent_replay" / "semconv.py"
_CONSTANT = re.compile(r'^[A-Z_]+: Final = "(?P<name>[^"]+)"(?:  # (?P<meaning>.*))?$', re.MULTILINE)


def attributes() -> str:
    """Return the table of every attribute key that is written or read."""
    lines = ["| attribute | meaning | since |", "|---|---|---|"]
    for found in _CONSTANT.finditer(SEMCONV.read_text(encoding="utf-8")):
        name = found["name"]
        if "." not in name:
            continue
        meaning = found["meaning"] or (
            "as in the OpenTelemetry semantic conventions" if not name.startswith("agent_replay") else ""
        )
        lines.append(f"| `{name}` | {meaning} | 1 |")
    return "\n".join(lines)


def columns(table: str) -> str:
    """Return the table of one Parquet table's columns."""
    lines = ["| column | type | meaning | since |", "|---|---|---|---|"]
    for field in getattr(schema, table.upper()):
        meaning = (field.metadata or {}).get(b"meaning", b"").decode()
        kind = str(field.type)
        shown = kind if len(kind) < 60 else f"{kind.partition('<')[0]}<...>"
        lines.append(f"| `{field.name}` | `{shown}` | {meaning} | 1 |")
    return "\n".join(lines)


def rendered(page: str) -> str:
    """Return the page with each marked table replaced by its fresh rendering."""
    tables = {"attributes": attributes()} | {name: columns(name) for name in ("spans", "payloads", "losses", "labels")}
    for name, text in tables.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
        page, count = pattern.subn(lambda found, text=text: found[1] + text + found[2], page)
        if count != 1:
            raise SystemExit(f"proto/README.md must hold exactly one place marked {name}")
    return page


def main() -> int:
    """Write the page, or with --check say whether it is up to date."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = rendered(page)
    if "--check" in sys.argv:
        if page != fresh:
            print("proto/README.md is stale: run `make proto`")
        return int(page != fresh)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

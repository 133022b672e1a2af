"""How commands print: tables for people, JSON documents for scripts, remarks on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import click

from otel_agent_replay.report.safe_text import visible

SCHEMA_VERSION = 1
FOUND = 1
USAGE = 2
NOT_NOW = 75
CANNOT_JUDGE = 125


def emit(
    rows: Sequence[Mapping[str, Any]], *, as_json: bool, title: str, stream: IO[str] | None = None, **more: Any
) -> None:
    """Print rows that share their keys: a table, or one JSON document `agent-replay/TITLE` that holds them under TITLE.

    `more` are further fields of the JSON document.
    """
    if as_json:
        emit_json(
            {"schema": f"agent-replay/{title}", "schema_version": SCHEMA_VERSION, **more, title: list(rows)}, stream
        )
        return
    for text in table(rows):
        click.echo(text, file=stream)


def emit_json(document: Any, stream: IO[str] | None = None, *, on_one_line: bool = False) -> None:
    """Print one JSON document; ASCII only, so that recorded text can drive no terminal.

    Numbers that JSON has not are texts, spelled as Protocol Buffers' JSON spells them: `NaN`, `Infinity`, `-Infinity`.
    """
    indent = None if on_one_line else 2
    try:
        text = json.dumps(document, indent=indent, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(document), indent=indent, default=str)
    click.echo(text, file=stream)


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return aligned lines with a head; numbers to the right; [] for no rows. Nothing is shortened."""
    if not rows:
        return []
    columns = list(rows[0])
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[at]) for line in cells)) for at, column in enumerate(columns)]
    right = [all(isinstance(row.get(column), (int, float, type(None))) for row in rows) for column in columns]
    lines = []
    for line in [columns, *cells]:
        ends = zip(line, widths, right, strict=True)
        padded = (text.rjust(width) if is_number else text.ljust(width) for text, width, is_number in ends)
        lines.append("  ".join(padded).rstrip())
    return lines


def complain(code: str, message: str) -> None:
    """Write an error to standard error. `code` is stable; the message says what, where and what next.

    Further lines of a message are indented: none can pass for an error of its own.
    """
    click.echo(f"error[{code}]: {visible(message.strip(), keep_lines=True)}".replace("\n", "\n  "), err=True)


def remark(text: str) -> None:
    """Say something beside the result, on standard error."""
    click.echo(visible(text), err=True)


def on_terminal() -> bool:
    """Whether a person types and reads."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return visible(str(value))

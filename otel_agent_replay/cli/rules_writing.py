"""Volatile rules -> `[tool.otel-agent-replay]` of a pyproject.toml, the rest of which stays as it is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.settings import TABLE

_HEAD = f"[tool.{TABLE}]"
_TABLE_LINE = re.compile(rf"^\[tool\.{re.escape(TABLE)}\][ \t]*(?:#.*)?$", re.MULTILINE)
_NEXT_TABLE = re.compile(r"^\[", re.MULTILINE)
_VOLATILE = re.compile(
    r"^volatile[ \t]*=[ \t]*(\[[^\[\]\"']*(?:(?:\"[^\"\\\n]*\"|'[^'\n]*')[^\[\]\"']*)*\]|\"[^\"\n]*\"|'[^'\n]*')",
    re.MULTILINE,
)


def with_volatile(text: str, rules: Sequence[str]) -> str:
    """Return the text of a pyproject.toml with `rules` as its volatile paths, added to those that are there.

    Raises ConfigurationError where the result would not say that: the rules are then to be written by hand.
    """
    merged = list(dict.fromkeys([*_volatile(text), *rules]))
    line = f"volatile = [{', '.join(json.dumps(rule, ensure_ascii=False) for rule in merged)}]"
    head = _TABLE_LINE.search(text)
    if head is None:
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        changed = f"{text}{gap}{_HEAD}\n{line}\n"
    else:
        following = _NEXT_TABLE.search(text, head.end())
        end = len(text) if following is None else following.start()
        there = _VOLATILE.search(text, head.end(), end)
        if there is None:
            changed = f"{text[: head.end()]}\n{line}{text[head.end() :]}"
        else:
            changed = f"{text[: there.start()]}{line}{text[there.end() :]}"
    if _volatile(changed) != merged:
        raise ConfigurationError(f"volatile rules cannot be put into this pyproject.toml; write by hand: {line}")
    return changed


def write_volatile(path: Path, rules: Sequence[str]) -> None:
    """Add volatile rules to the pyproject.toml at `path`, which is made where there is none."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(with_volatile(text, rules), encoding="utf-8")


def _volatile(text: str) -> list[str]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        found = tomllib.loads(text).get("tool", {}).get(TABLE, {}).get("volatile", [])
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"this pyproject.toml is not valid TOML: {error}") from error
    return [part.strip() for part in found.split(",")] if isinstance(found, str) else list(found)

"""The redaction that settings ask for: rules read from their file, one store of learnt secrets for all who write."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.payload.redaction import Redaction, Rule
from otel_agent_replay.payload.rules import rules_from
from otel_agent_replay.settings import Settings


def redaction_of(settings: Settings) -> Redaction:
    """Return the redaction that the settings ask for; equal settings share what is learnt.

    Raises ConfigurationError for rules that cannot be read, naming file and rule.
    """
    return _redaction(settings.redaction, settings.hash_key).at(settings.capture)


def redaction_at(lake: Path) -> Redaction:
    """Return the redaction that recordings of a lake pass, by our settings. Raises as `redaction_of`."""
    return redaction_of(Settings.load({"lake": lake}))


def rules_of(path: Path | None) -> list[Rule]:
    """Return the rules of a file, none for None. Raises ConfigurationError, naming file and rule."""
    return [] if path is None else rules_from(_rules(path))


@lru_cache(maxsize=8)
def _redaction(path: Path | None, key: str) -> Redaction:
    return Redaction.from_rules([] if path is None else _rules(path), key=key.encode())


def _rules(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            if sys.version_info >= (3, 11):
                import tomllib
            else:
                import tomli as tomllib
            rules = tomllib.loads(text).get("rules")
        else:
            rules = json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the redaction rules in {path} cannot be read: {error}") from error
    if not isinstance(rules, list):
        raise ConfigurationError(f"{path} must hold a list of rules (in TOML: [[rules]])")
    return rules

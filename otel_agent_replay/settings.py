"""Every option, its default, its environment name; the only reader of the environment for options.

Precedence: argument > environment (`AGENT_REPLAY_*`) > `[tool.otel-agent-replay]` of the nearest
pyproject.toml > default. Unknown keys are errors. `Settings.sources` tells where each value came from.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model.kinds import CaptureLevel

PREFIX = "AGENT_REPLAY_"
COLLECTOR_PREFIX = "AGENT_REPLAY_COLLECTOR_"
"""Begins the names of the receiver's options, which are its own business."""

TABLE = "otel-agent-replay"

# Bound at import: option reads must never be taken for reads of the application.
_environ = os.environ.copy


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in {"1", "true", "yes", "on"}:
        return True
    if lowered in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError("expected true or false")


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError("expected a number above 0")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("expected a number from 0 to 1")
    return value


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected one of {', '.join(words)}")
        return text

    return parse


def _optional_path(text: str) -> Path | None:
    return Path(text) if text else None


def _option(default: Any, parse: Callable[[str], Any], meaning: str) -> Any:
    return field(default=default, metadata={"parse": parse, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class Settings:
    """The options in force. Build it with `Settings.load`; every field's environment name is AGENT_REPLAY_<FIELD>."""

    lake: Path = _option(Path(".agent-replay"), Path, "folder of the journal and the lake")
    enabled: bool = _option(True, _boolean, "false: nothing is intercepted or recorded")
    mode: str = _option(
        "record", _one_of("record", "exact", "resume", "fork", "regression"), "what the engine does in this process"
    )
    run: str = _option("", str, "the run to go back to, when the mode is not record")
    plan: Path | None = _option(
        None,
        _optional_path,
        "JSON file that says where a fork leaves its origin and with what, or how a run is run again",
    )
    origin: Path | None = _option(
        None, _optional_path, "lake of the run that is run again, where `lake` takes the re-run"
    )
    report: Path | None = _option(None, _optional_path, "file that a replay writes its verdict to")
    isolate: bool = _option(False, _boolean, "put a kernel fence around a replay")
    allow: tuple[str, ...] = _option((), _names, "host:port pairs that a replay may reach, comma separated")
    allow_write: tuple[str, ...] = _option((), _names, "folders that a replay may write files in, comma separated")
    limits: tuple[str, ...] = _option((), _names, "bounds of a replay: cpu=SECONDS, memory=MIB, files=NUMBER")
    identity: tuple[str, ...] = _option(
        (), _names, "variables whose values are a replay's own secrets, never stored (set by `agent-replay replay`)"
    )
    ledger: str = _option("", str, "where effects happen once: empty (nowhere), file, or an SQLAlchemy URL")
    lease_s: int = _option(60, _positive, "how long a worker holds a run without renewing, in seconds")
    max_steps: int = _option(0, int, "steps after which a run is aborted; 0: no limit")
    changed: bool = _option(False, _boolean, "resume also with other code or configuration than recorded")
    kill_at: str = _option("", str, "before:STEP, during:STEP or after:STEP: kill this process there (a drill)")
    capture: CaptureLevel = _option(CaptureLevel.REDACTED, CaptureLevel, "digest, redacted or full")
    keep_state: str = _option(
        "always", _one_of("always", "failed"), "whose checkpoint states the lake keeps: failed: of runs that fail"
    )
    state_sample: float = _option(
        0.0, _share, "with keep_state failed: share of the other runs that keep theirs, 0 to 1"
    )
    redaction: Path | None = _option(None, _optional_path, "JSON or TOML file of redaction rules")
    hash_key: str = _option("", str, "key of the keyed-hash redaction action")
    packages: tuple[str, ...] = _option((), _names, "installed packages whose clock, random and env reads count too")
    volatile: tuple[str, ...] = _option((), _names, "JSON paths of requests that a replay does not compare")
    shuffle: int = _option(0, int, "seed that disturbs a replay's threads (`agent-replay verify --replay`); 0: off")
    inline: bool = _option(False, _boolean, "put the heavy attributes on the spans that everyone sees")
    process_run: bool = _option(False, _boolean, "record what crosses outside any agent as one run")
    seal: str = _option("on_demand", _one_of("on_demand", "off"), "whether this process may start a sealer")
    export: str = _option("lake", _one_of("lake", "otlp"), "where runs go: this folder's lake, or an OTLP endpoint")
    otlp_endpoint: str = _option("", str, "address that runs are sent to; empty: OTEL_EXPORTER_OTLP_ENDPOINT")
    otlp_headers: str = _option("", str, "NAME=VALUE,... of each request; empty: OTEL_EXPORTER_OTLP_HEADERS")
    otlp_message_mb: int = _option(3, _positive, "largest request that is sent, in MiB; larger spans go in pieces")
    fsync: bool = _option(False, _boolean, "fsync the record of an intended write before the call")
    segment_mb: int = _option(64, _positive, "size of a journal segment, in MiB")
    lock_timeout_ms: int = _option(250, _positive, "longest wait of the host for the journal, in milliseconds")
    sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(
        cls,
        arguments: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> Settings:
        """Return the effective settings.

        `arguments` hold field values (None: not given). Raises ConfigurationError for an unknown key or a value
        that does not parse, naming the key, the value and where it came from.
        """
        environ = _environ() if environment is None else environment
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        names = cls.options()
        for name, value, source in _pyproject_values(directory or Path.cwd()):
            values[name], sources[name] = _parse(names, name, value, source), source
        for key, text in environ.items():
            if key.startswith(PREFIX) and not key.startswith(COLLECTOR_PREFIX):
                name = key[len(PREFIX) :].lower()
                values[name], sources[name] = _parse(names, name, text, f"environment variable {key}"), f"env {key}"
        for name, value in (arguments or {}).items():
            if value is not None:
                values[name], sources[name] = _parse(names, name, value, "argument"), "argument"
        for name in names:
            sources.setdefault(name, "default")
        return cls(**values, sources=sources)

    @classmethod
    def options(cls) -> dict[str, tuple[Callable[[str], Any], str, Any]]:
        """Return each option's parser, meaning and default, by field name."""
        return {
            item.name: (item.metadata["parse"], item.metadata["meaning"], item.default)
            for item in fields(cls)
            if "parse" in item.metadata
        }


def variables(names: Iterable[str]) -> dict[str, str]:
    """Return those of the process's environment variables that are set: keys of endpoints, used once, never stored."""
    environ = _environ()
    return {name: environ[name] for name in names if name in environ}


def variables_with(prefix: str) -> dict[str, str]:
    """Return the process's environment variables whose names begin so: an edge's own options."""
    return {name: value for name, value in _environ().items() if name.startswith(prefix)}


def _parse(names: Mapping[str, Any], name: str, value: Any, source: str) -> Any:
    if name not in names:
        import difflib

        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(names))}"
        raise ConfigurationError(f"unknown option {name!r} ({source}){hint}")
    parse, meaning, default = names[name]
    if not isinstance(value, str):
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        elif isinstance(value, bool):
            value = "true" if value else "false"
        else:
            value = str(value)
    try:
        return parse(value)
    except ValueError as error:
        raise ConfigurationError(
            f"option {name!r} cannot be {value!r} ({source}): {error}; it is: {meaning} (default {default!r})"
        ) from error


def _pyproject_values(directory: Path) -> list[tuple[str, Any, str]]:
    for folder in (directory, *directory.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            break
    else:
        return []
    if f"[tool.{TABLE}" not in path.read_text(encoding="utf-8", errors="replace"):
        return []
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get(TABLE, {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    return [(key.replace("-", "_"), value, f"[tool.{TABLE}] in {path}") for key, value in table.items()]

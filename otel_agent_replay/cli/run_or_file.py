"""A run given on the command line: one of a lake, or a file of spans that another instrumentation wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agent_replay.cli.output import remark
from otel_agent_replay.cli.reading import open_lake
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import RecordedRun

if TYPE_CHECKING:
    from otel_agent_replay.compare import RiskRule

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".otlp", ".gz", ".pb", ".binpb", ".parquet")


def is_file(given: str) -> bool:
    """Whether it names a file that is there: a path, with `#` and the beginning of a trace id where one needs it."""
    path = Path(given.partition("#")[0])
    return path.suffix in _SUFFIXES and path.is_file()


def load_run(given: str, lake: Path, *, verbose: bool = False) -> RecordedRun:
    """Return the run. Raises RunNotFound, DamagedRecording, ConfigurationError or CannotJudge with what to do."""
    if is_file(given):
        from otel_agent_replay.imports.foreign_trace import read_foreign_trace

        path, _, trace = given.partition("#")
        found = read_foreign_trace(Path(path), trace)
        for sentence in found.refused:
            remark(f"note: {sentence}")
        return found.run
    if Path(given).is_file():
        raise ConfigurationError(
            f"{given} is a file whose name ends like no format of traces: {', '.join(_SUFFIXES)} are known here"
        )
    stored = open_lake(lake, verbose=verbose)
    return stored.load(stored.find(given))


def read_risk_rules(path: Path | None) -> Sequence[RiskRule]:
    """Return the rules of a YAML file, none without one. Raises ConfigurationError that names what is wrong."""
    if path is None:
        return ()
    from otel_agent_replay.casefile.yaml_text import read_yaml
    from otel_agent_replay.compare import risk_rules

    return risk_rules(read_yaml(path), str(path))

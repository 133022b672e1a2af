"""The lake of a case is sealed file by file: commands that change files of a lake keep away from it."""

from __future__ import annotations

from pathlib import Path

from otel_agent_replay.casefile.document import CASE_FILE
from otel_agent_replay.errors import ConfigurationError


def refuse_case_lake(lake: Path, what: str) -> None:
    """Raise ConfigurationError where `lake` is that of a case: it would not be as it was sealed if it were `what`."""
    folder = lake.absolute().parent
    if (folder / CASE_FILE).is_file():
        raise ConfigurationError(
            f"{lake} belongs to the case {folder.name}, whose files are sealed: if it were {what}, the case would fail "
            "as tampered; name the lake that runs are recorded into"
        )

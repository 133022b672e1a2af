"""Files of a lake that cannot be read and were passed over, so that all others are still of use.

Lists of runs leave such files out and say so; what is to be judged of a run does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake.layout import TABLES, all_files
from otel_agent_replay.lake.parquet_file import damage_named

_Read = TypeVar("_Read")


class PassedOver:
    """The files that were passed over, each with the reason in words."""

    def __init__(self) -> None:
        self.files: dict[Path, str] = {}

    def read(self, path: Path, read: Callable[[], _Read]) -> _Read | None:
        """Return what `read` gives of a file; None when it is damaged, and passed over."""
        try:
            return read()
        except DamagedRecording as error:
            self.files[path] = str(error)
            return None


def unreadable_files(lake: Path) -> PassedOver:
    """Return the files of a lake that are torn: their footers cannot be read. All footers are read for it."""
    found = PassedOver()
    for table in TABLES:
        for file in all_files(lake, table):
            with contextlib.suppress(FileNotFoundError):  # merged or deleted meanwhile
                found.read(file.path, partial(_footer, file.path))
    return found


def _footer(path: Path) -> pq.FileMetaData:
    with damage_named(path):
        return pq.read_metadata(path)

"""Payloads as text, for SQL: what `payload_text(pack, number)` of the views is. Knows nothing of DuckDB.

A join with the payloads table would read that table in every query over a view that shows arguments, also where nobody
asks for them; a function is left out where its value is not used, and reads only the row groups of the rows that are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from otel_agent_replay.lake.layout import PAYLOADS, all_files
from otel_agent_replay.lake.payload_store import PackReader, PayloadGroup

_OPEN_PACKS = 16
_ROW_GROUPS = 2


class PayloadTexts:
    """The payloads of a lake by pack and number. Safe to share between threads."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._paths: dict[int, Path] = {}
        self._readers: OrderedDict[int, PackReader] = OrderedDict()
        self._near: dict[int, PayloadGroup] = {}
        self._lock = threading.Lock()

    def text(self, pack: int | None, number: int | None) -> str | None:
        """Return a payload's text; None where there is none, its file is gone, or it is not UTF-8.

        Raises DamagedRecording for a file that cannot be read. The bytes are not proved.
        """
        if pack is None or number is None:
            return None
        try:
            # This is called once a row: rows of a file come in order, so most lie in the row group of the last.
            near = self._near.get(pack)
            if near is not None and near.first <= number < near.end:
                whole = near.whole(number)
                if whole is not None:
                    return str(whole, "utf-8")
            return self._far(pack, number)
        except UnicodeDecodeError:
            return None

    def _far(self, pack: int, number: int) -> str | None:
        reader = self.reader(pack)
        if reader is None:
            return None
        near = reader.group_of(number)
        with self._lock:
            if pack in self._readers:
                self._near[pack] = near
        return reader.stored(number).decode("utf-8")

    def reader(self, pack: int) -> PackReader | None:
        """Return the pack; None when its file is gone."""
        with self._lock:
            reader = self._readers.get(pack)
            if reader is not None:
                self._readers.move_to_end(pack)
                return reader
            path = self._path(pack)
            if path is None:
                return None
            try:
                reader = PackReader(path, row_groups=_ROW_GROUPS)
            except FileNotFoundError:
                return None
            self._readers[pack] = reader
            while len(self._readers) > _OPEN_PACKS:
                forgotten, _ = self._readers.popitem(last=False)
                self._near.pop(forgotten, None)
            return reader

    def _path(self, pack: int) -> Path | None:
        if pack not in self._paths:  # files come while a connection lives
            self._paths = {file.pack: file.path for file in all_files(self._lake, PAYLOADS)}
        return self._paths.get(pack)

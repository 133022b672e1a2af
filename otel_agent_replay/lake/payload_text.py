"""Payloads as text, for SQL: what `payload_text(pack, number)` of the views is. Knows nothing of DuckDB.

A join with the payloads table would read that table in every query over a view that shows arguments, also where nobody
asks for them; a function is left out where its value is not used, and reads only the row groups of the rows that are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from otel_agent_replay.lake.layout import PAYLOADS, all_files
from otel_agent_replay.lake.payload_store import PackReader

_OPEN_PACKS = 16
_ROW_GROUPS = 2


class PayloadTexts:
    """The payloads of a lake by pack and number, many at once."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._paths: dict[int, Path] = {}
        self._readers: OrderedDict[int, PackReader] = OrderedDict()
        self._lock = threading.Lock()

    def texts(self, packs: Any, numbers: Any) -> Any:
        """Return an array of texts; null where the payload is gone or is not UTF-8.

        `packs` and `numbers` are arrays of one length. Raises DamagedRecording for a file that cannot be read.
        """
        packs, numbers = _whole(packs), _whole(numbers)
        found = pa.nulls(len(packs), pa.large_string())
        for pack in packs.unique().drop_null().to_pylist():
            reader = self._reader(pack)
            if reader is not None:
                here = pc.fill_null(pc.and_(pc.equal(packs, pack), pc.is_valid(numbers)), False)
                found = pc.replace_with_mask(found, here, _as_text(reader.many(numbers.filter(here))))
        return found

    def _reader(self, pack: int) -> PackReader | None:
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
                self._readers.popitem(last=False)
            return reader

    def _path(self, pack: int) -> Path | None:
        if pack not in self._paths:  # files come while a connection lives
            self._paths = {file.pack: file.path for file in all_files(self._lake, PAYLOADS)}
        return self._paths.get(pack)


def _whole(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _as_text(data: pa.Array[Any]) -> pa.Array[Any]:
    try:
        return data.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in data.to_pylist()], pa.large_string())


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None

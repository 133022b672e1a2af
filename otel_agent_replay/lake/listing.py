"""The files that SQL reads: asked for by every statement anew, and the same for all tables that one statement names.

Knows nothing of DuckDB but that each transaction has a number.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path

from otel_agent_replay.lake.layout import PAYLOADS, SPANS, all_files, beside

_KEPT = 8  # statements whose lists are remembered; cursors of one connection may run side by side


class LakeListing:
    """Lists the files of a lake's tables as they were when a transaction first asked, but for some that are left out.

    Safe to share between threads.
    """

    def __init__(self, lake: Path, without: Collection[Path] = ()) -> None:
        self._lake = lake
        self._without = frozenset(without)
        self._found: OrderedDict[int, dict[str, list[Path]]] = OrderedDict()
        self._lock = threading.Lock()

    def paths(self, table: str, transaction: int) -> list[str]:
        """Return the paths of a table's files that count."""
        with self._lock:
            found = self._found.setdefault(transaction, {})
            while len(self._found) > _KEPT:
                self._found.popitem(last=False)
            return [str(path) for path in self._files(table, found)]

    def _files(self, table: str, found: dict[str, list[Path]]) -> list[Path]:
        if table not in found:
            if table == PAYLOADS:
                # Payloads come before their spans and go after them: those of the spans that were listed are there.
                spans = self._files(SPANS, found)
                packs = (beside(one, PAYLOADS) for one in spans)
                found[table] = [path for path in packs if path.is_file() and path not in self._without]
            else:
                found[table] = [one.path for one in all_files(self._lake, table) if one.path not in self._without]
        return found[table]

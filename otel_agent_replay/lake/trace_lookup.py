"""Which traces the lake has as imported runs already: asked at every landing, so remembered file by file."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from otel_agent_replay.lake import kernels
from otel_agent_replay.lake.catalog import root_rows
from otel_agent_replay.lake.layout import SPANS, LakeFile, all_files

_FILES_REMEMBERED = 64
APART_MS = 24 * 3600 * 1000
"""How far from each other the parts of one trace may begin and still find each other."""


def imported_runs(
    lake: Path, trace_ids: Collection[bytes], first_ms: int | None, last_ms: int | None
) -> dict[bytes, bytes]:
    """Return the imported runs of traces, trace id to run id, that began in [first_ms, last_ms] or a day around it.

    Unix milliseconds; None: from the first on, or to the last. A trace that is not there is not in it. Raises
    DamagedRecording, UnsupportedFormat.
    """
    wanted = pa.array(sorted(trace_ids), pa.binary())
    found: dict[bytes, bytes] = {}
    first = None if first_ms is None else max(first_ms - APART_MS, 0)
    last = None if last_ms is None else last_ms + APART_MS
    without_time = all_files(lake, SPANS, first_ms=0, last_ms=0) if first else ()  # what came before without a time
    for file in chain(without_time, all_files(lake, SPANS, first_ms=first, last_ms=last)):
        roots = _imported_in(file, file.path.stat().st_ino)
        if len(roots):
            chosen = kernels.filtered(roots, kernels.is_in(roots.column("trace_id"), wanted))
            ids: list[list[Any]] = [chosen.column(name).to_pylist() for name in ("trace_id", "run_id")]
            for trace_id, run_id in zip(*ids, strict=True):
                found.setdefault(trace_id, run_id)
    return found


@lru_cache(maxsize=_FILES_REMEMBERED)
def _imported_in(file: LakeFile, _inode: int) -> pa.Table:
    """Return trace and run ids of the imported runs in a file, which stays as it is as long as its inode does."""
    roots = root_rows(file, ["run_id", "trace_id", "run.mode"])
    imported = kernels.equal(kernels.struct_field(roots.column("run"), "mode"), pa.scalar("import"))
    chosen = kernels.filtered(roots, imported).select(["run_id", "trace_id"])
    return chosen.set_column(1, "trace_id", kernels.as_type(chosen.column("trace_id"), pa.binary()))

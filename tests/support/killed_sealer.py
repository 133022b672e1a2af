"""Seals copies of one lake, dying before the first, the second, the third ... change that the sealer makes on disk.

    python -m tests.support.killed_sealer TEMPLATE FOLDER MORE EVERY

FOLDER/<n> is the lake whose first sealer died before its n-th change; then the segments in MORE came, and a second
sealer ran to its end. FOLDER/0 was sealed without dying. Only every EVERY-th change is tried. Prints the deaths.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401 - once, before the forks

from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake import catalog, writer  # noqa: F401 - the same

DIED = 9
CHANGES = ((Path, "replace"), (Path, "rename"), (Path, "unlink"), (os, "fsync"))


def die_before(change: int) -> None:
    """Let the `change`-th change on disk, from 1, be the end of this process."""
    made = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            made += 1
            if made == change:
                os._exit(DIED)
            return real(*args, **kwargs)

        return call

    for owner, name in CHANGES:
        setattr(owner, name, counted(getattr(owner, name)))


def sealed(lake: Path, die_at: int | None) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if die_at is not None:
                die_before(die_at)
            code = 1 if seal(lake).failed else 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    template, folder, more = (Path(argument) for argument in sys.argv[1:4])
    deaths = []
    for number in [0, *range(1, 10_000, int(sys.argv[4]))]:
        lake = folder / str(number)
        shutil.copytree(template, lake)
        code = sealed(lake, number or None)
        if code not in (0, DIED):
            sys.exit(f"sealer {number} failed: {code}")
        for segment in (more / "journal").glob("*.log"):
            shutil.copy(segment, lake / "journal")
        if sealed(lake, None) != 0:
            sys.exit(f"the sealer after death {number} failed")
        if number and code == 0:
            sys.stdout.write(" ".join(map(str, deaths)))
            return
        deaths += [number] if number else []


if __name__ == "__main__":
    main()

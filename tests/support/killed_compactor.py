"""Compacts (or upgrades) copies of one lake, dying before the first, the second ... change that it makes on disk.

    python -m tests.support.killed_compactor TEMPLATE FOLDER EVERY compact|upgrade

FOLDER/<n> is the lake whose compaction died before its n-th change, FOLDER/0 that of one that did not die. Only every
EVERY-th change is tried. Prints the deaths.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import duckdb  # noqa: F401 - once, before the forks

from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.upgrade import upgrade
from tests.support.killed_sealer import DIED, die_before

WORKS = {"compact": lambda lake: compact(lake, grace_s=0).skipped, "upgrade": lambda lake: upgrade(lake).left}


def done(lake: Path, die_at: int | None, work: str) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if die_at is not None:
                die_before(die_at)
            code = 1 if WORKS[work](lake) else 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    template, folder, every = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    deaths = []
    for number in [0, *range(1, 10_000, every)]:
        lake = folder / str(number)
        shutil.copytree(template, lake)
        code = done(lake, number or None, sys.argv[4])
        if code not in (0, DIED):
            sys.exit(f"{sys.argv[4]} {number} failed: {code}")
        if number and code == 0:
            shutil.rmtree(lake)
            sys.stdout.write(" ".join(map(str, deaths)))
            return
        deaths += [number] if number else []


if __name__ == "__main__":
    main()

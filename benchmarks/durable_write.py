"""A durable write: intent and key on disk before the call, result after it; two commits, each with fsync.

Floor: the bare SQL that this needs, through the sqlite3 module on the same disk and with the same settings (WAL,
synchronous=FULL): one transaction that checks the fence and inserts the effect and its step, one that checks it and
updates both. PostgreSQL is printed beside where its wheel is installed.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from measure import Figure, paired, report, spread

from otel_agent_replay.ledger import open_ledger, worker_name

WRITES = 20
DIGEST = b"d" * 32


def ours(url: str):
    """Return an action of WRITES durable writes."""
    book = open_ledger(url)
    lease = book.begin_run(os.urandom(16), "bench", worker=worker_name(), lease_s=600)
    numbers = itertools.count(1)

    def action() -> None:
        for _ in range(WRITES):
            number = next(numbers)
            key = f"key-{number}"
            lease.intend(
                tool="refund",
                key=key,
                step=number,
                path="run:bench#0/tool:refund#0",
                side_effect="write",
                request_digest=DIGEST,
                arguments=b'{"order":"17"}',
            )
            lease.finish(tool="refund", key=key, failed=False, result_digest=DIGEST, result=b'{"refunded":1}')

    return action


def bare(path: Path):
    """Return the same in bare SQL."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE TABLE runs (run_id BLOB PRIMARY KEY, fence INTEGER, updated INTEGER);"
        "CREATE TABLE effects (run_id BLOB, tool TEXT, key TEXT, status TEXT, request BLOB, arguments BLOB, result BLOB,"
        " digest BLOB, began INTEGER, ended INTEGER, PRIMARY KEY (run_id, tool, key));"
        "CREATE TABLE steps (run_id BLOB, fence INTEGER, step INTEGER, name TEXT, status TEXT, request BLOB, digest BLOB,"
        " began INTEGER, ended INTEGER, PRIMARY KEY (run_id, fence, step));"
        "INSERT INTO runs VALUES (x'01', 1, 0);"
    )
    numbers = itertools.count(1)

    def action() -> None:
        for _ in range(WRITES):
            number, now = next(numbers), time.time_ns()
            key = f"key-{number}"
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE runs SET updated = ? WHERE run_id = x'01' AND fence = 1", (now,))
            db.execute("SELECT status FROM effects WHERE run_id = x'01' AND tool = 'refund' AND key = ?", (key,))
            db.execute(
                "INSERT INTO effects VALUES (x'01', 'refund', ?, 'intended', ?, ?, NULL, x'', ?, 0)",
                (key, DIGEST, b'{"order":"17"}', now),
            )
            db.execute(
                "INSERT INTO steps VALUES (x'01', 1, ?, 'refund', 'intended', ?, x'', ?, 0)", (number, DIGEST, now)
            )
            db.execute("COMMIT")
            now = time.time_ns()
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE runs SET updated = ? WHERE run_id = x'01' AND fence = 1", (now,))
            db.execute(
                "UPDATE effects SET status = 'done', result = ?, digest = ?, ended = ?"
                " WHERE run_id = x'01' AND tool = 'refund' AND key = ?",
                (b'{"refunded":1}', DIGEST, now, key),
            )
            db.execute(
                "UPDATE steps SET status = 'done', digest = ?, ended = ? WHERE run_id = x'01' AND fence = 1 AND step = ?",
                (DIGEST, now, number),
            )
            db.execute("COMMIT")

    return action


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="."))
    try:
        pairs = paired(ours(f"sqlite:///{folder.resolve() / 'ledger.sqlite'}"), bare(folder / "bare.sqlite"), rounds=15)
        times = [1000 * a / WRITES for a, _ in pairs]
        middle, low, high = spread(times)
        ratio, _, _ = spread([a / b for a, b in pairs])
        floor = 1000 * min(b for _, b in pairs) / WRITES
        figures = [
            Figure(
                "a durable write (intent and result, each on disk), SQLite",
                middle,
                1.5,
                "ms",
                low=low,
                high=high,
                detail=f"({ratio:.2f} x the bare SQL, which takes {floor:.2f} ms)",
            )
        ]
        with ExitStack() as stack:
            try:
                from tests.support.postgres import postgres_url

                url = stack.enter_context(postgres_url())
            except BaseException as error:
                print(f"PostgreSQL left out: {error}")
            else:
                action = ours(url)
                action()
                started = time.perf_counter()
                action()
                print(f"info: PostgreSQL: {1000 * (time.perf_counter() - started) / WRITES:.2f} ms a durable write")
        return report("durable_write", figures)
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


if __name__ == "__main__":
    raise SystemExit(main())

"""Forks processes that record as fast as they can, and kills each at a random moment.

    python -m tests.support.killed_recorder LAKE KILLS SEED

What a worker was told to be written ("acknowledged") goes to standard output, one line each, as soon as it is:
`run RUN`, `begin RUN SPAN DIGEST`, `end RUN SPAN DIGEST`, `finish RUN`; the last line is `done`.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from otel_agent_replay.export.journal import Journal
from otel_agent_replay.model import Payload
from tests.support.journal_runs import JournalRun


def acknowledge(*words: object) -> None:
    line = " ".join(word.hex() if isinstance(word, bytes) else str(word) for word in words) + "\n"
    os.write(1, line.encode())  # shorter than PIPE_BUF: lines of several writers do not mix


def record(journal: Journal, draw: random.Random) -> None:
    while True:
        run = JournalRun(journal, run_id=None)
        if run.ok:
            acknowledge("run", run.run_id)
        prompt = draw.randbytes(draw.choice([50, 3000, 20_000]))
        for _ in range(draw.randrange(60)):
            prompt += draw.randbytes(20)
            request, result = Payload.of(prompt, "text/plain"), Payload.of(draw.randbytes(30), "text/plain")
            span_id = run.begin("call", request)
            acknowledge("begin", run.run_id, span_id, request.digest)
            if run.end(span_id, result):
                acknowledge("end", run.run_id, span_id, result.digest)
        if run.finish():
            acknowledge("finish", run.run_id)


def worker(lake: Path, seed: int) -> None:
    journal = Journal(lake, segment_bytes=200_000, lock_timeout_s=30)
    others = [threading.Thread(target=record, args=(journal, random.Random(seed + 1)))] if seed % 3 == 0 else []
    for other in others:
        other.start()
    record(journal, random.Random(seed))


def main() -> None:
    lake, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    draw = random.Random(seed)
    for number in range(kills):
        pid = os.fork()
        if pid == 0:
            try:
                worker(lake, seed * 1000 + number)
            finally:
                os._exit(1)
        time.sleep(draw.uniform(0.0, 0.02))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            sys.exit(f"worker {number} ended by itself")
    acknowledge("done")


if __name__ == "__main__":
    main()

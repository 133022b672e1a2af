"""A refund desk with many workers, and somebody who kills them at random moments.

    python -m tests.support.refund_desk LAKE LEDGER SERVER TASKS WORKERS KILLS SEED

Each task is one run: three model calls, a lookup, a refund. A worker starts the run of a task, or resumes it where an
earlier worker left it. Workers are forked from this process, which has everything imported and nothing configured, and
die by SIGKILL until there were KILLS of them; then the rest is finished. Prints one JSON line of counts.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import httpx2

import otel_agent_replay as replay
import otel_agent_replay.ledger.ledger
import otel_agent_replay.replay.continued_runs
import otel_agent_replay.replay.entry
from otel_agent_replay.boundary.crossing import current
from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.model import RunStatus

SERVER = ""
TASKS = Path()


def client() -> httpx2.Client:
    return httpx2.Client(base_url=SERVER, timeout=60)


def ask(order: str, turn: int) -> str:
    with client() as http:
        body = {"model": "m", "messages": [{"role": "user", "content": f"{order} turn {turn}"}]}
        return http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]


@replay.tool(side_effect="read")
def find_order(order: str) -> dict:
    with client() as http:
        return http.get(f"/orders/{order}").json()


@replay.tool(side_effect="write")
def refund(order: str, cents: int, idempotency_key: str = "") -> dict:
    with client() as http:
        headers = {"Idempotency-Key": idempotency_key}
        return http.post("/refunds", json={"order": order, "cents": cents}, headers=headers).json()


@replay.agent(name="desk")
def desk(order: str) -> list:
    told = TASKS / f"{order}.run"
    here = current.get()
    if here is None:
        raise RuntimeError(f"the run of {order} is not recorded")
    if not told.exists():
        part = TASKS / f"{order}.{os.getpid()}"
        part.write_text(here[0].run_id.hex())
        part.rename(told)
    first = ask(order, 1)
    with replay.step("look"):
        found = find_order(order)
        second = ask(order, 2)
    replay.checkpoint("before refund", {"order": found}, resumable=True)
    paid = refund(order, found["cents"])
    return [first, second, paid, ask(order, 3)]


def work(task: str, lake: Path, ledger: str) -> int:
    """Do or resume one task; return the process's exit code."""
    replay.configure(lake=lake, ledger=ledger, seal="off", lease_s=600)
    told = TASKS / f"{task}.run"
    try:
        if told.exists():
            replay.resume(told.read_text(), desk)
        else:
            desk(task)
    except replay.RunBusy:  # another worker has it
        return 75
    except replay.CannotJudge:  # it has finished: its worker died between the run's end and saying so
        if load_run(lake, told.read_text(), facts=False).run.status is not RunStatus.OK:
            raise
    (TASKS / f"{task}.done").touch()
    return 0


def fork_worker(task: str, lake: Path, ledger: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    faulthandler.dump_traceback_later(60, exit=True)  # a worker that hangs says where
    try:
        code = work(task, lake, ledger)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    global SERVER, TASKS
    lake, ledger, SERVER = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    tasks, workers, kills, seed = map(int, sys.argv[4:8])
    TASKS = lake.parent / "tasks"
    TASKS.mkdir()
    names = [f"order-{number}" for number in range(tasks)]
    draw = random.Random(seed)
    alive: dict[int, str] = {}
    killed = failed = busy = 0
    while True:
        open_tasks = [name for name in names if not (TASKS / f"{name}.done").exists()]
        if not open_tasks and killed < kills:
            sys.exit(f"all tasks were done after {killed} kills: give it more tasks")
        if not open_tasks and not alive:
            break
        while open_tasks and len(alive) < workers:
            # Now and then two workers want the same run; a task that nobody has begun is one worker's.
            free = [name for name in open_tasks if name not in alive.values()]
            begun = [name for name in open_tasks if (TASKS / f"{name}.run").exists()]
            wanted = begun if begun and (not free or draw.random() < 0.1) else free
            if not wanted:
                break
            task = draw.choice(wanted)
            alive[fork_worker(task, lake, ledger)] = task
        time.sleep(draw.uniform(0.0, 0.05))
        if killed < kills and alive:
            begun = [pid for pid, task in alive.items() if (TASKS / f"{task}.run").exists()]
            victim = draw.choice(begun if begun and draw.random() < 0.8 else list(alive))  # mostly in mid-run
            os.kill(victim, signal.SIGKILL)
            killed += 1
        for pid in list(alive):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del alive[pid]
                code = os.waitstatus_to_exitcode(status)
                busy += code == 75
                failed += code == 1
        if failed:
            sys.exit(f"{failed} workers failed")
    print(json.dumps({"killed": killed, "busy": busy}))


if __name__ == "__main__":
    main()

"""A worker in a process of its own, told what to do with a run of a ledger.

    python -m tests.support.ledger_worker URL RUN WORKER

Opens the ledger, says `ready`, then reads one JSON object a line, `{"do": NAME, ...}`, and answers each with one line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import AgentReplayError, LeaseLost
from otel_agent_replay.ledger import Lease, Ledger, open_ledger, worker_name

ROOT = Path(__file__).parents[2]


def effect(key: str, **more: Any) -> dict[str, Any]:
    """The arguments of an intent."""
    return {
        "tool": "refund",
        "key": key,
        "step": 1,
        "path": "run:a#0/tool:refund#0",
        "side_effect": "write",
        "request_digest": b"q" * 32,
        "arguments": b"{}",
        **more,
    }


class Desk:
    """What a worker can be told."""

    def __init__(self, ledger: Ledger, run_id: bytes, worker: str) -> None:
        self.ledger = ledger
        self.run_id = run_id
        self.worker = worker or worker_name()
        self.lease: Lease | None = None

    def take_over(self, lease_s: float = 60) -> int:
        self.lease = self.ledger.take_over(self.run_id, "a", worker=self.worker, lease_s=lease_s)
        return self.lease.fence

    def intend(self, key: str) -> str:
        assert self.lease is not None
        return self.lease.intend(**effect(key)).status.value

    def limit_files(self, size: int) -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond it fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    def fork(self) -> dict[str, Any]:
        """Let a forked child use the lease and the ledger; return what it saw."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            told = json.dumps(self._seen_in_child()).encode()
            os.write(writer, told)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            told = answer.read()
        os.waitpid(pid, 0)
        return dict(json.loads(told))

    def _seen_in_child(self) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for name, action in (
            ("lease", lambda: self.intend("from the child")),
            ("runs", lambda: len(self.ledger.runs())),
            ("own", lambda: self.ledger.begin_run(os.urandom(16), "child", worker="c", lease_s=60).fence),
        ):
            seen[name] = answered(action)
        return seen


def answered(action: Any) -> Any:
    try:
        return action()
    except (AgentReplayError, LeaseLost) as error:
        return f"{type(error).__name__}: {error}"


class Worker:
    """A worker as its parent sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def tell(self, do: str, **arguments: Any) -> None:
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        assert line, f"the worker ended with {self.process.wait()}"
        return json.loads(line)

    def ask(self, do: str, **arguments: Any) -> Any:
        self.tell(do, **arguments)
        return self.answer()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def started(url: str, run_id: bytes, *workers: str) -> Iterator[list[Worker]]:
    """Start workers with these names ("": its real one) and yield them once all have opened the ledger."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.ledger_worker", url, run_id.hex(), worker],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for worker in workers
    ]
    try:
        found = [Worker(process) for process in processes]
        assert [worker.answer() for worker in found] == ["ready"] * len(found)
        yield found
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def main() -> None:
    url, run, worker = sys.argv[1:4]
    ledger = open_ledger(url)
    desk = Desk(ledger, bytes.fromhex(run), worker)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        action = getattr(desk, told.pop("do"))
        print(json.dumps(answered(lambda action=action, told=told: action(**told))), flush=True)
    ledger.close()


if __name__ == "__main__":
    main()

"""Exactly once under fire: workers of a refund desk are killed at random, money moves once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.ledger import open_ledger
from otel_agent_replay.model import Kind, OutcomeStatus, RunStatus
from otel_agent_replay.testing.provider import Reply, ScriptedProvider
from tests.support.postgres import postgres_url

ROOT = Path(__file__).parent.parent.parent
KILLS, WORKERS, TASKS = 300, 12, 120
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class Bank:
    """A model, an order store and a payment service that counts by key, as such services do."""

    def __init__(self):
        self.lock = threading.Lock()
        self.asked = Counter()
        self.keys = {}
        self.moved = Counter()

    def __call__(self, request):
        if "chat" in request.path:
            turn = re.search(rb"order-\d+ turn \d", request.body).group().decode()
            with self.lock:
                self.asked[turn] += 1
            return Reply.of_json(ANSWER)
        if request.path.startswith("/orders/"):
            return Reply.of_json({"id": request.path.rpartition("/")[2], "cents": 4900})
        wanted = json.loads(request.body)
        key = {name.lower(): value for name, value in request.headers}["idempotency-key"]
        with self.lock:
            self.keys.setdefault(wanted["order"], set()).add(key)
            if (wanted["order"], key) not in self.moved:
                self.moved[wanted["order"], key] = wanted["cents"]
        return Reply.of_json({"refunded": wanted["cents"], "key": key})


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request, tmp_path):
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    else:
        with postgres_url() as url:
            yield url


@pytest.mark.slow
@pytest.mark.crowd
def test_300_kills_of_twelve_workers_move_money_exactly_once(ledger_url, tmp_path):
    """Every run finishes after resumes, each order is paid once under one key, no completed model call is repeated."""
    lake, bank = tmp_path / "lake", Bank()
    with ScriptedProvider(bank) as provider:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.support.refund_desk",
                *map(str, (lake, ledger_url, provider.url, TASKS, WORKERS, KILLS, 7)),
            ],
            check=False,
            cwd=tmp_path,  # outside the repository: its next commit is no change of this agent
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)["killed"] == KILLS

    orders = [f"order-{number}" for number in range(TASKS)]
    assert sorted(bank.keys) == sorted(orders)
    assert {order: len(keys) for order, keys in bank.keys.items()} == dict.fromkeys(orders, 1)
    assert sum(bank.moved.values()) == TASKS * 4900

    attempts = 0
    book = open_ledger(ledger_url)
    every = {order: book.effects(bytes.fromhex(told_run(tmp_path, order))) for order in orders}
    book.close()
    for order in orders:
        run = load_run(lake, told_run(tmp_path, order))
        assert run.run.status is RunStatus.OK
        attempts += run.run.attempt
        nodes = [node for node in run.nodes if node.kind is Kind.MODEL]
        assert [node.outcome.status for node in nodes] == [OutcomeStatus.OK] * 3
        begun = Counter(superseded_turns(run, order)) + Counter(f"{order} turn {turn}" for turn in (1, 2, 3))
        for turn in (1, 2, 3):
            asked = bank.asked[f"{order} turn {turn}"]
            assert 1 <= asked <= begun[f"{order} turn {turn}"], (order, turn)
        (effect,) = every[order]
        assert (effect.status, effect.key) == ("done", next(iter(bank.keys[order])))
    print(f"{attempts} attempts at {TASKS} runs")
    assert attempts > TASKS  # runs were gone on with; how many a kill hits is the machine's affair


def told_run(tmp_path, order):
    """Return the id of the run of an order."""
    return (tmp_path / "tasks" / f"{order}.run").read_text()


def superseded_turns(run, order):
    """Yield the turn of each model call that was in flight when its worker died."""
    for item in run.superseded:
        node = item.node
        if node.kind is Kind.MODEL:
            body = run.payload(node.call.request.digest) if node.call.request.data is None else node.call.request.data
            yield re.search(rb"order-\d+ turn \d", body).group().decode()

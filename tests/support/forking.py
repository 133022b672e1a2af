"""A world to fork runs in: a model, a payment service, a recording process, and a fork in this process."""

from __future__ import annotations

import hashlib
import json

import pytest

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.replay.continued_runs import ContinuedRuns
from otel_agent_replay.replay.fork import PreparedFork
from otel_agent_replay.testing.provider import Reply, ScriptedProvider
from tests.support import desk_agents


class World:
    """A model that says which request it answers, and a payment service that remembers every write."""

    def __init__(self):
        self.models, self.writes = [], []

    def model(self, request):
        body = json.loads(request.body)
        self.models.append(body)
        text = f"{body['model']}: {body['messages'][-1]['content'][:20]}"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return Reply.of_json(
            {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        )

    def pay(self, request):
        self.writes.append(request.body)
        return Reply.of_json({"paid": True})


@pytest.fixture
def world(monkeypatch):
    """Two servers, named in the environment; yields what they were asked."""
    seen = World()

    def answer(request):  # a test may put another model in its place
        return seen.model(request)

    with ScriptedProvider(answer) as model, ScriptedProvider(seen.pay) as pay:
        monkeypatch.setenv("MODEL_URL", model.url)
        monkeypatch.setenv("PAY_URL", pay.url)
        yield seen


@pytest.fixture
def runtime(tmp_path):
    """A recording process."""
    yield replay.configure(lake=tmp_path / "lake", seal="off")
    replay.shutdown()


def recorded(runtime, agent=desk_agents.long):
    """Record a run and seal it; return it as the lake has it."""
    agent("17")
    runtime.journal.rotate()
    lake = runtime.settings.lake
    seal(lake)
    return Lake(lake).load(Lake(lake).runs(limit=1)[0].run.run_id)


def forked(runtime, origin, plan, agent=desk_agents.long, order="17"):
    """Fork a run in this process; return the fork, and what came of it (its error, or None)."""
    reports = []
    runs = ContinuedRuns(
        [origin],
        target=origin.run.run_id,
        recording=runtime.recording,
        redaction=runtime.redaction,
        reload=lambda _: origin,
        plan=PreparedFork(origin, plan),
        reported=reports.append,
    )
    error = None
    with opening_runs(runs):
        try:
            agent(order)
        except BaseException as caught:
            error = caught
    (report,) = reports
    return load_run(runtime.settings.lake, report.run_id), report, error


def facts(node):
    """Return what of a node must be the same in a shared prefix."""
    outcome = node.outcome
    result = None if outcome is None or outcome.result is None else outcome.result.digest
    request = None if node.call is None else node.call.digest
    return node.path, node.kind, node.step, request, result, None if outcome is None else outcome.status


def contents(folder):
    """Return a digest of every file below a folder."""
    return {
        path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.parquet"))
    }

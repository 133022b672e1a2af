"""The clerk's world, and a re-run of it in this process: everything but the child process and its walls."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.configure import Runtime
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.replay.rerun.outcome import RerunResult, result_of
from otel_agent_replay.replay.rerun.plan import Candidate, RerunPlan, edits_of
from otel_agent_replay.replay.rerun.route import World as RerunWorld
from otel_agent_replay.replay.rerun.runs import RerunRuns
from otel_agent_replay.testing.provider import Reply, SeenRequest
from tests.support import rerun_agents


class World:
    """A model that does as it is told by name, a shop that is read, and a bank that remembers every write."""

    def __init__(self) -> None:
        self.scripts: dict[str, Any] = {}  # by model; an iterator gives each question the next one
        self.orders: dict[str, str] = {}
        self.asked: list[Any] = []
        self.read: list[str] = []
        self.rehearsed: list[Any] = []
        self.writes: list[tuple[str, bytes]] = []
        self.served = ""  # the model that answers; "": the one that was asked
        self.tells_use = True

    def model(self, request: SeenRequest) -> Reply:
        body = json.loads(request.body)
        self.asked.append(body)
        script = self.scripts.get(body["model"], [])
        content = json.dumps(next(script) if isinstance(script, Iterator) else script)
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
        model = self.served or body["model"]
        answer = {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
        return Reply.of_json({**answer, "usage": usage} if self.tells_use else answer)

    def shop(self, request: SeenRequest) -> Reply:
        if request.method == "POST":
            self.rehearsed.append(json.loads(request.body))
            return Reply.of_json({"rehearsed": True})
        self.read.append(request.path)
        return Reply.of_json({"path": request.path, "state": self.orders.get(request.path.split("/")[-1], "open")})

    def bank(self, request: SeenRequest) -> Reply:
        self.writes.append((request.path, request.body))
        return Reply.of_json({"paid": True})


@dataclass
class Again:
    """A re-run that was made: what it came to, its recording, and the clerk's own list (None: it never came)."""

    result: RerunResult
    recorded: RecordedRun | None
    done: list[Any] | None
    error: BaseException | None

    @property
    def sources(self) -> dict[str, str]:
        """Who answered each named crossing; the last of a name."""
        assert self.recorded is not None
        return {node.name: node.source.value for node in self.recorded.nodes if node.kind.is_crossing}


class Clerk:
    """Records the clerk, and runs it again, in a runtime of this process."""

    def __init__(self, runtime: Runtime, world: World) -> None:
        self.runtime = runtime
        self.world = world

    def record(
        self, script: Sequence[Any], order: str = "17", *, agent: Callable[[str], Any] = rerun_agents.clerk
    ) -> RecordedRun:
        """Record a run whose model says `script`; return it as the lake has it."""
        self.world.scripts["old"] = script
        agent(order)
        self.runtime.journal.rotate()
        lake = self.runtime.settings.lake
        seal(lake)
        newest = next(one.run for one in Lake(lake).runs() if one.run.agent == "clerk")
        return Lake(lake).load(newest.run_id)

    def rerun(
        self,
        origin: RecordedRun,
        says: Sequence[Any] | None = None,
        *,
        agent: Callable[[str], Any] = rerun_agents.clerk,
        pool: Sequence[RecordedRun] = (),
        simulator: Any = None,
        inner: Sequence[RecordedRun] = (),
        max_steps: int = 0,
        key: str = "",
        identity: Sequence[str] = (),
        **plan: Any,
    ) -> Again:
        """Run it again on model `new`, which says `says`."""
        self.world.scripts["new"] = says
        candidate = plan.pop("candidate", Candidate(model="new"))
        edits = edits_of(candidate, (), plan.pop("prompt", None), read=str)
        made = RerunPlan(candidate=candidate, edits=edits, pool=tuple(one.run.run_id.hex() for one in pool), **plan)
        world = RerunWorld(
            made,
            origin,
            load_pool=lambda _: pool,
            simulator=simulator,
            key=key,
            identity=identity,
            now_ns=time.time_ns(),
        )
        runs = RerunRuns(
            [origin, *inner],
            world,
            recording=self.runtime.recording,
            redaction=self.runtime.redaction,
            max_steps=max_steps,
        )
        done, error = None, None
        with opening_runs(runs):
            try:
                done = agent("17")
            except BaseException as caught:
                error = caught
        report = runs.report()
        recorded = load_run(self.runtime.settings.lake, report.run_id) if report.run_id else None
        return Again(result_of(report, made.lane, 1, origin, recorded), recorded, done, error)

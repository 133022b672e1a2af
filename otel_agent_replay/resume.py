"""`replay.resume(run_id, function)`: finish a run in this process, where its recording ends."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.errors import CannotJudge


def resume(run_id: str, function: Callable[..., Any], *, changed: bool = False) -> Any:
    """Finish run `run_id` (an id or a unique prefix) by calling its agent with the recorded input; return its result.

    What is done comes from the recording, what was in flight is settled, the rest goes on live in the same run. Of a
    coroutine function the result is a coroutine, to be awaited. `configure()` must have been called, and its ledger
    is used: without one, a file beside the lake.

    Raises RunNotFound, CannotJudge (it has finished), RunBusy, FingerprintChanged (unless `changed`), and whatever the
    agent raises; ReplayDeparture, EffectInDoubt, AwaitingPerson, LeaseLost or StepLimit when it cannot go on.

        answer = replay.resume("0198c2", support)
    """
    from otel_agent_replay.configure import Runtime, configured
    from otel_agent_replay.replay.entry import recorded_arguments

    runtime: Runtime = configured()
    runs = runtime.resuming(run_id, changed=changed)
    recorded = runs.only_target()
    args, kwargs = recorded_arguments(recorded, function)
    if inspect.iscoroutinefunction(function):
        return _resumed(runs, function, args, kwargs)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise CannotJudge("an agent that yields is resumed by its command: `agent-replay resume RUN -- COMMAND`")
    with opening_runs(runs):
        return function(*args, **kwargs)


async def _resumed(runs: Any, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    with opening_runs(runs):
        return await function(*args, **kwargs)

"""LangGraph: graphs that go on from a recorded checkpoint, with their own saver gone.

Recording needs nothing of this: once `configure()` has run (or under `agent-replay record`), whatever a graph's
checkpointer saves inside a run is a checkpoint of the run, named "langgraph", with LangGraph's ids.

    from otel_agent_replay.langgraph import restore

    config = restore("01928f", 12, saver)  # step 12 of a recorded run, put into an empty saver
    graph.compile(checkpointer=saver).invoke(None, config)

Needs the extra `otel-agent-replay[langgraph]`.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from otel_agent_replay.boundary.frameworks.langgraph_savers import saver_to_enter_by, unrecorded
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.replay.langgraph_restore import RecordedSaves, SavedCheckpoint
from otel_agent_replay.settings import Settings

__all__ = ["SavedCheckpoint", "arestore", "checkpoints", "restore"]


def checkpoints(run: RecordedRun | str, *, lake: Path | str | None = None) -> list[SavedCheckpoint]:
    """Return the LangGraph checkpoints of a recorded run, in order.

    `run` is a loaded run, or an id (or its unique beginning) to be looked up in `lake` (default: the settings').
    Raises RunNotFound.
    """
    return RecordedSaves(_loaded(run, lake)).checkpoints()


def restore(run: RecordedRun | str, at: int | str, saver: Any, *, lake: Path | str | None = None) -> dict[str, Any]:
    """Save a recorded checkpoint, and those before it, in `saver`; return the config from which the graph goes on.

    `at` is a step of the run or an id of LangGraph's. At the step of a task's writes ("langgraph.writes") or of an
    inner graph's checkpoint, what had been done by then is not done again: of parallel nodes, those that were done.
    The graph then goes on from the thread's latest checkpoint, so that `saver` may hold nothing of the thread.

    Classes in the state must have been imported. Raises ConfigurationError for a place where nothing was saved and for
    a saver that holds the thread, CannotJudge for a state that was not kept whole, MissingPayload for one whose bytes
    were not kept.

        config = restore(run, 12, InMemorySaver())

    Called by code that is entered at a checkpoint (`@replay.agent(enter=...)`), it leaves a saver that outlives the
    process alone, as all of a fork does: the graph finds the state there all the same, and saves elsewhere.

        def enter(checkpoint, question):
            return GRAPH.invoke(None, restore(checkpoint.run, checkpoint.step, SAVER))
    """
    plan = _Restoring(_saves(run, lake), at, saver)
    with unrecorded():
        if plan.must_be_empty and plan.saver.get_tuple(plan.config) is not None:
            raise _held(plan.config)
        for method, arguments in plan.calls:
            getattr(plan.saver, method)(*arguments)
    return plan.config


async def arestore(
    run: RecordedRun | str, at: int | str, saver: Any, *, lake: Path | str | None = None
) -> dict[str, Any]:
    """Do the same with a saver that is asynchronous."""
    plan = _Restoring(_saves(run, lake), at, saver)
    with unrecorded():
        if plan.must_be_empty and await plan.saver.aget_tuple(plan.config) is not None:
            raise _held(plan.config)
        for method, arguments in plan.calls:
            await getattr(plan.saver, f"a{method}")(*arguments)
    return plan.config


class _Restoring:
    """What is to be saved where, and the config to go on from."""

    def __init__(self, saves: RecordedSaves, at: int | str, saver: Any) -> None:
        target = saves.at(at)
        self.calls = list(saves.calls_to_restore(target))
        thread_id = str(saves.config_at(target)["configurable"]["thread_id"])
        entered = saver_to_enter_by(saver, thread_id)
        self.saver = saver if entered is None else entered
        self.config = saves.config_at(target, latest=entered is not None)
        self.must_be_empty = entered is not None or saves.is_under_way(target)


def _held(config: dict[str, Any]) -> ConfigurationError:
    thread_id = config["configurable"]["thread_id"]
    return ConfigurationError(f"the saver holds a thread {thread_id!r} already: restore into an empty one")


def _saves(run: RecordedRun | str, lake: Path | str | None) -> RecordedSaves:
    if find_spec("langgraph") is None:
        raise ConfigurationError(
            "restoring a LangGraph checkpoint needs LangGraph: install otel-agent-replay[langgraph]"
        )
    return RecordedSaves(_loaded(run, lake))


def _loaded(run: RecordedRun | str, lake: Path | str | None) -> RecordedRun:
    if isinstance(run, RecordedRun):
        return run
    from otel_agent_replay.export.unsealed import load_run

    return load_run(Path(Settings.load({}).lake if lake is None else lake), run)

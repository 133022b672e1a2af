"""`python -m otel_agent_replay.replay.entry pkg.mod:func`: call an agent with its recorded input.

Runs in the child that `launch.entry_command` starts, which its start-up shim has made a replay already. The
function is named by the person who replays, never by the recording.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from otel_agent_replay.boundary.runs import run_factory
from otel_agent_replay.errors import AgentReplayError, CannotJudge, ConfigurationError, RecordingError
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.replay.continued_runs import ContinuedRuns
from otel_agent_replay.replay.proved import proved
from otel_agent_replay.replay.rerun.runs import RerunRuns
from otel_agent_replay.replay.runs import ReplayRuns


def load_entry(entry: str) -> Callable[..., Any]:
    """Return the function that `pkg.mod:qualified.name` names. Raises ConfigurationError, or what its import raises.

    CannotJudge where there is no such module: at another commit there may be one.
    """
    module_name, _, qualified = entry.partition(":")
    if not module_name or not qualified:
        raise ConfigurationError(f"entry {entry!r} is not like pkg.mod:func")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # it is there, and what it imports is not
        raise CannotJudge(
            f"{entry!r}: there is no module {error.name!r} to be found from {Path.cwd()}; run it from the "
            "application's folder, or install the application here"
        ) from error
    for part in qualified.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"module {module_name!r} has no {qualified!r}")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigurationError(f"{entry!r} is not a function")
    function: Callable[..., Any] = found
    return function


def recorded_arguments(recorded: RecordedRun, function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the recorded input as positional and named arguments of `function`.

    Raises CannotJudge when the input was not kept or cannot be called with.
    """
    given = recorded.input
    if given is None:
        raise CannotJudge("the input of this run was not recorded: replay it by its command")
    named = decode(proved(given, recorded.payload, "input of the run").data or b"{}")
    if not isinstance(named, dict):
        raise CannotJudge("the input of this run is not a set of named arguments: replay it by its command")
    extra = named.pop("*args", None)
    positional: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        if parameter.name not in named or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            continue
        if extra is not None or parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(named.pop(parameter.name))
    return [*positional, *(extra or ())], named


def items_taken(recorded: RecordedRun) -> int | None:
    """Return after how many items the consumer of a recorded generator left it; None where none is known to have."""
    outcome = recorded.outcome
    if outcome is None or outcome.result is None:
        return None
    try:
        output = decode(proved(outcome.result, recorded.payload, "output of the run").data or b"null")
    except RecordingError:
        return None
    left = isinstance(output, dict) and output.keys() == {"yielded", "closed"}
    return len(output["yielded"]) if left else None


def call_entry(
    function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], *, items: int | None = None
) -> None:
    """Call it and use its result as a caller would: awaited, or iterated to its end, or until it gave `items`."""
    result = function(*args, **kwargs)
    if inspect.isawaitable(result):
        asyncio.run(_awaited(result))
    elif inspect.isasyncgen(result):
        asyncio.run(_taken(result, items))
    elif inspect.isgenerator(result):
        for number, _ in enumerate(result, 1):
            if number == items:
                break
        result.close()


async def _awaited(result: Any) -> None:
    await result


async def _taken(result: AsyncGenerator[Any, Any], items: int | None) -> None:
    number = 0
    async for _ in result:
        number += 1
        if number == items:
            break
    await result.aclose()


def become_main(module: ModuleType) -> None:
    """Make an imported module what it was when it was recorded as a script: the tape knows its classes as `__main__`'s.

    Those that its functions make later go by the module's name, those that it has by their own.
    """
    imported_as = module.__name__
    module.__name__ = "__main__"
    sys.modules["__main__"] = module
    waiting = list(vars(module).values())
    while waiting:
        found = waiting.pop()
        if isinstance(found, type) and found.__module__ == imported_as:
            found.__module__ = "__main__"
            waiting += vars(found).values()


def main(arguments: list[str]) -> int:
    """Replay; the verdict goes where the start-up shim was told. Returns 125 when this process is no replay."""
    runs = run_factory()
    if len(arguments) != 1 or not isinstance(runs, (ReplayRuns, ContinuedRuns, RerunRuns)):
        sys.stderr.write("agent-replay: this module is started by `agent-replay replay|... RUN --entry ...`\n")
        return 125
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    recorded = runs.only_target()
    try:
        function = load_entry(arguments[0])
    except Exception as error:
        runs.not_begun = why_not_loaded(arguments[0], error)
        raise
    if recorded.run.entry.startswith("__main__:"):
        become_main(sys.modules[arguments[0].partition(":")[0]])
    try:
        args, kwargs = recorded_arguments(recorded, function)
    except AgentReplayError as error:
        runs.not_begun = str(error)
        raise
    call_entry(function, args, kwargs, items=items_taken(recorded))
    return 0


def why_not_loaded(entry: str, error: Exception) -> str:
    """Return why a run could not be begun, whose entry could not be imported; the traceback is on standard error."""
    if isinstance(error, AgentReplayError):
        return str(error)
    return f"{entry!r} could not be imported: {type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A process with everything imported and nothing configured, that forks a child for each scene it is told.

    python -m tests.support.resume_stage

Reads one JSON object a line, answers each with one line. `play` forks a child that configures itself from the
`environment` given (AGENT_REPLAY_*) and calls that agent of `tests.support.resumed_agents` with `arguments`, or
finishes the run `resume` with it by `replay.resume`, or as `--entry` does; the answer is its process id, what it prints
goes to the file `output`. `wait` answers how a child ended: it ends as a process does, with its exit handlers run; its
status is 75 when another worker has the run or a person must decide, 1 when the agent raised.
"""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import otel_agent_replay as replay
import otel_agent_replay.capture.effects
import otel_agent_replay.export.unsealed
import otel_agent_replay.lake.catalog
import otel_agent_replay.ledger.ledger
import otel_agent_replay.replay.child
import otel_agent_replay.replay.going_on
from otel_agent_replay.errors import AwaitingPerson, EffectInDoubt, LeaseLost
from otel_agent_replay.replay import entry
from tests.support import resumed_agents


def play(scene: dict[str, Any]) -> int:
    os.environ.update(scene["environment"])
    resumed_agents.WORLD = scene["world"]
    faulthandler.dump_traceback_later(50, exit=True)  # a child that hangs says where
    called: Callable[..., Any] = getattr(resumed_agents, scene["play"])
    try:
        replay.configure()
        if scene.get("entry"):
            entry.main([f"tests.support.resumed_agents:{scene['play']}"])
            return 0
        if scene.get("resume"):
            result = replay.resume(scene["resume"], called, changed=bool(scene.get("changed")))
        else:
            result = called(*scene["arguments"])
        if inspect.isgenerator(result):
            result = list(result)
        if inspect.isawaitable(result):
            result = asyncio.run(awaited(result))
        print(json.dumps(result))
    except (replay.RunBusy, LeaseLost, EffectInDoubt, AwaitingPerson) as error:
        print(f"{type(error).__name__}: {error}")
        return 75
    except BaseException as error:
        traceback.print_exc()
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


async def awaited(result: Any) -> Any:
    return await result


def fork(scene: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        handle = os.open(scene["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        code = play(scene)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def main() -> None:
    for line in sys.stdin:
        told = json.loads(line)
        if "wait" in told:
            answer = os.waitstatus_to_exitcode(os.waitpid(told["wait"], 0)[1])
        else:
            answer = fork(told)
        print(answer, flush=True)


if __name__ == "__main__":
    main()

"""A backoff of thirty minutes in a component run: how much real time it takes.

An orchestrator whose tool fails twice waits ten and then twenty minutes, once with `time.sleep` and once with
`asyncio.sleep` under a deadline of an hour. What is timed is the whole run of the case: fixtures, virtual time, event
log and its judgement, with the hooks in place as they are in a session of tests. Floor: the same orchestrator called
bare, its tool a plain function that fails twice, its waits left out. Beside it the first run, which puts the hooks up.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measure import Figure, paired, report, spread, timed

import otel_agent_replay as replay
from otel_agent_replay.testing import component_hooks, run_component

HALF_AN_HOUR_S = 1800
FIXTURE = {"tool": "ask", "attempts": [{"refused": True}, {"refused": True}, {"value": "yes"}]}


@replay.tool(side_effect="read")
def ask(failures):
    """Fail twice, then answer; in a component run the fixture answers."""
    if failures:
        failures.pop()
        raise ConnectionRefusedError
    return "yes"


@replay.agent
def waiting(failures=(1, 1), waits=True):
    """Back off for half an hour in a plain thread."""
    left = list(failures)
    for seconds in (600, 1200, 0):
        try:
            return ask(left)
        except ConnectionRefusedError:
            if waits:
                time.sleep(seconds)
    return None


@replay.agent
async def waiting_in_a_task(failures=(1, 1), waits=True):
    """Back off for half an hour in a task, under a deadline."""

    async def tries():
        left = list(failures)
        for seconds in (600, 1200, 0):
            try:
                return ask(left)
            except ConnectionRefusedError:
                if waits:
                    await asyncio.sleep(seconds)
        return None

    return await asyncio.wait_for(tries(), 3600)


def run(name):
    """Run the case once, and hold it to what it must be."""
    result = run_component({"entry": f"{__name__}:{name}", "fixtures": [FIXTURE]})
    assert result.check().elapsed_s == HALF_AN_HOUR_S
    assert result.result == "yes"


def main() -> int:
    figures = []
    first_s = timed(lambda: run("waiting"))
    with component_hooks():
        for name, bare in (
            ("waiting", lambda: waiting(waits=False)),
            ("waiting_in_a_task", lambda: asyncio.run(waiting_in_a_task(waits=False))),
        ):
            pairs = paired(lambda name=name: run(name), bare, rounds=40)
            wall, low, high = spread([subject * 1e3 for subject, _ in pairs])
            floor, _, _ = spread([floor * 1e3 for _, floor in pairs])
            how = "time.sleep" if name == "waiting" else "asyncio.sleep under wait_for"
            figures.append(
                Figure(
                    f"a backoff of 30 minutes, {how}",
                    wall,
                    50.0,
                    "ms of real time",
                    low=low,
                    high=high,
                    detail=f"the same code bare, without its waits: {floor:.2f} ms; "
                    f"a first run, hooks put up and taken down: {first_s * 1e3:.0f} ms",
                )
            )
    return report("component_backoff", figures)


if __name__ == "__main__":
    raise SystemExit(main())

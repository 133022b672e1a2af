"""Going on from a recording: how soon a resumed run is at its live step, and how soon a fork is ready.

Resume: a run of a hundred model steps that died in step 101, through the openai client over a loopback server. What is
timed is from loading the recording to the moment the first live call is made. Floor: the exact replay of the same run,
loaded the same way, to the same moment.

Fork: a run of a thousand tool steps in the lake. Timed is from nothing to a fork that is ready to run: the origin
loaded, the plan checked, tape and answers indexed; the bytes of what it shares are not copied. The loading alone is
printed beside it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import openai
from measure import Figure, paired, report, spread, timed

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.demo import server
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import RunStatus
from otel_agent_replay.replay.continued_runs import ContinuedRuns
from otel_agent_replay.replay.fork import ForkPlan, PreparedFork
from otel_agent_replay.replay.runs import ReplayRuns

STEPS = 100


class Died(BaseException):
    """The process dies here."""


class Arrived(BaseException):
    """The first live call is made."""


def agent_of(client, at_the_end):
    """Return an agent of STEPS model calls, which then raises, or calls the tool that raises, what `at_the_end` holds."""

    @replay.tool(side_effect="read")
    def last(number):
        raise at_the_end[0]

    @replay.agent(name="bench")
    def bench():
        for number in range(STEPS):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"step {number}"}])
        if isinstance(at_the_end[0], Died):
            raise at_the_end[0]
        last(STEPS)

    return bench


def until(expected, action) -> None:
    try:
        action()
    except expected:
        return
    raise SystemExit(f"{expected} was expected")


def resume_figure(folder: Path) -> Figure:
    at_the_end = [Died()]
    with server.serving() as url:
        runtime = replay.configure(lake=folder, seal="off")
        bench = agent_of(openai.OpenAI(api_key="k", base_url=url, max_retries=0), at_the_end)
        session = []
        close = runtime.recording.close

        def never_closed(opened, **how):  # the process dies: nothing more is written of the run
            session.append(opened)
            opened.close()
            if opened.effects is not None:
                opened.effects.closed(RunStatus.PENDING)  # the next round need not wait for the lease

        runtime.recording.close = never_closed
        until(Died, bench)
        runtime.recording.close = close
        runtime.journal.rotate()
        run_id = session[0].run_id

    def resumed() -> None:
        at_the_end[0] = Arrived()
        recorded = load_run(folder, run_id.hex(), facts=False)
        runs = ContinuedRuns(
            [recorded],
            target=run_id,
            recording=runtime.recording.with_effects(runtime._effects),
            redaction=runtime.redaction,
            reload=lambda one: load_run(folder, one.hex(), facts=False),
        )
        runtime.recording.close = never_closed
        with opening_runs(runs):
            until(Arrived, bench)
        runtime.recording.close = close

    def replayed() -> None:
        recorded = load_run(folder, run_id.hex(), facts=False)
        runs = ReplayRuns([recorded], target=run_id, opener=runtime.recording.open, closer=runtime.recording.close)
        at_the_end[0] = Died()
        with opening_runs(runs):
            until(Died, bench)

    middle, low, high = spread([a / b for a, b in paired(resumed, replayed, rounds=9)])
    figure = Figure(
        "resume of a 100-step run to its live step, against its exact replay",
        middle,
        1.3,
        "x",
        low=low,
        high=high,
        detail=f"({1000 * min(timed(resumed) for _ in range(3)):.0f} ms against "
        f"{1000 * min(timed(replayed) for _ in range(3)):.0f} ms)",
    )
    replay.shutdown()
    return figure


def fork_figures(folder: Path) -> list[Figure]:
    @replay.tool(side_effect="read")
    def look(number):
        return {"number": number, "text": "x" * 200}

    @replay.agent(name="bench")
    def bench():
        for number in range(1000):
            look(number)

    runtime = replay.configure(lake=folder, seal="off")
    bench()
    runtime.journal.rotate()
    seal(folder)
    run_id = Lake(folder).runs(limit=1)[0].run.run_id
    plan = ForkPlan.from_arguments(500, settings=["model=other"], read=str)

    def ready():
        origin = Lake(folder).load(run_id)
        fork = PreparedFork(origin, plan)
        return ContinuedRuns(
            [origin],
            target=run_id,
            recording=runtime.recording,
            redaction=runtime.redaction,
            reload=lambda _: origin,
            plan=fork,
        )

    times = sorted(1000 * timed(ready) for _ in range(25))
    loading = min(1000 * timed(lambda: Lake(folder).load(run_id)) for _ in range(10))
    replay.shutdown()
    return [
        Figure(
            "fork of a thousand-step run, ready to run",
            times[len(times) // 2],
            50,
            "ms",
            low=times[len(times) // 4],
            high=times[3 * len(times) // 4],
            detail=f"(of which loading the origin {loading:.0f} ms)",
        )
    ]


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    return report("go_on", [resume_figure(folder / "resume"), *fork_figures(folder / "fork")])


if __name__ == "__main__":
    raise SystemExit(main())

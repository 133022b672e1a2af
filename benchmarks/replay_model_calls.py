"""Exact replay of model calls through the openai client, beside the client's own floor and vcrpy.

Floor: the same client over its own MockTransport with canned bytes. Peer: vcrpy playing a cassette of the same calls
(matching on method, URI and body, as exactness needs). The replay is the real one: matching, order, fence of departures,
its own recording as a run. The client takes most of the time of a replay and all of it is also in vcrpy's; so the same
requests are also made by a bare HTTP client, which shows the two replayers alone.

The figure above the floor is the thread's CPU time of the calls and of opening and closing the run, best against
best of rounds taken in turn; what is paid once, loading the run out of the lake, is reported apart. The comparison
with vcrpy is of whole replays, loading included on both sides: the CPU time of all threads of the process, best against
best of rounds taken in turn, with the spread of the rounds' own ratios; the wall clock's best is told beside it. Rounds
replay one of two equal runs in turn, so that nothing that is known of the last file read spares the next one anything.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import httpx2
import openai
import vcr
from measure import Figure, report, spread

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import set_run_factory
from otel_agent_replay.demo import server
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.replay.runs import ReplayRuns

PLAIN = b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}'
_clock = (time.thread_time,)  # in a tuple: names of the module are rebound by the recorder
_clocks = (time.process_time, time.perf_counter)
TURN = 3000  # bytes that each step adds to the conversation


def client_of(url: str, **options) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url=url, max_retries=0, **options)


def httpx2_client(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url)


def ask(client: openai.OpenAI | httpx2.Client, url: str, messages: list[dict[str, str]]) -> None:
    if isinstance(client, httpx2.Client):
        client.post(f"{url}/chat/completions", json={"model": "m", "messages": messages}).json()
    else:
        client.chat.completions.create(model="m", messages=messages)


def converse(client: openai.OpenAI | httpx2.Client, url: str, steps: int, growing: bool) -> None:
    messages = [{"role": "system", "content": "You are an agent."}]
    for number in range(steps):
        text = f"step {number} " + ("x" * TURN if growing else "")
        request = [*messages, {"role": "user", "content": text}]
        ask(client, url, request)
        if growing:
            messages = [*request, {"role": "assistant", "content": "Hello there"}]


def recorded_run(folder: Path, client, steps: int, growing: bool, url: str):
    runtime = replay.configure(lake=folder, seal="off")
    agent = replay.agent(name="bench")(lambda: converse(client, url, steps, growing))
    for _ in range(2):
        agent()
        runtime.journal.rotate()
        seal(folder)  # a file for each
    lake = Lake(folder)
    return runtime, agent, lake, [listed.run.run_id for listed in lake.runs(limit=2)]


def replaying(runtime, agent, lake, run_ids):
    """Return an action that loads the next of the runs and replays it, as `agent-replay replay` does in its child."""
    turn = cycle(run_ids)

    def action() -> None:
        run_id = next(turn)
        runs = ReplayRuns(
            [lake.load(run_id)], target=run_id, opener=runtime.recording.open, closer=runtime.recording.close
        )
        set_run_factory(runs)
        agent()
        set_run_factory(runtime.recording)
        if runs.verdict().exit_code != 0:
            raise SystemExit(f"the replay departed: {runs.verdict()}")

    return action


def above_the_floor(
    runtime, agent, lake, run_ids, floor, steps: int, rounds: int = 15
) -> tuple[list[float], float, float]:
    """Return the milliseconds a call beyond the floor in each round, those of the floor, and those of one loading."""
    clock = _clock[0]
    replays, floors, loads = [], [], []
    for run_id in islice(cycle(run_ids), rounds):
        started = clock()
        recorded = lake.load(run_id)
        loads.append(clock() - started)
        runs = ReplayRuns([recorded], target=run_id, opener=runtime.recording.open, closer=runtime.recording.close)
        set_run_factory(runs)
        started = clock()
        agent()
        replays.append(clock() - started)
        set_run_factory(runtime.recording)
        if runs.verdict().exit_code != 0:
            raise SystemExit(f"the replay departed: {runs.verdict()}")
        started = clock()
        floor()
        floors.append(clock() - started)
    beyond = [1000 * (a - b) / steps for a, b in zip(replays, floors)]
    best = 1000 * (min(replays) - min(floors)) / steps
    return [best, *beyond], 1000 * min(floors) / steps, 1000 * min(loads)


def cassette(path: Path, client, steps: int, growing: bool, url: str):
    recorder = vcr.VCR(match_on=["method", "uri", "body"], record_mode="once")
    with recorder.use_cassette(str(path)):
        converse(client, url, steps, growing)

    def action() -> None:
        with recorder.use_cassette(str(path), record_mode="none"):
            converse(client, url, steps, growing)

    return action


def in_turn(*actions, rounds: int) -> list[list[tuple[float, float]]]:
    """Return the CPU and wall seconds of each action in each round, after one that is not counted."""
    cpu, wall = _clocks
    taken: list[list[tuple[float, float]]] = [[] for _ in actions]
    for number in range(rounds + 1):
        for action, times in zip(actions, taken, strict=True):
            gc.collect()
            of_cpu, of_wall = cpu(), wall()
            action()
            if number:
                times.append((cpu() - of_cpu, wall() - of_wall))
    return taken


def beside_vcrpy(folder: Path, make, url: str, canned, steps: int, label: str) -> Figure:
    """Hold whole replays against vcrpy's, loading included; `make` gives the client, `canned` is it at its floor."""
    folder.mkdir()
    peer = cassette(folder / "cassette.yaml", make(url), steps, True, url)
    subject = replaying(*recorded_run(folder / "lake", make(url), steps, True, url))
    taken = in_turn(peer, subject, lambda: converse(canned, url, steps, True), rounds=3 if steps == 100 else 21)
    replay.shutdown()
    (vcrpy, vcrpy_wall), (ours, our_wall), (client_alone, _) = ([*map(min, zip(*times))] for times in taken)
    _, low, high = spread([a / b for (a, _), (b, _) in zip(*taken[:2])])
    return Figure(
        f"vcrpy against exact replay, {label}",
        vcrpy / ours,
        5 if steps == 10 else 15,
        "x",
        at_most=False,
        low=low,
        high=high,
        detail=f"({1000 * vcrpy:.1f} ms against {1000 * ours:.1f}, of which the client itself takes "
        f"{1000 * client_alone:.1f}; beyond the client {(vcrpy - client_alone) / (ours - client_alone):.1f}x; "
        f"on the wall clock {1000 * vcrpy_wall:.1f} against {1000 * our_wall:.1f})",
    )


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    figures = []
    answer = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers={"content-type": "application/json"}, content=PLAIN)
    )
    bare = httpx2.Client(transport=answer)
    with server.serving() as url:
        canned = client_of(url, http_client=bare)
        parts = recorded_run(folder / "lake50", client_of(url), 50, False, url)
        beyond, floor, loading = above_the_floor(*parts, lambda: converse(canned, url, 50, False), 50)
        replay.shutdown()
        _, low, high = spread(beyond)
        figures.append(
            Figure(
                "exact replay of 50 model calls, above the client's own floor",
                beyond[0],
                0.2,
                "ms a call",
                low=low,
                high=high,
                detail=f"(floor {floor:.2f} ms a call)",
            )
        )
        figures.append(Figure("loading that run out of the lake, once", loading, 25, "ms"))
        for steps, label in ((10, "10 steps"), (100, "100 steps, 15 MB of requests")):
            for make, at_floor, client in ((client_of, canned, "openai"), (httpx2_client, bare, "a bare HTTP client")):
                place = folder / f"{client}-{steps}"
                figures.append(beside_vcrpy(place, make, url, at_floor, steps, f"{label}, {client}"))
    return report("replay_model_calls", figures)


if __name__ == "__main__":
    raise SystemExit(main())

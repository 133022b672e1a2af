"""Exact replay of model calls through the openai client, beside the client's own floor and vcrpy.

Floor: the same client over its own MockTransport with canned bytes. Peer: vcrpy playing a cassette of the same calls
(matching on method, URI and body, as exactness needs). The replay is the real one: matching, order, fence of departures,
its own recording as a run. The client takes most of the time of a replay and all of it is also in vcrpy's; so the same
requests are also made by a bare HTTP client, which shows the two replayers alone.

The figure above the floor is the thread's CPU time of the calls and of opening and closing the run, best against
best of rounds taken in turn; what is paid once, loading the run out of the lake, is reported apart. The comparison
with vcrpy is of whole replays on the wall clock, loading included on both sides.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import httpx2
import openai
import vcr
from measure import Figure, paired, report, spread, timed

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import set_run_factory
from otel_agent_replay.demo import server
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.replay.runs import ReplayRuns

PLAIN = b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}'
_clock = (time.thread_time,)  # in a tuple: names of the module are rebound by the recorder
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
    agent()
    runtime.journal.rotate()
    seal(folder)
    lake = Lake(folder)
    return runtime, agent, lake, lake.runs(limit=1)[0].run.run_id


def replaying(runtime, agent, lake, run_id):
    """Return an action that loads the run and replays it, as `agent-replay replay` does in its child."""

    def action() -> None:
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
    runtime, agent, lake, run_id, floor, steps: int, rounds: int = 15
) -> tuple[list[float], float, float]:
    """Return the milliseconds a call beyond the floor in each round, those of the floor, and those of one loading."""
    clock = _clock[0]
    replays, floors, loads = [], [], []
    for _ in range(rounds):
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


def beside_vcrpy(folder: Path, make, url: str, canned, steps: int, label: str) -> Figure:
    """Hold whole replays against vcrpy's, loading included; `make` gives the client, `canned` is it at its floor."""
    folder.mkdir()
    peer = cassette(folder / "cassette.yaml", make(url), steps, True, url)
    subject = replaying(*recorded_run(folder / "lake", make(url), steps, True, url))
    pairs = paired(peer, subject, rounds=3 if steps == 100 else 7, warmup=1)
    replay.shutdown()
    middle, low, high = spread([a / b for a, b in pairs])
    client_alone = min(timed(lambda: converse(canned, url, steps, True)) for _ in range(3))
    vcrpy, ours = min(a for a, _ in pairs), min(b for _, b in pairs)
    return Figure(
        f"vcrpy against exact replay, {label}",
        middle,
        5 if steps == 10 else 15,
        "x",
        at_most=False,
        low=low,
        high=high,
        detail=f"({vcrpy:.4f} s against {ours:.4f} s, of which the client itself takes {client_alone:.4f} s; "
        f"beyond the client {(vcrpy - client_alone) / (ours - client_alone):.1f}x)",
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

"""Bytes that a checkpoint takes as the state grows: one kilobyte is new at each step, the whole state is handed over.

Peer: LangGraph's SQLite saver, a graph of one node whose state grows the same way (bench environment; where it is not
installed, the figure is left out and said so). Floor of the time: the state encoded and hashed, which nobody can avoid
who keeps it by content.
"""

from __future__ import annotations

import operator
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, TypedDict

sys.path.insert(0, str(Path(__file__).parent))

from measure import Figure, report, spread

import otel_agent_replay as replay
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import Kind, digest_of
from otel_agent_replay.payload.codec import encode

STEPS = (100, 400, 1000)
_draw = random.Random(11)
_WORDS = ["".join(_draw.choices("abcdefghijklmnopqrstuvwxyz", k=_draw.randint(3, 9))) for _ in range(4000)]
TEXTS = [" ".join(_draw.choices(_WORDS, k=160))[:1000].ljust(1000, ".") for _ in range(max(STEPS))]


class State(TypedDict):
    """The state of the peer's graph; what a node returns of `messages` is added to them."""

    step: int
    messages: Annotated[list, operator.add]


def message(number: int) -> dict:
    return {"role": "user", "content": TEXTS[number]}


def ours(steps: int, folder: Path) -> tuple[float, float, list[float], list[float]]:
    """Return journal and lake bytes a step, the seconds of each checkpoint, and those of its floor."""
    took: list[float] = []
    floor: list[float] = []
    replay.configure(lake=folder, seal="off")

    @replay.agent
    def growing() -> None:
        messages: list[dict] = []
        for number in range(steps):
            messages.append(message(number))
            state = {"step": number, "messages": messages, "budget": {"steps": number}}
            started = time.perf_counter()
            replay.checkpoint("grown", state, resumable=True)
            took.append(time.perf_counter() - started)
            started = time.perf_counter()
            digest_of(encode(state).data)
            floor.append(time.perf_counter() - started)

    growing()
    replay.shutdown()
    journal = sum(path.stat().st_size for path in (folder / "journal").glob("*.log"))
    seal(folder)
    lake = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    prove(folder, steps)
    return journal / steps, lake / steps, took, floor


def prove(folder: Path, steps: int) -> None:
    """Read every state back: a small file of wrong bytes would be no achievement."""
    stored = Lake(folder)
    recorded = stored.load(next(iter(stored.runs())).run.run_id)
    states = [node for node in recorded.nodes if node.kind is Kind.CHECKPOINT]
    assert len(states) == steps
    for number, node in enumerate(states):
        state = {
            "step": number,
            "messages": [message(place) for place in range(number + 1)],
            "budget": {"steps": number},
        }
        assert recorded.payload(node.call.request.digest) == encode(state).data


def langgraph(steps: int, folder: Path) -> float:
    """Return the bytes a step of LangGraph's SQLite saver. Raises ImportError where it is not installed."""
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    def node(state: State) -> dict:
        return {"step": state["step"] + 1, "messages": [message(state["step"])]}

    graph = StateGraph(State)
    graph.add_node("grow", node)
    graph.add_edge(START, "grow")
    graph.add_conditional_edges("grow", lambda state: END if state["step"] >= steps else "grow")
    path = folder / "langgraph.sqlite"
    connection = sqlite3.connect(path, check_same_thread=False)
    compiled = graph.compile(checkpointer=SqliteSaver(connection))
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": steps + 10}
    end = compiled.invoke({"step": 0, "messages": []}, config)
    assert len(end["messages"]) == steps
    connection.commit()
    connection.close()
    return sum(part.stat().st_size for part in folder.glob("langgraph.sqlite*")) / steps


def main() -> int:
    figures = []
    journal: dict[int, float] = {}
    lake: dict[int, float] = {}
    for steps in STEPS:
        with tempfile.TemporaryDirectory() as name:
            journal[steps], lake[steps], took, floor = ours(steps, Path(name))
        try:
            with tempfile.TemporaryDirectory() as name:
                peer = langgraph(steps, Path(name))
        except ImportError as error:
            print(f"info LangGraph's SQLite saver is left out: {error}")
            peer = None
        beside = "" if peer is None else f", LangGraph's SQLite saver {peer / 1000:.1f} KB"
        print(
            f"info {steps} steps: journal {journal[steps] / 1000:.2f} KB a step, lake {lake[steps] / 1000:.2f} KB{beside}",
            flush=True,
        )
        if peer is not None:
            claim = f"bytes a step of {steps}: LangGraph's SQLite saver over our journal and lake together"
            figures.append(Figure(claim, peer / (journal[steps] + lake[steps]), 10, "x", at_most=False))
    first, last = STEPS[0], STEPS[-1]
    figures.append(Figure(f"journal bytes a step of {last}, 1,000 of them new", journal[last], 2000, "bytes"))
    figures.append(
        Figure(f"journal bytes a step of {last} over those of {first}", journal[last] / journal[first], 1.1, "x")
    )
    figures.append(Figure(f"lake bytes a step of {last}, 1,000 of them new", lake[last], 1100, "bytes"))
    figures.append(Figure(f"lake bytes a step of {last} over those of {first}", lake[last] / lake[first], 1.1, "x"))
    ratios = [mine / least for mine, least in zip(took[-200:], floor[-200:], strict=True)]
    middle, low, high = spread(ratios)
    detail = f"{spread(took[-200:])[0] * 1e3:.2f} ms for a state of {len(TEXTS[0]) * last / 1e6:.1f} MB"
    claim = f"time of a checkpoint near step {last} over its state encoded and hashed"
    figures.append(Figure(claim, middle, 3, "x", low=low, high=high, detail=detail))
    return report("checkpoint_growth", figures)


if __name__ == "__main__":
    raise SystemExit(main())

"""Agents that are forked: a long one with every kind of step, and one that tries to write in every way it can."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2

import otel_agent_replay as replay


def post(base: str, path: str, body: dict) -> dict:
    with httpx2.Client(base_url=base, timeout=20) as http:
        return http.post(path, json=body).json()


def ask(text: str) -> str:
    messages = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": text}]
    answer = post(os.environ["MODEL_URL"], "/v1/chat/completions", {"model": "old", "messages": messages})
    return answer["choices"][0]["message"]["content"]


@replay.tool(side_effect="read")
def find(order: str) -> dict:
    return {"order": order, "cents": 100}


@replay.tool(side_effect="none")
def count(text: str) -> int:
    return len(text)


@replay.tool(side_effect="write")
def refund(order: str, cents: int) -> dict:
    return post(os.environ["PAY_URL"], "/refunds", {"order": order, "cents": cents})


@replay.decision
def route(text: str) -> str:
    return "refund" if text else "wait"


def rounds(order: str, said: list, first: int) -> list:
    for number in range(first, 4):
        with replay.step("round", number=number):
            today = dt.date.today().isoformat()
            said.append(ask(f"{order} round {number} on {today}, ticket {random.randint(1, 10**6)}"))
            found = find(f"{order}-{number}")
            said.append(route(str(found["cents"])))
            said.append(count(said[-1]))
            replay.checkpoint("round", {"said": list(said)}, resumable=True)
    return said


@replay.agent(name="long")
def long(order: str) -> list:
    """Make twenty steps: four rounds of model, read, decision, pure tool and checkpoint."""
    return rounds(order, [], 0)


def from_round(checkpoint: replay.Checkpoint, order: str) -> list:
    said = checkpoint.state["said"]
    return rounds(order, said, len(said) // 3)


@replay.agent(name="enterable", enter=from_round)
def enterable(order: str) -> list:
    """Make the same twenty steps, and say how to go on from a checkpoint."""
    return rounds(order, [], 0)


@replay.agent(name="writer")
def writer(order: str) -> str:
    """Write by a tool, by two tools at once, by plain HTTP in a thread, and by another program."""
    answer = ask(f"{order}: shall I?")
    refund(order, 1)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda cents: refund(order, cents), (2, 3)))
    thread = threading.Thread(target=post, args=(os.environ["PAY_URL"], "/refunds", {"by": "thread"}))
    thread.start()
    thread.join()
    ask(f"{order}: and now?")
    code = "import sys, urllib.request as u; u.urlopen(u.Request(sys.argv[1], data=b'{}'), timeout=10)"
    subprocess.run([sys.executable, "-c", code, os.environ["PAY_URL"] + "/refunds"], check=True)
    return answer


if __name__ == "__main__":
    replay.configure()
    {"long": long, "enterable": enterable, "writer": writer}[sys.argv[1]]("17")

"""An agent that does what its model tells it, line by line, in every way that a re-run has to answer or refuse."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx2

import otel_agent_replay as replay


def post(base: str, path: str, body: dict) -> dict:
    with httpx2.Client(base_url=base, timeout=20) as http:
        return http.post(path, json=body).json()


def get(path: str) -> dict:
    with httpx2.Client(base_url=os.environ["SHOP_URL"], timeout=20) as http:
        return http.get(path).json()


def ask(text: str) -> str:
    messages = [{"role": "system", "content": "You are kind."}, {"role": "user", "content": text}]
    body = {"model": "old", "messages": messages}
    return post(os.environ["MODEL_URL"], "/v1/chat/completions", body)["choices"][0]["message"]["content"]


@replay.tool(side_effect="read")
def find(order: str) -> dict:
    return get(f"/orders/{order}")


@replay.tool(side_effect="none")
def count(text: str) -> int:
    return len(text)


@replay.tool(side_effect="write")
def refund(order: str, cents: int) -> dict:
    return post(os.environ["PAY_URL"], "/refunds", {"order": order, "cents": cents})


@replay.tool(side_effect="write", dry_run=lambda text: post(os.environ["SHOP_URL"], "/sandbox", {"text": text}))
def note(text: str) -> dict:
    return post(os.environ["PAY_URL"], "/notes", {"text": text})


@replay.tool
def letter(text: str) -> dict:
    return post(os.environ["PAY_URL"], "/letters", {"text": text})


@replay.approval(action="pay")
def may_pay(order: str, cents: int) -> replay.Approval:
    return replay.Approval(granted=True, by="ana")


@replay.tool(side_effect="write", approval=True)
def pay(order: str, cents: int) -> dict:
    return post(os.environ["PAY_URL"], "/payments", {"order": order, "cents": cents})


@replay.user_turn
def ask_user(message: str) -> str:
    return f"as on record: {message[:3]}"


@replay.agent(name="helper")
def helper(order: str) -> str:
    return f"{ask(f'helper {order}')[:2]} {find(order)}"


def undeclared_post(path: str) -> dict:
    return post(os.environ["PAY_URL"], path, {"by": "nobody"})


def by_thread(path: str) -> None:
    thread = threading.Thread(target=undeclared_post, args=(path,))
    thread.start()
    thread.join()


def side_by_side(*cents: int) -> list:
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda each: refund("17", each), cents))


def by_program(path: str) -> None:
    code = "import sys, urllib.request as u; u.urlopen(u.Request(sys.argv[1], data=b'{}'), timeout=10)"
    subprocess.run([sys.executable, "-c", code, os.environ["PAY_URL"] + path], check=True)


def by_library(path: str) -> None:
    import urllib.request

    urllib.request.urlopen(urllib.request.Request(os.environ["PAY_URL"] + path, data=b"{}"), timeout=10).read()


@replay.tool(side_effect="none")
def by_pure_tool(path: str) -> None:
    by_library(path)  # said to touch nothing, and writes by a library that nobody intercepts


def by_thread_library(path: str) -> None:
    thread = threading.Thread(target=by_library, args=(path,))
    thread.start()
    thread.join()


def by_sdk(text: str) -> str:
    import openai

    with openai.OpenAI() as client:
        answer = client.chat.completions.create(model="old", messages=[{"role": "user", "content": text}])
    return answer.model


def spin() -> None:
    while True:
        pass


ACTIONS = {
    function.__name__: function
    for function in (
        find, count, refund, note, letter, may_pay, pay, ask_user, helper, get, ask,
        undeclared_post, by_thread, side_by_side, by_program, by_library, by_sdk, spin, by_pure_tool,
        by_thread_library,
    )
}  # fmt: skip


@replay.agent(name="clerk", policy_version=os.environ.get("POLICY", "1"))
def clerk(order: str) -> list:
    """Ask the model what to do, a JSON list of [action, arguments...], and do it."""
    done = []
    for name, *arguments in json.loads(ask(f"order {order}")):
        try:
            done.append(ACTIONS[name](*arguments))
        except Exception as error:
            done.append(type(error).__name__)
    return done


@replay.agent(name="clerk")
def drawing_clerk(order: str) -> str:
    """Ask the model with a number drawn and an id made for the question."""
    return ask(f"order {order}, ticket {random.randrange(1_000_000)}, {uuid.uuid4()}")


def when() -> str:
    return f"{dt.datetime.now().isoformat()} {dt.date.today()} {time.time()} {time.monotonic()}"


@replay.agent(name="clerk")
def dated_clerk(order: str) -> list:
    """Tell the model day and time with each question."""
    return [ask(f"order {order} {when()}"), ask(f"order {order} {when()}")]


@replay.agent(name="clerk")
def later_dated_clerk(order: str) -> list:
    """Do the same, then read the clocks and draw once more."""
    dated = [ask(f"order {order} {when()}"), ask(f"order {order} {when()}")]
    aware = dt.datetime.now(dt.timezone.utc).timestamp()
    return [*dated, time.time(), aware, time.monotonic(), str(uuid.uuid4())]


if __name__ == "__main__":
    replay.configure()
    for order in sys.argv[1:] or ["17"]:
        clerk(order)

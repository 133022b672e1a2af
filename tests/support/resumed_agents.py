"""Agents that die and are resumed, and the world that they change: a provider that counts what it is asked to do."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2

import otel_agent_replay as replay
from otel_agent_replay.errors import KeyReused

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading certificates takes longer than a whole agent
WORLD = ""
"""URL of the world; set before an agent is called."""


def http() -> httpx2.Client:
    return httpx2.Client(base_url=WORLD, timeout=60, verify=_NO_TLS)


def ask(prompt: str) -> str:
    with http() as client:
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
        answer = client.post("/v1/chat/completions", json=body)
        answer.raise_for_status()
        return answer.json()["choices"][0]["message"]["content"]


def change(path: str, value: dict[str, Any], key: str = "") -> dict[str, Any]:
    """Change the world; what is equal and has the same key happens once."""
    with http() as client:
        return client.post(path, json=value, headers={"x-key": key}).raise_for_status().json()


# --- tools ---


@replay.tool(side_effect="read")
def find_order(order: str) -> dict:
    with http() as client:
        return client.get(f"/orders/{order}").json()


@replay.tool(side_effect="write")
def refund(order: str, cents: int, idempotency_key: str = "") -> dict:
    return change("/refunds", {"order": order, "cents": cents}, idempotency_key)


def mail_status(to: str, text: str, *, idempotency_key: str) -> dict:
    with http() as client:
        answer = client.get(f"/mails/{idempotency_key}")
    if answer.status_code == 404:
        raise replay.NotHappened
    return answer.raise_for_status().json()


@replay.tool(side_effect="external", recover=mail_status)
def mail(to: str, text: str) -> dict:
    return change("/mails", {"to": to, "text": text}, replay.idempotency_key())


# --- one of each kind of step ---


@replay.agent(version="1")
def desk(order: str) -> list:
    plan = ask(f"{order} at {time.time()}: draw {random.random()}")
    with replay.step("look"):
        found = find_order(order)
        opinion = ask(f"{found} {random.randrange(10**9)}")
    replay.checkpoint("ready", {"order": found}, resumable=True)
    paid = refund(order, found["cents"])
    with replay.step("tell"):
        sent = mail("ana", f"refunded {found['cents']}")
        replay.checkpoint("told", {"sent": sent, "at": time.time()}, resumable=True)
    last = ask(f"{plan} {uuid.uuid4()}")
    return [plan, opinion, paid, sent, last]


# --- calls at the same time ---


@replay.tool(side_effect="read")
def seat(name: str) -> dict:
    with http() as client:
        return client.get(f"/orders/{name}").json()


@replay.tool(side_effect="write")
def book(name: str, idempotency_key: str = "") -> dict:
    return change(f"/seats/{name}", {}, idempotency_key)


@replay.tool(side_effect="write")
async def book_async(name: str, idempotency_key: str = "") -> dict:
    return await change_async(f"/seats/{name}", {}, idempotency_key)


async def change_async(path: str, value: dict[str, Any], key: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=WORLD, timeout=60, verify=_NO_TLS) as client:
        answer = await client.post(path, json=value, headers={"x-key": key})
        return answer.raise_for_status().json()


@replay.agent
def three_threads(tool: str) -> list:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map({"seat": seat, "book": book}[tool], "abc"))
    return [found, ask(f"of {len(found)}")]


@replay.agent
async def three_tasks() -> list:
    found = await asyncio.gather(*(book_async(name) for name in "abc"))
    return [found, await book_async("last")]


@replay.agent
def equal_threads(scoped: bool) -> list:
    """Pays two times the same on purpose, at the same time."""

    def one(name: str) -> dict:
        with replay.step(name if scoped else "pay"):
            ask(f"may {name} pay?")
            return refund("twice", 1)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, ("left", "right")))


# --- writes, one of each kind ---


@replay.tool(side_effect="write", idempotency_key="order")
def own_key(order: str) -> dict:
    return change("/own", {"order": order}, order)


@replay.tool(side_effect="write", idempotency_key="order")
def parcel(order: str, kilos: int) -> dict:
    return change("/parcels", {"order": order, "kilos": kilos}, order)


@replay.agent
def parcels(order: str) -> list:
    """Uses one key for two calls that are not the same."""
    told: list = [parcel(order, 1)["number"]]
    for kilos in (2, 1):
        try:
            told.append(parcel(order, kilos)["number"])
        except KeyReused as error:
            told.append(f"step {error.step}")
    return [*told, ask("last")]


@replay.tool
def ring(text: str) -> dict:
    return change("/bells", {"text": text})


async def chime_status(text: str, *, idempotency_key: str) -> dict:
    async with httpx2.AsyncClient(base_url=WORLD, timeout=60, verify=_NO_TLS) as client:
        answer = await client.get(f"/chimes/{idempotency_key}")
    if answer.status_code == 404:
        raise replay.NotHappened
    return answer.json()


@replay.tool(recover=chime_status)
async def chime(text: str) -> dict:
    return await change_async("/chimes", {"text": text}, replay.idempotency_key())


@replay.agent
async def chimes(text: str) -> dict:
    await asyncio.sleep(0)
    return await chime(text)


def mail_ana(text: str) -> dict:
    return mail("ana", text)


def refund_one(order: str) -> dict:
    return refund(order, 1)


WRITES = {"own_key": own_key, "refund": refund_one, "mail": mail_ana, "ring": ring}


@replay.agent
def writes(tool: str, text: str) -> list:
    first = ask(f"{text} first")
    done = WRITES[tool](text)
    return [first, done, ask(f"{text} last")]


@replay.tool
def prints(text: str):
    """A tool that yields what it has done so far."""
    for number in range(2):
        yield change("/printer", {"text": text, "page": number})["number"]


@replay.agent
def printer(text: str) -> list:
    return [*prints(text), ask("last")]


@replay.agent
async def in_thread(order: str) -> list:
    paid = await asyncio.to_thread(refund, order, 1)
    return [paid, await asyncio.to_thread(ask, "last")]


@replay.agent
def posts(text: str) -> list:
    """Changes the world with no tool around it."""
    return [ask(f"{text} first"), change("/bare", {"text": text}), ask(f"{text} last")]


@replay.agent
def tries_again(order: str) -> list:
    told: list = []
    for _ in range(3):
        try:
            told.append(refund(order, 1))
            break
        except httpx2.HTTPStatusError as error:
            told.append(str(error)[:16])
    return [*told, ask("last")]


@replay.agent
def looks_at_errors(order: str) -> list:
    """Goes by what an error's response says."""
    try:
        refund(order, 1)
    except httpx2.HTTPStatusError as error:
        answer = error.response
        told = [answer.status_code, answer.json(), answer.headers["content-type"], error.request.method]
    return [*told, ask(f"what now, after {told}?")]


@replay.agent
def pays_twice(order: str) -> list:
    return [refund(order, 1), refund(order, 1), ask("last")]


@replay.agent
def insists(order: str) -> list:
    """Tries again what the ledger could not take down."""
    told: list = [ask("first")]
    for _ in range(2):
        try:
            told.append(refund(order, 1)["number"])
        except replay.LedgerError:
            told.append("not now")
            ask("when?")
    return told


@replay.tool(side_effect="write", idempotency_key="order")
def slow(order: str) -> dict:
    return change("/slow", {"order": order}, order)


@replay.agent
def patient(order: str) -> list:
    return [slow(order), ask("last")]


@replay.tool(side_effect="read")
def big(megabytes: int) -> bytes:
    change("/big", {"of": megabytes})
    return random.Random(7).randbytes(megabytes << 20)


@replay.tool(side_effect="write")
def big_write(order: str, idempotency_key: str = "") -> str:
    change("/bigwrite", {"order": order}, idempotency_key)
    return "x" * (5 << 20)


@replay.agent
def bulky(order: str) -> list:
    found = big(5)
    written = big_write(order)
    return [len(found), len(written), ask("last")]


@replay.agent
def wanders(order: str) -> list:
    """Does something else at each attempt, by what no recording knows."""
    marker = Path(f"{order}.seen")
    first = ask("again" if marker.exists() else "first")
    marker.touch()
    return [first, refund(order, 1), ask("last")]


@replay.agent
def shy(order: str) -> list:
    """Catches everything."""
    told: list = []
    for number in range(6):
        try:
            told.append(ask(f"{order} {number}"))
        except Exception as error:
            told.append(type(error).__name__)
    return told


@replay.tool(side_effect="write")
def publish(text: str, idempotency_key: str = "") -> int:
    return change("/published", {"text": text}, idempotency_key)["number"]


@replay.agent
def relays(prompt: str) -> list:
    """Writes each piece of a streamed answer on as it comes."""
    told: list = []
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": prompt}]}
    with http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                text = json.loads(line[6:])["choices"][0]["delta"]["content"]
                told.append([text, publish(text)])
    return [*told, ask("last")]


# --- approvals ---


@replay.approval(action="pay")
def may_pay(order: str, cents: int) -> replay.Approval:
    change("/asked", {"order": order, "cents": cents})
    return replay.Approval(granted=True, by="ana", policy="p1", allowed=("pay",))


@replay.approval(action="pay")
def must_wait(order: str, cents: int) -> bool:
    replay.suspend()


@replay.tool(side_effect="write", approval=True)
def pay(order: str, cents: int, idempotency_key: str = "") -> dict:
    return change("/paid", {"order": order, "cents": cents}, idempotency_key)


@replay.agent
def approved(order: str, again: bool = False) -> list:
    granted = bool(may_pay(order, 5))
    told = [granted, pay(order, 5), ask("last")]
    if again:
        try:
            told.append(pay(order, 5))
        except replay.ApprovalRequired as error:
            told.append(str(error))
    return told


@replay.agent
def suspended(order: str) -> list:
    sent = mail("ana", f"may I pay {order}?")
    granted = bool(must_wait(order, 5))
    told = [sent["number"], granted]
    try:
        told.append(pay(order, 5)["number"])
    except replay.ApprovalRequired:
        told.append("not paid")
    return [*told, ask("last")]


@replay.agent
def pays(order: str, cents: int, approve_cents: int) -> str:
    if approve_cents:
        may_pay(order, approve_cents)
    try:
        pay(order, cents)
    except replay.ApprovalRequired as error:
        return str(error)
    return "paid"


# --- other shapes ---


@replay.agent
def yields(order: str):
    yield ask("first")
    yield refund(order, 1)
    yield ask("last")


@replay.agent
def inner(order: str) -> list:
    return [ask(f"{order} inner"), refund(order, 1)]


@replay.agent
def outer(order: str) -> list:
    first = inner(f"{order}-1")
    between = ask("between")
    return [first, between, inner(f"{order}-2"), ask("last")]


def both(orders: str) -> list:
    """No agent: a service that runs one twice at the same time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(inner, orders))

"""Agents that die and are resumed, and the world that they change: a provider that counts what it is asked to do."""

from __future__ import annotations

import random
import ssl
import time
import uuid
from typing import Any

import httpx2

import otel_agent_replay as replay

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

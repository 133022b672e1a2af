"""The small agent that comes with its recording: `agent-replay demo` replays it with no key, server or network.

`answer` is the agent as it was recorded. `answer_friendly` is the same agent after somebody changed a word of
its prompt: its replay departs.
"""

from __future__ import annotations

import datetime
import json
import os
import uuid
from typing import Any

import requests

import otel_agent_replay as replay

ORDERS = {"17": {"item": "kettle", "cents": 4900, "state": "lost"}}


@replay.retriever
def find_policy(question: str) -> list[str]:
    """Look up what the shop promises."""
    return ["A parcel that is lost is paid back in full."] if "order" in question else []


@replay.tool(side_effect="read")
def find_order(order_id: str) -> dict[str, Any]:
    """Look an order up."""
    return ORDERS[order_id]


@replay.tool(side_effect="read")
def shipping_state(order_id: str) -> str:
    """Ask the carrier."""
    return f"parcel {order_id}: {ORDERS[order_id]['state']}"


@replay.tool(side_effect="write", idempotency_key="order_id")
def refund(order_id: str, cents: int) -> dict[str, int]:
    """Pay an order back. While the recording was made, nobody's money moved."""
    return {"refunded": cents}


@replay.decision
def needs_a_person(cents: int) -> bool:
    """Decide whether a colleague must look at it."""
    return cents > 10_000


TOOLS: dict[str, Any] = {"find_order": find_order, "shipping_state": shipping_state, "refund": refund}


@replay.agent(name="pocket", version="1", prompt_version="1")
def answer(question: str) -> str:
    """Answer a customer's question."""
    return _answer(question, tone="short")


@replay.agent(name="pocket", version="2", prompt_version="2")
def answer_friendly(question: str) -> str:
    """Answer a customer's question, with a changed prompt."""
    return _answer(question, tone="friendly")


def _answer(question: str, tone: str) -> str:
    today = datetime.date.today()
    policy = " ".join(find_policy(question))
    ticket = uuid.uuid4().hex[:8]
    system = f"You give {tone} answers. Today is {today:%d %B %Y}. Ticket {ticket}. {policy}"
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    while True:
        message = _ask(messages)
        calls = message.get("tool_calls") or []
        if not calls:
            return str(message["content"])
        messages.append(message)
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            if call["function"]["name"] == "refund" and needs_a_person(arguments["cents"]):
                return "A colleague will look at it."
            result = TOOLS[call["function"]["name"]](**arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})


def _ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    url = os.environ["POCKET_MODEL_URL"]
    body = {"model": "demo-model", "messages": messages}
    response = requests.post(f"{url}/chat/completions", json=body, timeout=10)
    response.raise_for_status()
    message: dict[str, Any] = response.json()["choices"][0]["message"]
    return message

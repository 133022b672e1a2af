"""A small support agent on the real openai client: parallel tools, a refund, a streamed answer.

It reads the date, draws a random ticket number and changes the world (a line in refunds.txt), as agents do.
Run it with OPENAI_BASE_URL and OPENAI_API_KEY set: `python support_agent.py "Where is order 17?"`.
"""

from __future__ import annotations

import datetime
import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai

import otel_agent_replay as replay

MODEL = "demo-model"
ORDERS = {
    "17": {"item": "kettle", "cents": 4900, "state": "lost"},
    "18": {"item": "lamp", "cents": 2500, "state": "sent"},
}
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": list(properties)},
        },
    }
    for name, description, properties in (
        ("find_order", "Look an order up.", {"order_id": {"type": "string"}}),
        ("shipping_state", "Ask the carrier.", {"order_id": {"type": "string"}}),
        ("refund", "Pay an order back.", {"order_id": {"type": "string"}, "cents": {"type": "integer"}}),
    )
]


@replay.tool(side_effect="read")
def find_order(order_id: str) -> dict[str, Any]:
    """Look an order up."""
    return {"order_id": order_id, **ORDERS[order_id]}


@replay.tool(side_effect="read")
def shipping_state(order_id: str) -> str:
    """Ask the carrier."""
    return f"parcel {order_id} was {ORDERS[order_id]['state']}"


@replay.tool(side_effect="write", idempotency_key="order_id")
def refund(order_id: str, cents: int) -> dict[str, Any]:
    """Pay an order back: this is the part that must never happen twice."""
    with Path("refunds.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"order {order_id}: {cents} cents\n")
    return {"refunded": cents}


CALLABLE: dict[str, Any] = {"find_order": find_order, "shipping_state": shipping_state, "refund": refund}


def system_prompt() -> str:
    """Put the instructions together."""
    today = datetime.date.today()
    ticket = random.randint(1000, 9999)
    return f"You are a support agent. Today is {today:%A, %d %B %Y}. This is ticket {ticket}."


@replay.agent(name="support", version="1", prompt_version="1")
def support(question: str) -> str:
    """Answer a customer's question, with tools."""
    client = openai.OpenAI()
    messages: list[Any] = [
        {"role": "system", "content": system_prompt()},
        {"role": "user", "content": question},
    ]
    while True:
        reply = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
        if not reply.tool_calls:
            break
        messages.append(reply.model_dump(exclude_none=True))
        with ThreadPoolExecutor() as pool:  # calls of one turn run side by side
            results = list(pool.map(run_tool, reply.tool_calls))
        messages.extend(results)
    stream = client.chat.completions.create(model=MODEL, messages=messages, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def run_tool(call: Any) -> dict[str, Any]:
    """Run one tool call of the model."""
    result = CALLABLE[call.function.name](**json.loads(call.function.arguments))
    return {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}


if __name__ == "__main__":
    replay.configure()
    print(support(sys.argv[1] if len(sys.argv) > 1 else "Where is my kettle, order 17?"))

"""The agent behind the recording beside it: one of everything that format 1 can hold. Never change it: make a format-2.

It reads the model server's address and key from its environment, as agents do: SHOP_URL, SHOP_KEY.
"""

import asyncio
import datetime as dt
import decimal
import os
import random
import secrets
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import openai
import requests

import otel_agent_replay as replay

QUESTION = "Wo ist Bestellung 17? \U0001f4e6"
ORDERS = {"17": {"item": "Wasserkessel", "price": decimal.Decimal("49.00"), "sent": dt.date(2026, 11, 24)}}


class OutOfStock(Exception):
    """A failure of the application's own."""


@replay.retriever
def find_policy(question, limit=2):
    found = ["Lost parcels are paid back.", "Broken parcels are replaced.", "No refund after 30 days."]
    return [{"text": text, "score": round(1 / place, 3)} for place, text in enumerate(found[:limit], 1)]


@replay.decision
def desk_for(question):
    return "orders" if "17" in question else "general"


@replay.tool(side_effect="read")
def find_order(order_id):
    return ORDERS[order_id]


@replay.tool(side_effect="read")
def parcel_state(order_id):
    return {"order": order_id, "state": "lost", "seen": {"Leipzig", "Halle"}}


@replay.tool(side_effect="none")
async def fee_for(country):
    await asyncio.sleep(0.002)
    return {"country": country, "fee": len(country) / 4}


@replay.tool(side_effect="external")
def order_again(item):
    raise OutOfStock(f"no {item} left")


@replay.tool(side_effect="read")
def tracking(order_id):
    for place in ("Leipzig", "Halle", "lost"):
        yield f"{order_id}: {place}"


@replay.tool(side_effect="write", idempotency_key="order_id")
def refund(order_id, cents, note=b""):
    return {"refunded": cents, "receipt": b"\x00\xffreceipt", "note": note}


@replay.approval
def may_refund(order_id, cents):
    return {"allowed": True, "by": "Kim", "limit": 5000}


def reads():
    """One read of each name that is taped in bulk."""
    moments = [time.time(), time.time_ns() % 1000, time.monotonic(), time.perf_counter()]
    days = [dt.datetime.now(), dt.datetime.now(dt.timezone.utc), dt.date.today()]
    draws = [random.random(), random.randint(1, 6), random.choice("abc"), random.Random().getrandbits(64)]
    draws += [os.urandom(4).hex(), secrets.token_hex(4)]
    names = [str(uuid.uuid4()), str(uuid.uuid1())]
    places = [os.environ.get("SHOP_REGION"), os.getenv("SHOP_ABSENT", "none"), "SHOP_REGION" in os.environ]
    return [*moments, *(str(day) for day in days), *draws, *names, *places]


async def fees():
    return await asyncio.gather(fee_for("DE"), fee_for("France"), fee_for("DE"))


def ask(client, messages, tools=()):
    """Two model calls: one plain with a tool call in it, one streamed."""
    if tools:
        return client.chat.completions.create(model="gpt-4o", messages=messages, tools=list(tools)).choices[0].message
    stream = client.chat.completions.create(model="gpt-4o", messages=messages, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


@replay.agent(name="golden", version="1", prompt_version="7", thread_id="talk", subject="customer")
def golden(question, *, talk="talk-1", customer="customer-9"):
    """Answer a question about an order, with one of everything on the way."""
    replay.versions(policy="p3", model_route="default")
    url = os.environ["SHOP_URL"]
    with replay.step("plan", attempt=1):
        desk = desk_for(question)
        policy = find_policy(question)
        seen = reads()
    replay.checkpoint("planned", {"desk": desk, "policies": len(policy)}, resumable=True)

    stock = requests.get(f"{url}/stock/17", headers={"accept": "application/json"}, timeout=10).json()
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=os.environ["SHOP_KEY"], max_retries=0)
    system = f"Be short. It is {seen[6]}. {policy[0]['text']}"
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    schema = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
    tools = [{"type": "function", "function": {"name": "find_order", "description": "Look up.", "parameters": schema}}]
    reply = ask(client, messages, tools)
    call = reply.tool_calls[0]

    with ThreadPoolExecutor(2) as pool:
        order, state = pool.submit(find_order, "17"), pool.submit(parcel_state, "17")
        found, lost = order.result(), state.result()
    shares = asyncio.run(fees())
    places = list(tracking("17"))
    time.sleep(0.003)
    try:
        order_again(found["item"])
        again = ""
    except OutOfStock as error:
        again = str(error)
    paid = None
    if may_refund("17", 4900)["allowed"]:
        paid = refund("17", cents=4900, note="für Kim".encode())
    replay.checkpoint("paid", {"cents": 4900}, resumable=False, unsafe_reasons=["the money is on its way"])

    messages.append({"role": "assistant", "tool_calls": [call.model_dump()]})
    messages.append({"role": "tool", "tool_call_id": call.id, "content": f"{found['item']} {found['price']}"})
    answer = ask(client, messages)
    return {"answer": answer, "stock": stock, "lost": sorted(lost["seen"]), "shares": shares, "places": places,
            "again": again, "paid": paid, "reads": len(seen)}  # fmt: skip


if __name__ == "__main__":
    replay.configure()
    print(golden(QUESTION)["answer"])

"""Orchestrators for component cases: some that keep the rules of a refund desk, some that break them."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from time import monotonic
from typing import TypedDict

import aiohttp
import anthropic
import httpx
import openai
import tenacity
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

import otel_agent_replay as replay
from tests.support.component_desk import StateConflict, confirm, refund, refund_status, search, second_opinion


class Shop:
    """What the webhook of the case tells the waiting orchestrator."""

    paid: asyncio.Event | None = None


@replay.tool(side_effect="none")
def price_of(order_id: str) -> int:
    """Plain code of the orchestrator's own, which asks a server."""
    return httpx.get(f"http://prices.test/{order_id}", verify=False).json()["cents"]


@replay.decision
def route(question: str) -> str:
    raise AssertionError("called live")


# --- a timeout with an operation that was begun ---


@replay.agent
def careful(order_id: str) -> str:
    """Refund once; after a timeout ask what became of it, every ten minutes, for half an hour."""
    replay.checkpoint("REFUNDING", resumable=False)
    try:
        refund(order_id, 4900)
    except TimeoutError:
        for _ in range(3):
            state = refund_status(order_id)["state"]
            if state == "refunded":
                break
            time.sleep(600)
        else:
            replay.checkpoint("IN_DOUBT", resumable=True)
            return "a person must look"
    replay.checkpoint("REFUNDED", resumable=True)
    return "refunded"


@replay.tool(side_effect="external")
def keyless_refund(order_id: str) -> dict:
    raise AssertionError("called live")


@replay.agent
def careless(order_id: str, key: bool = False) -> str:
    """Refund again after a timeout, without knowing; with `key` under a new one each time."""
    for _ in range(2):
        try:
            if key:
                refund(order_id, 4900, idempotency_key=str(uuid.uuid4()))
            else:
                keyless_refund(order_id)
            break
        except TimeoutError:
            time.sleep(60)
    replay.checkpoint("REFUNDED", resumable=True)
    return "refunded"


@replay.tool(side_effect="write", idempotency_key="order_id")
def keyed_refund(order_id: str) -> dict:
    raise AssertionError("called live")


@replay.agent
def keyed(order_id: str) -> str:
    """Refund again after a timeout, under the same key."""
    for _ in range(2):
        try:
            keyed_refund(order_id)
            break
        except TimeoutError:
            time.sleep(60)
    replay.checkpoint("REFUNDED", resumable=True)
    return "refunded"


# --- a person's approval that comes too late ---


@replay.agent
async def asks_a_person(order_id: str, patient: bool = True) -> str:
    """Wait half an hour for an approval; without one stop, or (impatient) go on all the same."""
    replay.checkpoint("WAITING_HUMAN_APPROVAL", resumable=True)
    try:
        granted = await asyncio.wait_for(confirm(order_id), 1800)
    except asyncio.TimeoutError:
        replay.checkpoint("EXPIRED" if patient else "AUTO_EXECUTE", resumable=True)
        if not patient:
            refund(order_id, 4900)
        return "expired"
    replay.checkpoint("APPROVED" if granted else "REJECTED", {"by": granted.by}, resumable=True)
    if granted:
        refund(order_id, 4900)
    return "approved" if granted else "rejected"


# --- a callback that comes late ---


def paid(order_id: str) -> None:
    """The webhook that tells of a payment."""
    replay.checkpoint("PAID", {"order": order_id}, resumable=True)
    if Shop.paid is not None:
        Shop.paid.set()


async def paid_async(order_id: str) -> None:
    await asyncio.sleep(1)
    paid(order_id)


@replay.agent
async def waits_for_webhook(order_id: str) -> str:
    """Ask for a payment and wait an hour for the webhook."""
    Shop.paid = asyncio.Event()
    refund(order_id)
    try:
        await asyncio.wait_for(Shop.paid.wait(), 3600)
    except asyncio.TimeoutError:
        replay.checkpoint("GAVE_UP", resumable=True)
        return "gave up"
    finally:
        Shop.paid = None
    replay.checkpoint("DONE", resumable=True)
    return "done"


# --- clients that wait by themselves ---


@replay.agent
def patient_client(order_id: str) -> str:
    """A model client that tries again by itself."""
    web = openai.DefaultHttpxClient(verify=False)
    client = openai.OpenAI(api_key="k", base_url="http://model.test/v1", max_retries=3, http_client=web)
    answer = client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": order_id}])
    return answer.choices[0].message.content


@replay.agent
async def patient_async_client(order_id: str) -> str:
    """The same, asynchronous."""
    web = openai.DefaultAsyncHttpxClient(verify=False)
    client = openai.AsyncOpenAI(api_key="k", base_url="http://model.test/v1", max_retries=3, http_client=web)
    answer = await client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": order_id}])
    return answer.choices[0].message.content


@replay.agent
def half_an_hour(order_id: str) -> str:
    """Back off for ten minutes twice as long each time, by a library, for half an hour at most."""
    began = monotonic()
    for attempt in tenacity.Retrying(
        wait=tenacity.wait_exponential(multiplier=600), stop=tenacity.stop_after_delay(1800), reraise=True
    ):
        with attempt:
            second_opinion(order_id)
    return f"after {monotonic() - began:g} s"


@replay.agent
async def web_session(order_id: str) -> str:
    """A client with a deadline of its own, five minutes by default."""
    try:
        async with aiohttp.ClientSession() as session, session.get("http://shop.test/slow") as response:
            return await response.text()
    except asyncio.TimeoutError as error:
        return type(error).__name__


@replay.agent
def anthropic_client(stream: bool) -> str:
    """Anthropic's client, streamed or not."""
    web = anthropic.DefaultHttpxClient(verify=False)
    client = anthropic.Anthropic(api_key="k", base_url="http://model.test", max_retries=0, http_client=web)
    asked = {"model": "claude-x", "max_tokens": 99, "messages": [{"role": "user", "content": "hello"}]}
    if not stream:
        message = client.messages.create(**asked)
    else:
        with client.messages.stream(**asked) as events:
            message = events.get_final_message()
    return f"{message.content[0].text} {message.content[1].name} {message.content[1].input} {message.stop_reason}"


@replay.agent
def responses_client(stream: bool) -> str:
    """OpenAI's client for Responses, streamed or not."""
    web = openai.DefaultHttpxClient(verify=False)
    client = openai.OpenAI(api_key="k", base_url="http://model.test/v1", max_retries=0, http_client=web)
    if not stream:
        answer = client.responses.create(model="gpt-x", input="hello")
    else:
        with client.responses.stream(model="gpt-x", input="hello") as events:
            answer = events.get_final_response()
    return f"{answer.output_text} {answer.output[1].name} {answer.output[1].arguments} {answer.status}"


# --- the rest of the boundary ---


@replay.agent
def draws(order_id: str) -> dict:
    """What is made by chance and by the clock."""
    return {
        "uuid": str(uuid.uuid4()),
        "random": random.random(),
        "time": time.time(),
        "variable": os.environ.get("SHOP_URL", ""),
    }


@replay.agent
def looks_up(order_id: str) -> dict:
    """A decision, a search and the orchestrator's own code that asks a server."""
    return {"desk": route("pay?"), "found": search("refund policy"), "cents": price_of(order_id)}


@replay.agent
def pooled(order_id: str) -> list:
    """Three calls side by side in threads; the order in which they end is what counts."""
    ended = []

    def one(number):
        ended.append(second_opinion(f"{order_id}-{number}"))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(one, range(3)))
    return ended


@replay.agent
async def gathered(order_id: str) -> list:
    """Three calls side by side in tasks, the first answer counts."""
    calls = [asyncio.ensure_future(slow(f"{order_id}-{number}")) for number in range(3)]
    done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    for call in waiting:
        call.cancel()
    return [call.result() for call in done]


@replay.tool(side_effect="read")
async def slow(order_id: str) -> str:
    raise AssertionError("called live")


@replay.agent
def outer(order_id: str) -> str:
    """An agent that calls another one."""
    return f"inner said: {inner(order_id)}"


@replay.agent
def inner(order_id: str) -> str:
    return second_opinion(order_id)


def undeclared(order_id: str) -> str:
    """An entry that is no agent."""
    replay.checkpoint("ASKED", resumable=True)
    return second_opinion(order_id)


async def yields(order_id: str):
    """An entry that yields."""
    yield second_opinion(order_id)
    await asyncio.sleep(60)
    yield second_opinion(order_id)


@replay.agent
def leaves(address: str, port: int) -> str:
    """It tries to leave the process by a way that nobody intercepts."""
    try:
        with socket.socket() as way_out:
            way_out.connect((address, port))
    except BaseException:
        return "hidden"
    return "left"


@replay.user_turn
def user_says(said: str) -> str:
    raise AssertionError("called live")


@replay.agent
def talks(order_id: str) -> str:
    """It asks the user."""
    return f"order {user_says('Which order?')}"


@replay.agent
def bounded_by_a_future(order_id: str) -> str:
    """It waits half an hour for a thread."""
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(second_opinion, order_id).result(timeout=1800)
        except FutureTimeout:
            return "TimeoutError"


class Asked(TypedDict):
    order: str
    answer: str


@replay.agent
def graph(order_id: str) -> str:
    """A graph with a saver."""
    built = StateGraph(Asked)
    built.add_node("ask", lambda state: {"answer": second_opinion(state["order"])})
    built.add_edge(START, "ask")
    compiled = built.compile(checkpointer=InMemorySaver())
    return compiled.invoke({"order": order_id}, {"configurable": {"thread_id": "t"}})["answer"]


@replay.agent
def swallows(order_id: str) -> str:
    """It hides whatever happens."""
    try:
        refund(order_id)
    except BaseException:
        return "all is well"
    return "refunded"


@replay.agent
def endless(order_id: str) -> None:
    """It never ends by itself."""
    while True:
        time.sleep(1)


@replay.agent
def conflicted(order_id: str) -> str:
    """It meets an error of the shop's own client."""
    try:
        refund(order_id)
    except StateConflict as error:
        return str(error)
    return "refunded"

"""A small orchestrator with real clients, that retries or falls back: what component cases are run against."""

from __future__ import annotations

import asyncio
import json
import time

import aiohttp
import httpx
import openai
import requests

import otel_agent_replay as replay

SHOP = "http://shop.test/refunds"
MODELS = ("openai", "openai_async", "openai_stream")
TOOLS = ("tool", "tool_async")
CLIENTS = ("httpx", "httpx_async", "requests", "aiohttp", *MODELS, *TOOLS)


class StateConflict(Exception):
    """What the shop's own client raises for a 409."""


class TooManyRequests(Exception):
    """What it raises for a 429."""


def _never(*args, **kwargs):
    raise AssertionError("called live")


@replay.tool(side_effect="external")
def refund(order_id: str, cents: int = 0, idempotency_key: str = "") -> dict:
    return _never()


@replay.tool(side_effect="external", name="refund_async")
async def refund_async(order_id: str) -> dict:
    return _never()


@replay.tool(side_effect="read")
def refund_status(order_id: str) -> dict:
    return _never()


@replay.tool(side_effect="read")
def second_opinion(order_id: str) -> str:
    return _never()


@replay.tool(side_effect="none")
def price_of(order_id: str) -> int:
    return int(order_id) * 100


@replay.retriever
def search(query: str) -> list[str]:
    return _never()


@replay.approval(action="refund")
async def confirm(order_id: str) -> bool:
    return _never()


def _client(**more):
    # Without certificates, which take a tenth of a second to load.
    web = openai.DefaultHttpxClient(verify=False)
    return openai.OpenAI(api_key="k", base_url="http://model.test/v1", http_client=web, **more)


def _messages(order_id):
    return [{"role": "user", "content": f"May order {order_id} be refunded?"}]


def ask(client, order_id):
    """Make one call with that client and return what it says as a text; raise whatever the client raises."""
    return (
        asyncio.run(ask_async(client, order_id)) if client.endswith(("async", "aiohttp")) else _asked(client, order_id)
    )


def _asked(client, order_id):
    if client == "tool":
        return _said(refund(order_id))
    if client == "httpx":
        with httpx.Client(verify=False) as http:
            response = http.post(SHOP, json={"order": order_id})
            response.raise_for_status()
            return _said(response.json())
    if client == "requests":
        response = requests.post(SHOP, json={"order": order_id}, timeout=30)
        response.raise_for_status()
        return _said(response.json())
    if client == "openai_stream":
        stream = _client(max_retries=0).chat.completions.create(
            model="gpt-4o", messages=_messages(order_id), stream=True
        )
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    answer = _client(max_retries=0).chat.completions.create(model="gpt-4o", messages=_messages(order_id))
    return _said(answer.choices[0].message.content)


async def ask_async(client, order_id):
    if client == "tool_async":
        return _said(await refund_async(order_id))
    if client == "aiohttp":
        async with aiohttp.ClientSession() as session:
            async with session.post(SHOP, json={"order": order_id}) as response:
                response.raise_for_status()
                return _said(json.loads(await response.read()))
    if client == "httpx_async":
        async with httpx.AsyncClient(verify=False) as http:
            response = await http.post(SHOP, json={"order": order_id})
            response.raise_for_status()
            return _said(response.json())
    web = openai.DefaultAsyncHttpxClient(verify=False)
    model = openai.AsyncOpenAI(api_key="k", base_url="http://model.test/v1", max_retries=0, http_client=web)
    answer = await model.chat.completions.create(model="gpt-4o", messages=_messages(order_id))
    return _said(answer.choices[0].message.content)


def _said(value):
    return value if isinstance(value, str) else json.dumps(value)


@replay.agent
def retrying(client: str, order_id: str = "17") -> str:
    """Try three times, a quarter of an hour apart."""
    for attempt in range(3):
        try:
            answer = ask(client, order_id)
        except Exception as error:
            replay.checkpoint("FAILED", {"error": type(error).__name__}, resumable=True)
            time.sleep(900)
        else:
            replay.checkpoint("DONE", {"attempt": attempt + 1}, resumable=True)
            return answer
    raise RuntimeError("three attempts failed")


@replay.agent
def falling_back(client: str, order_id: str = "17") -> str:
    """Try once, then ask elsewhere."""
    try:
        answer = ask(client, order_id)
    except Exception as error:
        replay.checkpoint("FELL_BACK", {"error": type(error).__name__}, resumable=True)
        answer = second_opinion(order_id)
    replay.checkpoint("DONE", {"answer": answer}, resumable=True)
    return answer

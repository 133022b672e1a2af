"""A call through a proxy is the call that it is: known by its own address, and replayed without the proxy."""

from __future__ import annotations

import asyncio

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

from otel_agent_replay.boundary import transports
from otel_agent_replay.testing import Reply, ScriptedProvider
from tests.support.tape_session import recording, replaying

TARGET = "http://models.test/v1/things?q=1"


@pytest.fixture(autouse=True)
def _patched():
    transports.install()
    yield
    transports.uninstall()


def _httpx(library):
    def fetch(proxy):
        with library.Client(proxy=proxy, trust_env=False) as client:
            return client.get(TARGET).content

    return fetch


def _httpx_async(library):
    async def fetch(proxy):
        async with library.AsyncClient(proxy=proxy, trust_env=False) as client:
            return (await client.get(TARGET)).content

    return lambda proxy: asyncio.run(fetch(proxy))


def _requests(proxy):
    with requests.Session() as session:
        session.trust_env = False
        return session.get(TARGET, proxies={"http": proxy}).content


def _urllib3(proxy):
    with urllib3.ProxyManager(proxy) as manager:
        return manager.request("GET", TARGET).data


def _aiohttp(proxy):
    async def fetch():
        async with aiohttp.ClientSession() as session, session.get(TARGET, proxy=proxy) as response:
            return await response.read()

    return asyncio.run(fetch())


CLIENTS = {
    "httpx": _httpx(httpx),
    "httpx-async": _httpx_async(httpx),
    "httpx2": _httpx(httpx2),
    "httpx2-async": _httpx_async(httpx2),
    "requests": _requests,
    "urllib3": _urllib3,
    "aiohttp": _aiohttp,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_through_a_proxy_is_recorded_as_the_call_that_it_is(client):
    """The proxy's credentials are nowhere, its address is not the call's, and a replay needs no proxy."""
    fetch = CLIENTS[client]
    with ScriptedProvider([Reply(b'{"ok": true}')]) as provider, recording() as observer:
        proxy = provider.url.replace("//", "//user:proxy-secret-8fq2@")
        assert fetch(proxy) == b'{"ok": true}'
        assert len(provider.seen) == 1
    assert observer.losses == []
    (exchange,) = observer.exchanges
    assert exchange.call.head.url == TARGET
    assert "proxy-secret-8fq2" not in repr(observer.exchanges)
    with replaying(observer.exchanges) as (_tape, again):
        assert fetch(proxy) == b'{"ok": true}'
    assert again.losses == []

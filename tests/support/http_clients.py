"""Every HTTP client library behind one function, so that one suite can ask all of them the same."""

from __future__ import annotations

import asyncio
import importlib
from dataclasses import dataclass, field
from typing import Any

import pytest

PATIENCE = 1.5  # seconds until a silent server counts as one: short for the tests of it, long for a busy machine


@dataclass
class Fetched:
    """What the application saw."""

    status: int | None = None
    reason: str | None = None
    http_version: str | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def seen(self) -> dict[str, Any]:
        """All that a replay must give back, comparable."""
        error = self.error
        return {
            "status": self.status,
            "reason": self.reason,
            "http_version": self.http_version,
            "headers": [(name.lower(), value) for name, value in self.headers],
            "chunks": self.chunks,
            "error": type(error),
            "message": str(error),
            "args": len(error.args) if error is not None else 0,
            "cause": type(error.__cause__) if error is not None else None,
        }


class HttpxSync:
    def __init__(self, library: str):
        self.library = importlib.import_module(library)

    def fetch(self, method, url, body=None, *, how="stream", stop_after=None, on_chunk=None, **more) -> Fetched:
        got = Fetched()
        try:
            with self.library.Client(timeout=PATIENCE) as client:
                with client.stream(method, url, content=body, **more) as response:
                    got.status, got.reason = response.status_code, response.reason_phrase
                    got.http_version, got.headers = response.http_version, response.headers.multi_items()
                    if how == "whole":
                        got.chunks.append(response.read())
                        return got
                    for chunk in response.iter_raw() if how == "raw" else response.iter_bytes():
                        got.chunks.append(chunk)
                        if on_chunk:
                            on_chunk(len(got.chunks))
                        if len(got.chunks) == stop_after:
                            break
        except Exception as error:
            got.error = error
        return got


class HttpxAsync:
    def __init__(self, library: str):
        self.library = importlib.import_module(library)

    def fetch(self, method, url, body=None, **more) -> Fetched:
        return asyncio.run(self.fetch_async(method, url, body, **more))

    async def fetch_async(self, method, url, body=None, *, how="stream", stop_after=None, on_chunk=None, **more):
        got = Fetched()
        try:
            async with self.library.AsyncClient(timeout=PATIENCE) as client:
                async with client.stream(method, url, content=body, **more) as response:
                    got.status, got.reason = response.status_code, response.reason_phrase
                    got.http_version, got.headers = response.http_version, response.headers.multi_items()
                    if how == "whole":
                        got.chunks.append(await response.aread())
                        return got
                    async for chunk in response.aiter_raw() if how == "raw" else response.aiter_bytes():
                        got.chunks.append(chunk)
                        if on_chunk:
                            on_chunk(len(got.chunks))
                        if len(got.chunks) == stop_after:
                            break
        except Exception as error:
            got.error = error
        return got


class Urllib3:
    def fetch(self, method, url, body=None, *, how="stream", stop_after=None, on_chunk=None, headers=None) -> Fetched:
        import urllib3

        got = Fetched()
        try:
            retries = urllib3.Retry(connect=False, read=False, other=False, redirect=3)
            with urllib3.PoolManager(timeout=PATIENCE, retries=retries) as pool:
                response = pool.request(
                    method, url, body=body, headers=headers, preload_content=how == "preload", redirect=True
                )
                got.status, got.reason = response.status, response.reason
                got.http_version, got.headers = response.version_string, list(response.headers.items())
                try:
                    if how in {"whole", "preload"}:
                        got.chunks.append(response.data)
                        return got
                    for chunk in response.stream(64, decode_content=how != "raw"):
                        got.chunks.append(chunk)
                        if on_chunk:
                            on_chunk(len(got.chunks))
                        if len(got.chunks) == stop_after:
                            break
                finally:
                    response.close()
        except Exception as error:
            got.error = error
        return got


class Requests:
    def fetch(self, method, url, body=None, *, how="stream", stop_after=None, on_chunk=None, **more) -> Fetched:
        import requests

        got = Fetched()
        try:
            with (
                requests.Session() as session,
                session.request(method, url, data=body, stream=True, timeout=PATIENCE, **more) as response,
            ):
                got.status, got.reason = response.status_code, response.reason
                got.http_version, got.headers = response.raw.version_string, list(response.headers.items())
                if how == "whole":
                    got.chunks.append(response.content)
                    return got
                chunks = response.raw.stream(64) if how == "raw" else response.iter_content(64)
                for chunk in chunks:
                    got.chunks.append(chunk)
                    if on_chunk:
                        on_chunk(len(got.chunks))
                    if len(got.chunks) == stop_after:
                        break
        except Exception as error:
            got.error = error
        return got


class Aiohttp:
    def fetch(self, method, url, body=None, **more) -> Fetched:
        return asyncio.run(self.fetch_async(method, url, body, **more))

    async def fetch_async(self, method, url, body=None, *, how="stream", stop_after=None, on_chunk=None, **more):
        import aiohttp

        got = Fetched()
        timeout = aiohttp.ClientTimeout(sock_read=PATIENCE)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, auto_decompress=how != "raw") as session,
                session.request(method, url, data=body, **more) as response,
            ):
                got.status, got.reason = response.status, response.reason
                got.http_version = f"HTTP/{response.version.major}.{response.version.minor}"
                got.headers = list(response.headers.items())
                if how == "whole":
                    got.chunks.append(await response.read())
                    return got
                async for chunk in response.content.iter_any():
                    got.chunks.append(chunk)
                    if on_chunk:
                        on_chunk(len(got.chunks))
                    if len(got.chunks) == stop_after:
                        break
        except Exception as error:
            got.error = error
        return got


CLIENTS: dict[str, Any] = {
    "httpx": lambda: HttpxSync("httpx"),
    "httpx-async": lambda: HttpxAsync("httpx"),
    "httpx2": lambda: HttpxSync("httpx2"),
    "httpx2-async": lambda: HttpxAsync("httpx2"),
    "urllib3": Urllib3,
    "requests": Requests,
    "aiohttp": Aiohttp,
}
ASYNC_CLIENTS = ("httpx-async", "httpx2-async", "aiohttp")
NEEDS = {"httpx-async": "httpx", "httpx2-async": "httpx2"}


def client_of(name: str) -> Any:
    """Return the adapter; skip the test where the library is not installed."""
    pytest.importorskip(NEEDS.get(name, name))
    return CLIENTS[name]()

"""OTLP over HTTP: one event loop in one thread, and two threads for what takes long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay_collector.access import Keys, Tokens
from otel_agent_replay_collector.http_connection import HttpConnection
from otel_agent_replay_collector.intake import SIGNALS, Intake
from otel_agent_replay_collector.options import Address, CollectorOptions
from otel_agent_replay_collector.refusal import INTERNAL, Refused, busy

if TYPE_CHECKING:
    from otel_agent_replay_collector.buffers import Buffer
    from otel_agent_replay_collector.http_head import Head
    from otel_agent_replay_collector.request_log import Accepted

_log = logging.getLogger("otel_agent_replay.collector")

_TEXT = b"text/plain; charset=utf-8"
_METRICS = b"text/plain; version=0.0.4; charset=utf-8"
_SWEEP_S = 0.5
_MOST_THOUGHT = 64  # requests that wait for a thread


class HttpFront:
    """Serves OTLP over HTTP at `address` once it is started; `bound` is where, with the port that was free.

    `metrics` makes the text of /metrics, `ready` says why the receiver is not ready, "" when it is.
    """

    def __init__(
        self,
        address: Address,
        options: CollectorOptions,
        intake: Intake,
        tokens: Tokens,
        keys: Keys | None,
        *,
        metrics: Callable[[], str],
        ready: Callable[[], str],
    ) -> None:
        self.intake = intake
        self.tokens = tokens
        self._address = address
        self._options = options
        self._tls = None if keys is None else keys.context()
        self._metrics = metrics
        self._ready = ready
        self._connections: set[HttpConnection] = set()
        self._thinkers = ThreadPoolExecutor(2, thread_name_prefix="http-decode")
        self._thought = 0
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._started = threading.Event()
        self._failed: OSError | None = None
        self._ending: asyncio.Event | None = None
        self._labels = {kind: f'protocol="http",signal="{signal}"' for kind, signal in SIGNALS.items()}
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self.bound = address

    def start(self) -> None:
        """Listen. Raises ConfigurationError when that is not possible."""
        self._thread.start()
        self._started.wait()
        if self._failed is not None:
            raise ConfigurationError(f"cannot listen on {self._address}: {self._failed}") from self._failed

    def stop(self, seconds: float) -> None:
        """Stop listening, finish what was begun for at most `seconds`, close."""
        if self._thread.is_alive() and self._ending is not None:
            self._deadline = time.monotonic() + seconds
            self.loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(seconds + 5)
        self._thinkers.shutdown(wait=False, cancel_futures=True)

    # --- the loop's thread ---

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        except OSError as error:
            self._failed = error
        finally:
            self._started.set()
            self.loop.close()

    async def _serve(self) -> None:
        self._ending = asyncio.Event()
        address = self._address
        server = await self.loop.create_server(
            lambda: HttpConnection(self), address.host, address.port, ssl=self._tls, backlog=1024
        )
        self.bound = Address(address.host, server.sockets[0].getsockname()[1])
        self._started.set()
        while not self._ending.is_set():
            self._sweep()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _SWEEP_S)
        server.close()
        await self._drain()

    async def _drain(self) -> None:
        for connection in list(self._connections):
            connection.finish()
        while self._connections and time.monotonic() < self._deadline:
            self._sweep()
            await asyncio.sleep(0.02)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    def _sweep(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            connection.overdue(now, self._options.request_s, self._options.idle_s)

    # --- what connections ask for ---

    def opened(self, connection: HttpConnection) -> None:
        """Take a connection in, or turn it away when there are too many."""
        if len(self._connections) >= self._options.max_connections:
            connection.refuse(busy("there are too many connections", self._options.retry_s, "connections"))
            connection.finish()
        self._connections.add(connection)

    def closed(self, connection: HttpConnection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._connections)

    def came(self, length: int, kind: int) -> None:
        """Count a request."""
        self.intake.tally.add("requests", 1, self._labels[kind])
        self.intake.tally.add("received_bytes", length)

    def page(self, request: Head) -> tuple[int, bytes, bytes]:
        """Return status, body and type of what is read, not sent."""
        if request.method not in (b"GET", b"HEAD"):
            return 405, b"POST to /v1/traces or /v1/logs\n", _TEXT
        if request.path == b"/healthz":
            return 200, b"ok\n", _TEXT
        if request.path == b"/readyz":
            why = self._ready()
            return (503, f"{why}\n".encode(), _TEXT) if why else (200, b"ready\n", _TEXT)
        if request.path == b"/metrics":
            return 200, self._metrics().encode(), _METRICS
        return 404, b"here are /v1/traces, /v1/logs, /healthz, /readyz and /metrics\n", _TEXT

    # --- what takes long ---

    def think(
        self, connection: HttpConnection, buffer: Buffer, length: int, kind: int, *, is_json: bool, gzipped: bool
    ) -> None:
        """Look at a request in another thread."""
        if self._thought >= _MOST_THOUGHT:
            buffer.release()
            self._refuse(connection, busy("too many requests wait to be decoded", 1.0, "decoding"))
            return
        self._thought += 1

        def work() -> None:
            try:
                accepted = self.intake.slow(buffer, length, kind, self, connection, is_json=is_json, gzipped=gzipped)
            except Refused as why:
                self._soon(self._thought_through, connection, why)
            except Exception as error:
                _log.exception("a request could not be looked at")
                defect = Refused(INTERNAL, 500, f"the request could not be looked at: {type(error).__name__}")
                self._soon(self._thought_through, connection, defect)
            else:
                self._soon(self._thought_through, connection, None)
                self.intake.submit(accepted)

        self._thinkers.submit(work)

    def _thought_through(self, connection: HttpConnection, why: Refused | None) -> None:
        self._thought -= 1
        if why is not None:
            self._refuse(connection, why)

    def _refuse(self, connection: HttpConnection, why: Refused) -> None:
        self.intake.refused(why)
        connection.refuse(why)

    # --- what the log says ---

    def committed(self, requests: Sequence[Accepted], error: OSError | None) -> None:
        """Hear from the log; called by its thread."""
        self._soon(self._answer_all, requests, error)

    def _answer_all(self, requests: Sequence[Accepted], error: OSError | None) -> None:
        for request in requests:
            connection = request.tag
            assert isinstance(connection, HttpConnection)  # noqa: S101 - it was handed in with the request
            if error is not None:
                self._refuse(connection, self.intake.not_written(request))
            else:
                self.intake.acknowledged(request)
                connection.acknowledge(request.answer)

    def _soon(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to answer
            self.loop.call_soon_threadsafe(call, *arguments)

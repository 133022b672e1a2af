"""OTLP over gRPC: the services' methods on raw bytes, so that a request is decoded once, and by us.

Messages come as they were sent, compressed or not: gRPC's own decompression has no bound, `gunzip` has. So is its own
bound on calls: it refuses without saying when to come again, and a sender may send such a call no more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay_collector.access import Keys, Tokens
from otel_agent_replay_collector.intake import SIGNALS, Intake
from otel_agent_replay_collector.options import Address, CollectorOptions
from otel_agent_replay_collector.refusal import INTERNAL, Refused, busy, unauthenticated
from otel_agent_replay_collector.request_file import LOGS, TRACES
from otel_agent_replay_collector.request_log import Accepted

_log = logging.getLogger("otel_agent_replay.collector")

_METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": TRACES,
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": LOGS,
}
_HEALTH = "/grpc.health.v1.Health/Check"
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"  # HealthCheckResponse.status
_GZIP = b"\x1f\x8b"  # no protobuf message begins so: a field of that number has no such type
_THREADS = 16
_MOST_AT_ONCE = 256
"""Calls that are served or wait for a thread; their messages are not read before."""
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_FRAMING = 1 << 20


class _Call:
    """One request on its way to the disk; its thread waits for it."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: OSError | None = None

    def committed(self, requests: Sequence[Accepted], error: OSError | None) -> None:  # noqa: ARG002 - `Waiting`
        self.error = error
        self.done.set()


class _Threads(ThreadPoolExecutor):
    """Threads that serve calls; `open` counts the calls that are served or wait for one."""

    def __init__(self) -> None:
        super().__init__(_THREADS, thread_name_prefix="grpc")
        self._counting = threading.Lock()
        self.open = 0

    def submit(self, *given: Any, **named: Any) -> Future[Any]:
        """Serve one more."""
        with self._counting:
            self.open += 1
        future = super().submit(*given, **named)
        future.add_done_callback(self._done)
        return future

    def _done(self, _future: Future[Any]) -> None:
        with self._counting:
            self.open -= 1


class GrpcFront:
    """Serves OTLP over gRPC at `address` once it is started; `bound` is where."""

    def __init__(
        self, address: Address, options: CollectorOptions, intake: Intake, tokens: Tokens, keys: Keys | None
    ) -> None:
        self._intake = intake
        self._tokens = tokens
        self._labels = {kind: f'protocol="grpc",signal="{signal}"' for kind, signal in SIGNALS.items()}
        self._address = address
        self._keys = keys
        self._threads = _Threads()
        self._server = grpc.server(
            self._threads,
            handlers=(_Methods(self),),
            options=(
                ("grpc.per_message_decompression", 0),
                ("grpc.max_receive_message_length", (options.max_request_mb << 20) + _FRAMING),
                ("grpc.so_reuseport", 0),
                ("grpc.max_connection_idle_ms", int(options.idle_s * 1000)),
            ),
        )
        self.bound = address

    def start(self) -> None:
        """Listen. Raises ConfigurationError when that is not possible."""
        place = str(self._address)
        try:
            if self._keys is None:
                port = self._server.add_insecure_port(place)
            else:
                port = self._server.add_secure_port(place, self._keys.credentials())
        except RuntimeError as error:
            raise ConfigurationError(f"cannot listen on {place}: {error}") from error
        self.bound = Address(self._address.host, port)
        self._server.start()

    def stop(self, seconds: float) -> None:
        """Take no more calls, finish those that were begun for at most `seconds`."""
        self._server.stop(seconds).wait(seconds + 5)

    def export(self, kind: int, data: bytes, context: Any) -> bytes:
        """Serve one call. Returns the serialised response, or aborts the call with a status."""
        self._intake.tally.add("requests", 1, self._labels[kind])
        self._intake.tally.add("received_bytes", len(data))
        try:
            return self._kept(kind, data, context)
        except Refused as why:
            refusal = why
        except Exception as error:
            _log.exception("a request could not be looked at")
            refusal = Refused(INTERNAL, 500, f"the request could not be looked at: {type(error).__name__}")
        self._refuse(refusal, context)
        raise AssertionError("abort raises")

    @property
    def is_crowded(self) -> bool:
        """Whether so many calls are under way that one more is to be refused."""
        return self._threads.open >= _MOST_AT_ONCE

    def refuse_crowded(self, kind: int, context: Any) -> bytes:
        """Refuse one call, whose message nobody reads."""
        self._intake.tally.add("requests", 1, self._labels[kind])
        self._refuse(busy("too many calls are under way", 1.0, "calls"), context)
        raise AssertionError("abort raises")

    def _refuse(self, refusal: Refused, context: Any) -> None:
        self._intake.refused(refusal)
        context.set_trailing_metadata((("grpc-status-details-bin", refusal.status().SerializeToString()),))
        context.abort(_CODES[refusal.code], refusal.message)

    def _kept(self, kind: int, data: bytes, context: Any) -> bytes:
        given = dict(context.invocation_metadata()).get("authorization", "")
        if not self._tokens.allow(given.encode() if isinstance(given, str) else given):
            raise unauthenticated()
        refusal = self._intake.not_now()
        if refusal is not None:
            raise refusal
        buffer = self._intake.room_for(len(data))
        buffer.body(len(data))[:] = data
        call = _Call()
        gzipped = data[:2] == _GZIP
        accepted = None if gzipped else self._intake.quick(buffer, len(data), kind, call, None)
        if accepted is None:
            accepted = self._intake.slow(buffer, len(data), kind, call, None, is_json=False, gzipped=gzipped)
        self._intake.submit(accepted)
        call.done.wait()
        if call.error is not None:
            raise self._intake.not_written(accepted)
        self._intake.acknowledged(accepted)
        return accepted.answer

    def health(self) -> bytes:
        """Return a HealthCheckResponse."""
        return _NOT_SERVING if self._intake.ending else _SERVING


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, front: GrpcFront) -> None:
        self._front = front
        self._refusers = ThreadPoolExecutor(1, thread_name_prefix="grpc-refuses")

    def service(self, handler_call_details: Any) -> Any:
        """Return what serves a method, None for an unknown one."""
        method = handler_call_details.method
        if method == _HEALTH:
            return grpc.unary_unary_rpc_method_handler(lambda _data, _context: self._front.health())
        kind = _METHODS.get(method)
        if kind is None:
            return None
        if self._front.is_crowded:
            return grpc.stream_unary_rpc_method_handler(self._refusing(kind))
        return grpc.unary_unary_rpc_method_handler(lambda data, context: self._front.export(kind, data, context))

    def _refusing(self, kind: int) -> Any:
        """Return what refuses a call at once, by a thread of its own, as if it were a stream that nobody reads."""

        def refuse(_stream: Any, context: Any) -> bytes:
            return self._front.refuse_crowded(kind, context)

        refuse.experimental_thread_pool = self._refusers  # type: ignore[attr-defined]
        return refuse

"""The receiver's process: its parts put together, started, and ended in order.

On SIGTERM or SIGINT it takes no more, finishes what was begun, writes it, and ends. What was acknowledged is on disk
before that, so a kill loses nothing of it either.
"""

from __future__ import annotations

import ctypes
import json
import logging
import sys
import time
from pathlib import Path

from otel_agent_replay.redaction import rules_of
from otel_agent_replay_collector.access import Keys, Tokens, tokens_from
from otel_agent_replay_collector.admission import Admission
from otel_agent_replay_collector.grpc_front import GrpcFront
from otel_agent_replay_collector.http_front import HttpFront
from otel_agent_replay_collector.intake import Intake
from otel_agent_replay_collector.options import CollectorOptions
from otel_agent_replay_collector.request_file import STATUS_FILE, closed_segments, requests_folder
from otel_agent_replay_collector.request_log import RequestLog
from otel_agent_replay_collector.tally import Tally

_log = logging.getLogger("otel_agent_replay.collector")
_LOOPBACK = ("127.", "localhost", "::1")


class Receiver:
    """A receiver in this process. Raises ConfigurationError for options that do not work, OSError for a lake."""

    def __init__(self, options: CollectorOptions) -> None:
        self._options = options
        keys = _keys(options)
        known = tokens_from(options.token_file, options.token)
        tokens = Tokens(known)
        keep_memory()
        options.folder.mkdir(parents=True, exist_ok=True)
        self._log = RequestLog(
            options.folder,
            segment_bytes=options.segment_mb << 20,
            segment_s=options.segment_s,
            sync=options.fsync,
        )
        self.tally = Tally()
        rules = rules_of(options.redaction)
        self._admission = Admission(most=options.max_request_mb << 20, rules=rules, key=options.hash_key.encode())
        self.intake = Intake(options, self._admission, self._log, self.tally)
        self._started = time.time()
        self.http = (
            None
            if options.http is None
            else HttpFront(
                options.http, options, self.intake, tokens, keys, metrics=self.metrics, ready=self.why_not_ready
            )
        )
        self.grpc = None if options.grpc is None else GrpcFront(options.grpc, options, self.intake, tokens, keys)
        self._is_open = not known and keys is None

    def start(self) -> None:
        """Listen. Raises ConfigurationError."""
        for front in (self.http, self.grpc):
            if front is not None:
                front.start()
                if self._is_open and not str(front.bound).startswith(_LOOPBACK):
                    _log.warning(
                        "%s is open to everybody who reaches it: set token_file, or tls_client_ca", front.bound
                    )
        if not self._options.fsync:
            _log.warning("fsync is off: what is acknowledged can be lost with the machine's power")

    def stop(self) -> None:
        """Take no more, finish what was begun, write it, close."""
        self.intake.ending = True
        deadline = time.monotonic() + self._options.drain_s
        for front in (self.http, self.grpc):
            if front is not None:
                front.stop(max(0.1, deadline - time.monotonic()))
        self._log.close()

    def why_not_ready(self) -> str:
        """Return why nothing is taken just now, "" when something is."""
        refusal = self.intake.not_now()
        return "" if refusal is None else refusal.message

    def described(self) -> dict[str, object]:
        """Return what one wants to know of a receiver that has started."""
        return {
            "http": None if self.http is None else str(self.http.bound),
            "grpc": None if self.grpc is None else str(self.grpc.bound),
            "lake": str(self._options.folder),
            "fsync": self._options.fsync,
            "scanner": self._admission.scanner,
        }

    def metrics(self) -> str:
        """Return our metrics as Prometheus text."""
        segments = closed_segments(self._options.folder)
        now = time.time()
        ages = [now - path.stat().st_mtime for path in segments if path.exists()]
        gauges = {
            "waiting_bytes": (self.intake.backlog.bytes, "Bytes of accepted requests that are not sealed."),
            "waiting_segments": (len(segments), "Closed segments that are not sealed."),
            "seal_lag_seconds": (max(ages, default=0.0), "Age of the oldest closed segment that is not sealed."),
            "in_flight_bytes": (self.intake.pool.used, "Bytes of requests that are read or written just now."),
            "connections": (0 if self.http is None else self.http.connections, "Open HTTP connections."),
            "written_bytes": (self._log.written_bytes, "Bytes written to segments."),
            "commits": (self._log.commits, "Groups of requests that were made durable together."),
            "start_time_seconds": (self._started, "When the receiver started, Unix seconds."),
        }
        gauges |= {name: (value, "Of the sealer.") for name, value in _sealer_status(self._options.folder).items()}
        return self.tally.text(gauges)


def _sealer_status(lake: Path) -> dict[str, float]:
    try:
        found = json.loads((requests_folder(lake) / STATUS_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return {f"sealer_{name}": value for name, value in found.items() if isinstance(value, (int, float))}


def _keys(options: CollectorOptions) -> Keys | None:
    if options.tls_certificate is None or options.tls_key is None:
        return None
    return Keys(options.tls_certificate, options.tls_key, options.tls_client_ca)


def keep_memory() -> None:
    """Have the allocator keep what it got from the kernel: decoding a request then takes a third of the time.

    Each decoded request is a few large blocks, which glibc would map and unmap again. Elsewhere nothing is done.
    """
    if sys.platform != "linux":
        return
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    mallopt(mmap_threshold, 32 << 20)
    mallopt(trim_threshold, 256 << 20)
    mallopt(top_pad, 16 << 20)

"""`agent-replay collector`: the receiver in this process, the sealer in another one, started again if it dies."""

from __future__ import annotations

import json
import logging
import resource
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otel_agent_replay_collector.options import CollectorOptions
from otel_agent_replay_collector.sealer_process import SealerProcess
from otel_agent_replay_collector.service import Receiver

_log = logging.getLogger("otel_agent_replay.collector")

_OTHER_FILES = 256


def _allow_connections(count: int) -> None:
    """Have as many files open as connections may be, as far as this process is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHER_FILES
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        _log.warning(
            "only %d files may be open, fewer than max_connections (%d) and what else there is", allowed, count
        )


def serve(options: CollectorOptions, given: Mapping[str, Any], file: Path | None, *, as_json: bool) -> int:
    """Receive until told to end, and return the exit code. `given` and `file` are what `options` came from.

    One line on standard output says where it listens, once it does. Raises ConfigurationError, OSError.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    _allow_connections(options.max_connections)
    receiver = Receiver(options)
    receiver.start()
    sealer = SealerProcess(options, given, file) if options.seal else None
    told = receiver.described()
    text = json.dumps(told) if as_json else "receiving " + ", ".join(f"{name} {value}" for name, value in told.items())
    print(text, flush=True)  # noqa: T201 - this is what the command says
    try:
        while not end.wait(1.0):
            if sealer is not None:
                sealer.look_after()
    finally:
        receiver.stop()
        if sealer is not None:
            sealer.stop()
    return 0

"""`agent-replay collector`: the receiver in this process, the sealer in another one, started again if it dies."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otel_agent_replay_collector.options import CollectorOptions
from otel_agent_replay_collector.sealer_process import SealerProcess
from otel_agent_replay_collector.service import Receiver


def serve(options: CollectorOptions, given: Mapping[str, Any], file: Path | None, *, as_json: bool) -> int:
    """Receive until told to end, and return the exit code. `given` and `file` are what `options` came from.

    One line on standard output says where it listens, once it does. Raises ConfigurationError, OSError.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
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

"""The sealer as a child of the receiver: started, started again, ended."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otel_agent_replay_collector.options import CollectorOptions

_log = logging.getLogger("otel_agent_replay.collector")

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_PATIENCE_S = 30.0


class SealerProcess:
    """A running sealer. It ends by itself when this process is gone, by the pipe that it holds."""

    def __init__(self, options: CollectorOptions, given: Mapping[str, Any], file: Path | None) -> None:
        arguments = [f"{name}={value}" for name, value in given.items() if value is not None]
        self._command = [sys.executable, "-m", "otel_agent_replay_collector.sealing", str(options.folder)]
        self._command += [str(file or ""), *arguments]
        self._pause = _SHORTEST_PAUSE_S
        self._not_before = 0.0
        self._started = 0.0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started = time.monotonic()
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def look_after(self) -> None:
        """Start it again when it has died, less and less often when it dies at once."""
        code = self._process.poll()
        now = time.monotonic()
        if code is None:
            return
        if not self._not_before:
            if now - self._started > _LONGEST_PAUSE_S:
                self._pause = _SHORTEST_PAUSE_S
            self._not_before = now + self._pause
            _log.error("the sealer ended with %d; it is started again in %.0f s, nothing is lost", code, self._pause)
            self._pause = min(self._pause * 2, _LONGEST_PAUSE_S)
        elif now >= self._not_before:
            self._not_before = 0.0
            self._process = self._start()

    def stop(self) -> None:
        """End it: it lands what is complete, and leaves the rest for the next one."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

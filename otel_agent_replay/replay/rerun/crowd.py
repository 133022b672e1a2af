"""Many re-runs: side by side, within one budget, each told to a file as it ends, so that a killed crowd goes on.

Knows nothing of how one is made: that is a function. One that cannot be made is a result like any other and never ends
the crowd.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from otel_agent_replay.errors import AgentReplayError, ConfigurationError
from otel_agent_replay.replay.rerun.outcome import RerunResult
from otel_agent_replay.replay.rerun.report import KILLED, RerunReport, RerunStatus

_SPENT = "spending_limit"


class Job(NamedTuple):
    """One re-run to be made: of run `run_id` (hex), in a lane, its number among its like from 1."""

    run_id: str
    lane: str
    repeat: int


class ResultsFile:
    """Results as JSON lines, one a re-run, appended as each ends. Thread-safe.

    A torn last line (its writer was killed) is not read, and cut off by the next one that is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._cut = False

    def read(self) -> list[RerunResult]:
        """Return what is there. Raises ConfigurationError for a file of something else."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        return [self._result(line, number) for number, line in enumerate(lines, 1)]

    def _result(self, line: bytes, number: int) -> RerunResult:
        try:
            return RerunResult.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, AgentReplayError) as error:
            raise ConfigurationError(f"line {number} of {self.path} is no result of a re-run: {error}") from error

    def append(self, result: RerunResult) -> None:
        """Write a result, durably. Raises OSError."""
        line = json.dumps(result.to_json()).encode() + b"\n"
        with self._lock, self.path.open("r+b" if self.path.exists() else "wb") as file:
            if not self._cut:
                self._cut = True
                whole = self.path.read_bytes()
                file.truncate(whole.rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


class Purse:
    """One budget for many runs, in US dollars (None: no limit). Thread-safe.

    Each run gets an equal share of what is left for as many as go side by side, and gives back what it did not use, so
    that together they never have more than there is.
    """

    def __init__(self, usd: float | None, *, side_by_side: int, spent: float = 0.0) -> None:
        self._left = None if usd is None else usd - spent
        self._slots = side_by_side
        self._taken = 0
        self._lock = threading.Lock()

    @contextmanager
    def share(self) -> Iterator[_Share]:
        """Take a share for the enclosed run; what it says to have `used` is spent."""
        with self._lock:
            usd = None if self._left is None else max(0.0, self._left) / max(1, self._slots - self._taken)
            if self._left is not None and usd is not None:
                self._left -= usd
            self._taken += 1
        share = _Share(usd)
        try:
            yield share
        finally:
            with self._lock:
                self._taken -= 1
                if self._left is not None and usd is not None:
                    self._left += usd - share.used


class _Share:
    """What one run may spend (None: as much as it wants), and what it has `used`."""

    def __init__(self, usd: float | None) -> None:
        self.usd = usd
        self.used = 0.0


def is_done(result: RerunResult) -> bool:
    """Whether a result stands: a re-run that never began, or that only the money stopped, is made again."""
    return result.report.status is not RerunStatus.NOT_BEGUN and result.report.code != _SPENT


def plan_name(parts: Any) -> str:
    """Return a short name for what a crowd was asked to do: the same for the same, so that it finds its results."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def jobs_of(runs: Iterable[str], lanes: Sequence[str], repeats: int) -> list[Job]:
    """Return the re-runs of these runs, those of one run together."""
    return [Job(run, lane, number) for run in runs for lane in lanes for number in range(1, repeats + 1)]


def run_jobs(
    jobs: Sequence[Job],
    make: Callable[[Job, float | None], RerunResult],
    *,
    results: ResultsFile,
    parallel: int = 1,
    purse: Purse,
    told: Callable[[RerunResult], None] = lambda _: None,
) -> list[RerunResult]:
    """Make the re-runs, at most `parallel` side by side; return their results in the order of `jobs`.

    `make(job, usd)` makes one that may spend `usd`; `told` hears of each as it ends, on this thread. What `make` raises
    is the result of that one alone.
    """

    def one(job: Job) -> RerunResult:
        with purse.share() as share:
            if share.usd is not None and share.usd <= 0:
                return _not_begun(job, "the budget is spent", _SPENT)
            try:
                result = make(job, share.usd)
            except AgentReplayError as error:
                return _not_begun(job, str(error), error.code)
            except Exception as error:
                return _not_begun(job, f"{type(error).__name__}: {error}", "defect")
            killed = result.report.code == KILLED and share.usd is not None
            share.used = (share.usd if killed else result.use.cost_usd) or 0.0  # nobody knows what a killed one spent
            return result

    found: dict[Job, RerunResult] = {}
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="agent-replay-rerun")
    try:
        for future in as_completed({pool.submit(one, job): job for job in jobs}):
            result = future.result()
            results.append(result)
            found[Job(result.report.origin_run_id, result.lane, result.repeat)] = result
            told(result)
    finally:
        pool.shutdown(cancel_futures=True)
    return [found[job] for job in jobs if job in found]


def _not_begun(job: Job, reason: str, code: str) -> RerunResult:
    return RerunResult(job.lane, job.repeat, RerunReport.not_begun(job.run_id, "", reason, code))

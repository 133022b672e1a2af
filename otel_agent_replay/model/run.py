"""A run: one execution of an agent, from input to outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_agent_replay.model.word import Word


class RunStatus(Word):
    """How a run ended."""

    OK = "ok"
    ERROR = "error"
    PENDING = "pending"  # it never ended: the process died
    DEPARTED = "departed"  # a replay that left its tape
    ABORTED = "aborted"  # it made as many steps as it may


@dataclass(frozen=True, slots=True)
class Versions:
    """What the run ran with. Empty text: unknown. `tool_schema` is a digest of the tools offered, in hex."""

    agent: str = ""
    prompt: str = ""
    tool_schema: str = ""
    model_route: str = ""
    policy: str = ""
    index: str = ""
    code: str = ""  # revision of the source tree, with "+dirty" when it had changes
    source: str = ""  # digest of the files that declare its agents and tools, in hex
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CoverageEntry:
    """One thing that may cross, and whether we stood there: `state` is captured, partial or not_captured."""

    what: str
    state: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What of a run was and was not captured."""

    entries: Sequence[CoverageEntry] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process's go at a run: its `number` from 1, its own root span, how it ended, what it ran with.

    Times are Unix nanoseconds, `ended_ns` 0 when it never ended. `process` is the journal writer that recorded it.
    """

    number: int
    trace_id: bytes
    span_id: bytes
    started_ns: int
    ended_ns: int = 0
    status: RunStatus = RunStatus.PENDING
    process: str = ""
    mode: str = "record"
    versions: Versions = field(default_factory=Versions)


@dataclass(frozen=True, slots=True)
class Run:
    """One run's facts. `thread_id` is the conversation (`gen_ai.conversation.id`); times are Unix nanoseconds.

    `origin_run_id` links a replay, fork or re-run to the run it came from; `mode` is `record` for a run of
    production. `subject` names whose data the run holds; `process` is the journal writer that recorded it and
    `ordinal` its place among the runs of that process.
    """

    run_id: bytes
    trace_id: bytes
    root_span_id: bytes
    agent: str
    started_ns: int
    ended_ns: int = 0
    status: RunStatus = RunStatus.PENDING
    thread_id: str = ""
    mode: str = "record"
    replay: bool = False
    origin_run_id: bytes = b""
    subject: str = ""
    service: str = ""
    process: str = ""
    ordinal: int = 0
    versions: Versions = field(default_factory=Versions)
    coverage: Coverage = field(default_factory=Coverage)
    hash_seed: str = ""
    entry: str = ""  # module:qualified.name of the decorated agent, or the command line
    format_version: int = 1
    reader_version: int = 1
    quirks: Sequence[str] = ()
    attempt: int = 1  # number of this go at the run: a resumed one is a later
    fork_step: int = 0  # step at which a fork leaves its origin; 0: it is none

    @property
    def is_fork(self) -> bool:
        """Whether it shares its beginning with the run it came from."""
        return bool(self.origin_run_id) and self.fork_step > 0

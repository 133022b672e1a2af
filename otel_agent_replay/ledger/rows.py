"""What the ledger holds, as data. Times are Unix nanoseconds, digests SHA-256."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from otel_agent_replay.model import Word

OPEN = ("intended", "in_doubt")
"""The statuses of effects of which nobody has said yet what became of them."""


class IntentStatus(Word):
    """What is known of an effect when it is intended."""

    NEW = "new"  # nothing: its intent is committed now
    RUNNING = "running"  # this very attempt has begun it and not finished
    PENDING = "pending"  # an earlier attempt began it and left no result
    DONE = "done"  # it was done
    FAILED = "failed"  # it was tried and raised
    DECIDED = "decided"  # a person said what became of it


class Intent(NamedTuple):
    """The answer to an intent. `happened` is a person's word; `result` is None where it is kept by digest only."""

    status: IntentStatus
    result: bytes | None = None
    result_digest: bytes = b""
    happened: bool = False


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run: who holds it, until when, and at which fence."""

    run_id: bytes
    agent: str
    status: str
    worker: str
    fence: int
    lease_expires_ns: int
    started_ns: int
    updated_ns: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """A durable step: an effect, as each attempt went about it. An attempt that died in it left it `intended`."""

    run_id: bytes
    fence: int
    step: int
    key: str
    kind: str
    name: str
    path: str
    status: str
    request_digest: bytes
    result_digest: bytes
    begun_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class EffectRow:
    """An effect. `arguments` is what a person sees of the call, cut short; `result` is None where it is large."""

    run_id: bytes
    tool: str
    key: str
    status: str
    fence: int
    step: int
    path: str
    side_effect: str
    request_digest: bytes
    arguments: bytes
    result: bytes | None
    result_digest: bytes
    begun_ns: int
    ended_ns: int
    decided_by: str


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """An approval: waiting, granted, rejected or spent. `digest` is that of the exact action."""

    run_id: bytes
    digest: bytes
    number: int
    action: str
    step: int
    status: str
    by: str
    asked_ns: int
    decided_ns: int
    state_digest: bytes
    policy: str
    allowed: tuple[str, ...]
    arguments: bytes
    spent_key: str


class Decision(NamedTuple):
    """A person's answer to an approval."""

    granted: bool
    by: str
    policy: str
    allowed: tuple[str, ...]

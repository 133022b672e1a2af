"""What a ledger must hold after what was done to it, and the world that agents change: both without any database."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

Name = tuple[str, str]
"""An effect: its tool and its key."""


class Says(Enum):
    """What a worker must be told when it is about to call."""

    CALL = "make the call"
    RESULT = "what came of it"
    DOUBT = "a person must decide"
    RUNNING = "it is running here"
    REUSED = "the key stands for another call"
    UNAPPROVED = "nobody approved it"


@dataclass
class Row:
    """An effect as the ledger must hold it."""

    status: str
    fence: int
    step: int
    digest: bytes
    result: object = None


@dataclass
class World:
    """What the calls did. A service that is handed a key does what it is asked once a key."""

    ran: Counter[Name] = field(default_factory=Counter)
    """How often the code of a call ran."""
    did: dict[Name, int] = field(default_factory=dict)
    """What was done, by effect: the amount."""

    def run(self, name: Name, amount: int, *, nothing_came: int) -> str:
        """Do it; return the result. Under one key it is one amount, unless the worker knew that nothing came of it."""
        self.ran[name] += 1
        done = self.did.setdefault(name, amount)
        assert done == amount or nothing_came, f"{name} was used for {done} and for {amount}"
        return f"did {done}"


@dataclass
class Model:
    """The ledger of one run."""

    clock: int = 0
    fence: int = 0
    worker: str = ""
    expires: int = 0
    rows: dict[Name, Row] = field(default_factory=dict)
    granted: Counter[bytes] = field(default_factory=Counter)
    """Approvals that are not spent, by the digest of their action."""
    licences: Counter[Name] = field(default_factory=Counter)
    """How often a worker was told to make the call."""
    nothing_came: Counter[Name] = field(default_factory=Counter)
    """How often it failed, or never happened by somebody's word."""

    @property
    def is_held(self) -> bool:
        return bool(self.worker) and self.expires > self.clock

    def holds(self, worker: str, fence: int) -> bool:
        """Whether that worker may still write: nobody has taken the run since, nor was it given back."""
        return (self.worker, self.fence) == (worker, fence)

    def open(self) -> dict[Name, Row]:
        return {name: row for name, row in self.rows.items() if row.status in ("intended", "in_doubt")}

    def expected(self, name: Name, row: Row, *, takes_key: bool, recovers: bool, action: bytes | None) -> Says:
        """Return what a worker that is about to make the call `row` must be told; a status query answers if any."""
        found = self.rows.get(name)
        if found is None:
            return Says.CALL if action is None or self.granted[action] else Says.UNAPPROVED
        if found.digest != row.digest and found.step != row.step and found.status not in ("failed", "not_happened"):
            return Says.REUSED
        if found.status == "intended" and found.fence == row.fence:
            return Says.RUNNING
        if found.status in ("done", "happened"):
            return Says.RESULT
        if found.status in ("failed", "not_happened") or takes_key or recovers:
            return Says.CALL
        return Says.DOUBT

    def called(self, name: Name, row: Row, action: bytes | None) -> None:
        """A worker was told to call."""
        if name not in self.rows and action is not None:
            self.granted[action] -= 1
        assert name not in self.rows or self.rows[name].status not in ("done", "happened"), "it has a result"
        self.rows[name] = row
        self.licences[name] += 1

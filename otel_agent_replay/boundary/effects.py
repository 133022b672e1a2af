"""What the engine asks of a ledger: that a side effect happens once, whatever dies in between.

Owns the terms that a tool declares, the keys that tell a repeat, and the protocol of the ledger's side, which lies
outside `boundary`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from otel_agent_replay.boundary.crossing import Answer, Place
from otel_agent_replay.model import Call, Kind, Outcome, RunStatus

if TYPE_CHECKING:
    from otel_agent_replay.boundary.approvals import Grant
    from otel_agent_replay.boundary.runs import Continuation


@dataclass(frozen=True, slots=True)
class Terms:
    """What a tool declares about being called twice.

    `takes_key` tells that it hands its key to the system that it changes, so that it may be called again with the same
    one. `recover(key)` asks that system what became of a call: it returns the call's result, or raises
    `errors.NotHappened`. `approval` is the digest of the action that must have been approved, None: none is needed.
    `derives_key` tells that the call has no key of its own and is to be given one.
    """

    takes_key: bool = False
    recover: Callable[[str], Any] | None = None
    approval: bytes | None = None
    derives_key: bool = False


NO_TERMS = Terms()


class Effects(Protocol):
    """One run's way to the ledger. Implemented outside `boundary`."""

    def goes_on_from(self, continuation: Continuation) -> None:
        """The run goes on from this recording: what was in flight there may have happened."""

    def intend(self, call: Call, place: Place, terms: Terms) -> Answer | None:
        """Return what is known of a call that was made before, or its refusal; None: it is to be made now.

        Its intent is then committed under `call.idempotency_key`, and the effect hangs on `place`. A refusal is an
        answer that fails: EffectRunning, KeyReused, ApprovalRequired. Raises EffectInDoubt, LeaseLost, LedgerError.
        """

    def passed(self, call: Call, place: Place, outcome: Outcome, terms: Terms) -> None:
        """The recording that the run goes on from has this call and how it ended: the ledger may not know yet."""

    def decided(self, call: Call, place: Place) -> Answer | None:
        """Return a person's answer to an approval that the run was stopped for, or None."""

    def awaits(self, place: Place, call: Call) -> None:
        """The run stops until a person has answered this approval."""

    def granted(self, place: Place, grant: Grant) -> None:
        """A person approved an action, now or on record: the ledger may not know yet."""

    def closed(self, status: RunStatus) -> None:
        """The run has ended, or stopped for now."""


class Keys:
    """The idempotency keys of one run: the n-th equal call of a tool gets the n-th. Thread-safe.

    The key of a call that failed is given to the next equal one: it is the same effect, tried once more. A call that
    is on record keeps its recorded key, and no other one gets it, in whatever order parallel calls ask again.
    """

    def __init__(self, run_id: bytes, recorded: Collection[str] = ()) -> None:
        self._run_id = run_id
        self._recorded = set(recorded)
        self._first: dict[tuple[str, bytes], int] = {}  # numbers below it are in use
        self._used: set[str] = set()
        self._lock = threading.Lock()

    def of(self, call: Call, recorded: str) -> str:
        """Return the key of a call that is about to be made, in 32 hexadecimal digits: the recorded one if any."""
        of = (call.name, call.digest)
        with self._lock:
            key = recorded
            number = self._first.get(of, 0)
            while not key:
                key = self._key(call, number)
                if key in self._used or key in self._recorded:
                    key = ""
                number += 1
                self._first[of] = number
            self._used.add(key)
        return key

    def failed(self, call: Call, *, on_record: bool) -> None:
        """The call failed, now or on record: a later one on record may then have the same key."""
        with self._lock:
            self._used.discard(call.idempotency_key)
            if not on_record:
                self._recorded.discard(call.idempotency_key)
            self._first.pop((call.name, call.digest), None)

    def _key(self, call: Call, number: int) -> str:
        name = call.name.encode("utf-8", "surrogatepass")
        text = b"\0".join((self._run_id, name, call.digest, str(number).encode()))
        return hashlib.sha256(text).hexdigest()[:32]


def key_above(place: Place | None) -> str:
    """Return the key of the effect that the code at `place` runs for, "" when it runs for none."""
    while place is not None:
        if place.key:
            return place.key
        place = place.parent
    return ""


def sandbox_above(place: Place | None) -> str:
    """Return the URL of the sandbox that the code at `place` is rehearsed against, "" for none."""
    while place is not None:
        if place.sandbox:
            return place.sandbox
        place = place.parent
    return ""


def licensed_above(place: Place | None) -> bool:
    """Whether code at `place` runs inside a tool that is called through and said that it touches the world."""
    while place is not None:
        if place.kind is Kind.TOOL and place.through:
            return True
        place = place.parent
    return False

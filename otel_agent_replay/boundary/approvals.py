"""A person's approvals: each bound to one exact action and its arguments, spent once.

Owns what is granted and not yet spent in one run's session. Whether a grant also lies in a ledger is the effects'
affair; a replay spends only what its tape granted.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.errors import ApprovalRequired
from otel_agent_replay.model import MediaType
from otel_agent_replay.payload.canonical import canonical_body


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person approved: `digest` is that of the exact action, `state` the digest of what they saw before.

    `at_ns` is 0 for what was approved before, in the recording that the run goes on from.
    """

    digest: bytes
    action: str
    by: str
    policy: str
    allowed: Sequence[str]
    at_ns: int
    state: bytes


def action_digest(action: str, arguments: bytes) -> bytes:
    """Return the digest of calling `action` with these arguments (the typed codec's bytes), whatever their order."""
    canonical = canonical_body(arguments, MediaType.VALUE.value)
    return hashlib.sha256(action.encode("utf-8", "surrogatepass") + b"\0" + canonical).digest()


class Approvals:
    """The approvals of one session. Thread-safe."""

    def __init__(self) -> None:
        self._unspent: dict[bytes, int] = {}
        self._actions: dict[str, int] = {}
        self._lock = threading.Lock()

    def grant(self, grant: Grant) -> None:
        """Take down an approval."""
        with self._lock:
            self._unspent[grant.digest] = self._unspent.get(grant.digest, 0) + 1
            self._actions[grant.action] = self._actions.get(grant.action, 0) + 1

    def spend(self, action: str, digest: bytes) -> None:
        """Use up one approval of exactly this action. Raises ApprovalRequired when there is none."""
        with self._lock:
            left = self._unspent.get(digest, 0)
            if left:
                self._unspent[digest] = left - 1
                self._actions[action] -= 1
                return
            others = self._actions.get(action, 0)
        if others:
            raise ApprovalRequired(action, "what was approved has other arguments")
        raise ApprovalRequired(action, "none was given, or it was spent by an earlier call")

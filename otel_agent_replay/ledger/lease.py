"""A worker's hold on one run, and all that it may do there: each deed checks its fence in the same transaction."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from otel_agent_replay.errors import LeaseLost, LedgerError
from otel_agent_replay.ledger import approvals, effects, schema
from otel_agent_replay.ledger.engine import Database
from otel_agent_replay.ledger.rows import Decision, Intent

_log = logging.getLogger("otel_agent_replay")
_time_ns = time.time_ns
_TAKEN = "the lease ran out and another worker has it"
_FENCE = (
    select(schema.runs.c.fence, schema.runs.c.worker)
    .where(schema.runs.c.run_id == bindparam("held"))
    .with_for_update()  # on PostgreSQL: the writes of a run come one after the other
)


class Lease:
    """A hold on run `run_id` at `fence`. Thread-safe; in a forked child it is lost."""

    def __init__(
        self, database: Database, run_id: bytes, worker: str, fence: int, lease_s: float, taken_ns: int
    ) -> None:
        self.run_id = run_id
        self.worker = worker
        self.fence = fence
        self.expires_ns = taken_ns + int(lease_s * 1e9)
        self._database = database
        self._lease_s = lease_s
        self._pid = os.getpid()
        self._lost = ""  # why
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None

    # --- holding on ---

    def start_renewing(self) -> None:
        """Renew it every third of its time, in a thread of its own, until it is released or lost."""
        self._renewer = threading.Thread(target=self._renew_often, name="agent-replay-lease", daemon=True)
        self._renewer.start()

    def renew(self) -> None:
        """Hold the run for its time from now. Raises LeaseLost, LedgerError."""
        with self._writing() as connection:
            now = self._database.now_ns(connection)
            expires = now + int(self._lease_s * 1e9)
            self._update(connection, lease_expires_ns=expires, updated_ns=now)
        self.expires_ns = expires

    def release(self, status: str) -> None:
        """Give the run back, with how it stands now: the lease is then over. Raises LeaseLost, LedgerError."""
        self._stop.set()
        self._database.soon(lambda: self._release(status))

    def _release(self, status: str) -> None:
        with self._writing() as connection:
            self._update(connection, status=status, worker="", lease_expires_ns=0, updated_ns=_time_ns())
        self._lost = "it was given back"

    def _renew_often(self) -> None:
        with suppress(LeaseLost):
            while not self._stop.wait(self._lease_s / 3):
                self._renew_or_say()

    def _renew_or_say(self) -> None:
        try:
            self.renew()
        except LedgerError as error:
            _log.warning("the lease of run %s could not be renewed: %s", self.run_id.hex(), error)

    # --- effects ---

    def intend(
        self,
        *,
        tool: str,
        key: str,
        step: int,
        path: str,
        side_effect: str,
        request_digest: bytes,
        arguments: bytes,
        approval: bytes | None = None,
    ) -> Intent:
        """Commit that an effect is about to be called, or return what is known of it.

        `approval` is the digest of an action that must have been approved: one approval is spent with the intent.
        Raises LeaseLost, ApprovalRequired, KeyReused, LedgerError.
        """
        with self._writing() as connection:
            return effects.intend(
                connection,
                effects.Named(self.run_id, tool, key),
                self.fence,
                {
                    "step": step,
                    "path": path,
                    "side_effect": side_effect,
                    "request_digest": request_digest,
                    "arguments": arguments,
                },
                approval,
            )

    def again(self, *, tool: str, key: str, step: int, path: str, request_digest: bytes, arguments: bytes) -> None:
        """Commit that an effect that is known, and does not run here, is called once more, now like this.

        Raises EffectRunning when it is running or was done meanwhile, LeaseLost, LedgerError.
        """
        call = {"step": step, "path": path, "request_digest": request_digest, "arguments": arguments}
        with self._writing() as connection:
            effects.again(connection, effects.Named(self.run_id, tool, key), self.fence, call)

    def doubt(self, *, tool: str, key: str) -> None:
        """Commit that a person must say what became of it. Raises LeaseLost, LedgerError."""
        with self._writing() as connection:
            effects.doubt(connection, effects.Named(self.run_id, tool, key))

    def finish(self, *, tool: str, key: str, failed: bool, result_digest: bytes, result: bytes | None) -> None:
        """Commit what came of an effect. Raises LeaseLost, LedgerError."""
        named = effects.Named(self.run_id, tool, key)

        def finish() -> None:
            with self._writing() as connection:
                effects.finish(connection, named, self.fence, failed, result_digest, result)

        self._database.soon(finish)

    # --- approvals ---

    def grant(
        self,
        *,
        step: int,
        action: str,
        digest: bytes,
        by: str,
        at_ns: int,
        state_digest: bytes,
        policy: str,
        allowed: Sequence[str],
    ) -> None:
        """Take down an approval, once for each step and action. Raises LeaseLost, LedgerError."""
        with self._writing() as connection:
            if approvals.is_there(connection, self.run_id, step, digest, "granted", "spent"):
                return
            approvals.add(
                connection,
                self.run_id,
                digest,
                action=action,
                step=step,
                status="granted",
                by=by,
                decided_ns=at_ns,
                state_digest=state_digest,
                policy=policy,
                allowed=json.dumps(list(allowed)),
            )

    def spent(self, *, tool: str, key: str, approval: bytes) -> None:
        """Take down that a call that is on record used up an approval, once. Raises LeaseLost, LedgerError."""
        with self._writing() as connection:
            approvals.spent_on_record(connection, self.run_id, tool, approval, key)

    def await_decision(self, *, step: int, name: str, digest: bytes, arguments: bytes) -> None:
        """Take down that the run waits for a person's answer, once. Raises LeaseLost, LedgerError."""
        with self._writing() as connection:
            if not approvals.is_there(connection, self.run_id, step, digest, "waiting"):
                approvals.add(
                    connection, self.run_id, digest, action=name, step=step, status="waiting", arguments=arguments
                )

    def decision(self, *, step: int, digest: bytes) -> Decision | None:
        """Return a person's answer to the approval at a step, None without one. Raises LeaseLost, LedgerError.

        What it says is acted on, so that only who holds the run is told: the fence is checked as for a write.
        """
        with self._writing() as connection:
            return approvals.decision(connection, self.run_id, step, digest)

    # --- inside ---

    def _must_hold(self) -> None:
        if self._pid != os.getpid():
            raise LeaseLost(self.run_id.hex(), self.fence, "the process was forked, the run is its parent's")
        if self._lost:
            raise LeaseLost(self.run_id.hex(), self.fence, self._lost)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Run the enclosed code in a transaction that begins with the check of the fence, and locks the run's row."""
        self._must_hold()
        with self._database.writing() as connection:
            held = connection.execute(_FENCE, {"held": self.run_id}).one_or_none()
            if held is None or held.fence != self.fence or held.worker != self.worker:
                self._lost = self._lost or _TAKEN
                self._stop.set()
                raise LeaseLost(self.run_id.hex(), self.fence, self._lost)
            yield connection

    def _update(self, connection: Connection, **values: Any) -> None:
        connection.execute(update(schema.runs).where(schema.runs.c.run_id == self.run_id).values(**values))

"""A worker's hold on one run, and all that it may write: each write checks its fence in the same transaction."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, and_, func, insert, select, update

from otel_agent_replay.errors import ApprovalRequired, LeaseLost, LedgerError
from otel_agent_replay.ledger import schema
from otel_agent_replay.ledger.engine import Database
from otel_agent_replay.ledger.rows import Decision, Intent, IntentStatus

LARGEST_RESULT = 64 * 1024
"""Bytes of a result that is kept in the ledger; a larger one is kept by its digest, its bytes lie in the recording."""

_log = logging.getLogger("otel_agent_replay")
_time_ns = time.time_ns
_KNOWN = {"done": IntentStatus.DONE, "failed": IntentStatus.FAILED, "in_doubt": IntentStatus.PENDING}


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
        self._lost = False
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None

    # --- holding on ---

    def start_renewing(self) -> None:
        """Renew it every third of its time, in a thread of its own, until it is released or lost."""
        self._renewer = threading.Thread(target=self._renew_often, name="agent-replay-lease", daemon=True)
        self._renewer.start()

    def renew(self) -> None:
        """Hold the run for its time from now. Raises LeaseLost, LedgerError."""
        now = _time_ns()
        expires = now + int(self._lease_s * 1e9)
        with self._writing(lease_expires_ns=expires, updated_ns=now):
            pass
        self.expires_ns = expires

    def release(self, status: str) -> None:
        """Give the run back, with how it stands now. Raises LeaseLost, LedgerError."""
        self._stop.set()
        with self._writing(status=status, worker="", lease_expires_ns=0, updated_ns=_time_ns()):
            pass

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

        `approval` is the digest of the action; where the ledger holds approvals of it, one is spent with the intent.
        Raises LeaseLost, ApprovalRequired, LedgerError.
        """
        now, table = _time_ns(), schema.effects
        with self._writing(updated_ns=now) as connection:
            found = connection.execute(select(table).where(self._is(tool, key))).one_or_none()
            if found is not None:
                return self._known(found)
            if approval is not None:
                self._spend(connection, tool, approval, key)
            connection.execute(
                insert(table).values(
                    run_id=self.run_id,
                    tool=tool,
                    key=key,
                    status="intended",
                    fence=self.fence,
                    step=step,
                    path=path,
                    side_effect=side_effect,
                    request_digest=request_digest,
                    arguments=arguments,
                    result_digest=b"",
                    begun_ns=now,
                    ended_ns=0,
                    decided_by="",
                )
            )
            self._add_step(connection, step, "effect", tool, path, "intended", request_digest, now)
        return Intent(IntentStatus.NEW)

    def again(self, *, tool: str, key: str) -> None:
        """Commit that a known effect is called once more, with the same key. Raises LeaseLost, LedgerError."""
        self._set(tool, key, {"status": "intended", "fence": self.fence, "begun_ns": _time_ns(), "ended_ns": 0})

    def doubt(self, *, tool: str, key: str) -> None:
        """Commit that a person must say what became of it. Raises LeaseLost, LedgerError."""
        self._set(tool, key, {"status": "in_doubt"})

    def finish(self, *, tool: str, key: str, failed: bool, result_digest: bytes, result: bytes | None) -> None:
        """Commit what came of an effect. Raises LeaseLost, LedgerError."""
        kept = result if result is not None and len(result) <= LARGEST_RESULT else None
        status = "failed" if failed else "done"
        self._set(tool, key, {"status": status, "result": kept, "result_digest": result_digest, "ended_ns": _time_ns()})

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
        """Take down an approval that was given now. Raises LeaseLost, LedgerError."""
        with self._writing(updated_ns=_time_ns()) as connection:
            self._add_approval(
                connection,
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

    def await_decision(self, *, step: int, name: str, digest: bytes, arguments: bytes) -> None:
        """Take down that the run waits for a person's answer. Raises LeaseLost, LedgerError."""
        with self._writing(updated_ns=_time_ns()) as connection:
            self._add_approval(connection, digest, action=name, step=step, status="waiting", arguments=arguments)

    def decision(self, *, step: int, digest: bytes) -> Decision | None:
        """Return a person's answer to the approval at a step, once; None when there is none."""
        table = schema.approvals
        with self._writing(updated_ns=_time_ns()) as connection:
            found = connection.execute(
                select(table).where(
                    table.c.run_id == self.run_id,
                    table.c.digest == digest,
                    table.c.step == step,
                    table.c.status.in_(("answered", "rejected")),
                )
            ).first()
            if found is None:
                return None
            connection.execute(
                update(table)
                .where(table.c.run_id == self.run_id, table.c.digest == digest, table.c.number == found.number)
                .values(status="heard" if found.status == "answered" else "refused")
            )
        return Decision(found.status == "answered", found.by, found.policy, tuple(json.loads(found.allowed)))

    # --- inside ---

    @contextmanager
    def _writing(self, **values: Any) -> Iterator[Connection]:
        """Run the enclosed code in a transaction that begins with the check of the fence and the run's new values."""
        if self._lost or self._pid != os.getpid():
            raise LeaseLost(self.run_id.hex(), self.fence)
        with self._database.writing() as connection:
            self._check(connection, values)
            yield connection

    def _check(self, connection: Connection, values: dict[str, Any]) -> None:
        runs = schema.runs
        changed = connection.execute(
            update(runs).where(runs.c.run_id == self.run_id, runs.c.fence == self.fence).values(**values)
        )
        if changed.rowcount != 1:
            self._lose()

    def _lose(self) -> None:
        self._lost = True
        self._stop.set()
        raise LeaseLost(self.run_id.hex(), self.fence)

    def _is(self, tool: str, key: str) -> Any:
        table = schema.effects
        return and_(table.c.run_id == self.run_id, table.c.tool == tool, table.c.key == key)

    def _known(self, found: Any) -> Intent:
        status: str = found.status
        if status == "intended":
            return Intent(IntentStatus.RUNNING if found.fence == self.fence else IntentStatus.PENDING)
        if status in ("happened", "not_happened"):
            return Intent(IntentStatus.DECIDED, found.result, found.result_digest, status == "happened")
        return Intent(_KNOWN[status], found.result, found.result_digest)

    def _set(self, tool: str, key: str, values: dict[str, Any]) -> None:
        now, steps = _time_ns(), schema.steps
        with self._writing(updated_ns=now) as connection:
            connection.execute(update(schema.effects).where(self._is(tool, key)).values(**values))
            if "result_digest" in values:
                connection.execute(
                    update(steps)
                    .where(
                        steps.c.run_id == self.run_id,
                        steps.c.fence == self.fence,
                        steps.c.step == select(schema.effects.c.step).where(self._is(tool, key)).scalar_subquery(),
                    )
                    .values(status=values["status"], result_digest=values["result_digest"], ended_ns=now)
                )

    def _add_step(
        self,
        connection: Connection,
        step: int,
        kind: str,
        name: str,
        path: str,
        status: str,
        request_digest: bytes,
        now: int,
    ) -> None:
        connection.execute(
            insert(schema.steps).values(
                run_id=self.run_id,
                fence=self.fence,
                step=step,
                kind=kind,
                name=name,
                path=path,
                status=status,
                request_digest=request_digest,
                result_digest=b"",
                begun_ns=now,
                ended_ns=0,
            )
        )

    def _add_approval(self, connection: Connection, digest: bytes, **values: Any) -> None:
        table = schema.approvals
        number = connection.execute(
            select(func.count()).where(table.c.run_id == self.run_id, table.c.digest == digest)
        ).scalar_one()
        row = {
            "by": "",
            "asked_ns": _time_ns(),
            "decided_ns": 0,
            "state_digest": b"",
            "policy": "",
            "allowed": "[]",
            "arguments": b"",
            "spent_key": "",
            **values,
        }
        connection.execute(insert(table).values(run_id=self.run_id, digest=digest, number=number, **row))

    def _spend(self, connection: Connection, tool: str, digest: bytes, key: str) -> None:
        table = schema.approvals
        of_action = (table.c.run_id == self.run_id, table.c.digest == digest, table.c.action == tool)
        found = connection.execute(select(table.c.number, table.c.status).where(*of_action)).all()
        if not found:
            return  # it was granted before the run was in this ledger: the session's own count stands
        granted = next((row.number for row in found if row.status == "granted"), None)
        if granted is None:
            raise ApprovalRequired(tool, "the ledger says that it was spent by an earlier call")
        connection.execute(
            update(table).where(*of_action, table.c.number == granted).values(status="spent", spent_key=key)
        )

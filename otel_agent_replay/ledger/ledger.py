"""The ledger as a whole: which runs there are, who may work on one, what a person must decide."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from otel_agent_replay.errors import LedgerError, RunBusy
from otel_agent_replay.ledger import schema
from otel_agent_replay.ledger.engine import Database
from otel_agent_replay.ledger.lease import Lease
from otel_agent_replay.ledger.rows import OPEN, ApprovalRow, EffectRow, RunRow, StepRow
from otel_agent_replay.ledger.workers import is_gone
from otel_agent_replay.model import RunStatus

FILE = "file"
"""As a URL: an SQLite file in the lake's folder."""

_time_ns = time.time_ns
_BATCH = 500  # runs forgotten in one transaction: others write in between
_RUNNING = "running"
_ENDED = ("ok", "error", "aborted", "departed")


def ledger_url(setting: str, lake: Path) -> str:
    """Return the URL that a setting means: itself, or for `file` that of the file in the lake's folder."""
    return f"sqlite:///{Path(lake).resolve() / 'ledger.sqlite'}" if setting == FILE else setting


def open_ledger(url: str) -> Ledger:
    """Open a ledger, with its tables made where there are none. Raises ConfigurationError, UnsupportedFormat."""
    return Ledger(Database(url))


class Ledger:
    """A ledger. Thread-safe, and usable after a fork."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- who works on a run ---

    def begin_run(self, run_id: bytes, agent: str, *, worker: str, lease_s: float) -> Lease:
        """Take down a new run and hold it. Raises RunBusy when it is there already, LedgerError."""
        return self._taken(run_id, agent, worker, lease_s, new=True)

    def take_over(self, run_id: bytes, agent: str, *, worker: str, lease_s: float) -> Lease:
        """Hold a run that nobody holds: its lease was given back, ran out, or its worker on this machine is gone.

        A run that the ledger never saw is taken down. Raises RunBusy, LedgerError.
        """
        return self._taken(run_id, agent, worker, lease_s, new=False)

    def _taken(self, run_id: bytes, agent: str, worker: str, lease_s: float, *, new: bool) -> Lease:
        if len(run_id) != 16 or not worker:
            raise LedgerError(f"a run id has 16 bytes and a worker has a name, not {run_id.hex()!r} and {worker!r}")
        runs = schema.runs
        try:
            with self._database.writing() as connection:
                now = self._database.now_ns(connection)
                found = connection.execute(select(runs).where(runs.c.run_id == run_id).with_for_update()).one_or_none()
                values = {
                    "status": _RUNNING,
                    "worker": worker,
                    "lease_expires_ns": now + int(lease_s * 1e9),
                    "updated_ns": now,
                }
                if found is None:
                    fence = 1
                    row = {"run_id": run_id, "agent": agent, "fence": fence, "started_ns": now, **values}
                    connection.execute(insert(runs).values(row))
                elif new or _is_held(found, now):
                    raise RunBusy(run_id.hex(), found.worker, found.lease_expires_ns)
                else:
                    fence = found.fence + 1
                    connection.execute(update(runs).where(runs.c.run_id == run_id).values(fence=fence, **values))
        except LedgerError as error:
            if isinstance(error.__cause__, IntegrityError):  # another worker took the new run down at the same time
                raise self._busy(run_id) from error
            raise
        return Lease(self._database, run_id, worker, fence, lease_s, now)

    def _busy(self, run_id: bytes) -> RunBusy:
        found = self.run(run_id)
        return RunBusy(run_id.hex(), found.worker if found else "", found.lease_expires_ns if found else 0)

    # --- what there is ---

    def run(self, run_id: bytes) -> RunRow | None:
        """Return a run's row, None when the ledger never saw it."""
        found = self._rows(schema.runs, schema.runs.c.run_id == run_id)
        return RunRow(**found[0]) if found else None

    def runs(self, *, status: str | None = None) -> list[RunRow]:
        """Return the runs, those of one status if given, in the order they began."""
        where = () if status is None else (schema.runs.c.status == status,)
        return [RunRow(**row) for row in self._rows(schema.runs, *where, order=schema.runs.c.started_ns)]

    def steps(self, run_id: bytes) -> list[StepRow]:
        """Return the durable steps of a run, by attempt and step."""
        rows = self._rows(schema.steps, schema.steps.c.run_id == run_id, order=schema.steps.c.begun_ns)
        return [StepRow(**row) for row in rows]

    def effects(self, run_id: bytes) -> list[EffectRow]:
        """Return the effects of a run, in the order they began."""
        rows = self._rows(schema.effects, schema.effects.c.run_id == run_id, order=schema.effects.c.begun_ns)
        return [EffectRow(**row) for row in rows]

    def in_doubt(self) -> list[EffectRow]:
        """Return the effects of all runs that a person must decide on."""
        rows = self._rows(schema.effects, schema.effects.c.status == "in_doubt", order=schema.effects.c.begun_ns)
        return [EffectRow(**row) for row in rows]

    def approvals(self, run_id: bytes | None = None, *, status: str | None = None) -> list[ApprovalRow]:
        """Return approvals, of one run or one status if given, in the order they were asked for."""
        table = schema.approvals
        where = [] if run_id is None else [table.c.run_id == run_id]
        if status is not None:
            where.append(table.c.status == status)
        rows = self._rows(table, *where, order=table.c.asked_ns)
        return [ApprovalRow(**{**row, "allowed": tuple(json.loads(row["allowed"]))}) for row in rows]

    # --- a person's word ---

    def decide(self, run_id: bytes, step: int, *, happened: bool, result: bytes | None, by: str) -> EffectRow:
        """Say what became of the effect in doubt at a step. `result` is what the call then returns (typed codec).

        A worker that let its lease run out has lost the run by this word: what it says of the effect comes too late.
        Raises LedgerError when nothing is in doubt there, RunBusy while a worker holds the run.
        """
        table, runs = schema.effects, schema.runs
        with self._database.writing() as connection:
            self._must_be_free(connection, run_id)
            where = (table.c.run_id == run_id, table.c.step == step, table.c.status.in_(OPEN))
            found = connection.execute(select(table).where(*where)).mappings().first()
            if found is None:
                raise _nothing_waits(run_id, step, "no effect in doubt")
            values = {
                "status": "happened" if happened else "not_happened",
                "result": result if happened else None,
                "result_digest": b"",
                "decided_by": by,
                "ended_ns": _time_ns(),
            }
            connection.execute(
                update(table)
                .where(table.c.run_id == run_id, table.c.tool == found["tool"], table.c.key == found["key"])
                .values(**values)
            )
            connection.execute(
                update(runs)
                .where(runs.c.run_id == run_id, runs.c.worker != "")
                .values(status=RunStatus.PENDING.value, worker="", lease_expires_ns=0)
            )
        return EffectRow(**{**found, **values})

    def answer(
        self, run_id: bytes, step: int, *, granted: bool, by: str, policy: str = "", allowed: Sequence[str] = ()
    ) -> ApprovalRow:
        """Answer the approval that a run waits for at a step. Raises LedgerError when none does."""
        table = schema.approvals
        with self._database.writing() as connection:
            where = (table.c.run_id == run_id, table.c.step == step, table.c.status == "waiting")
            query = select(table).where(*where).order_by(table.c.number).with_for_update()
            found = connection.execute(query).mappings().first()
            if found is None:
                raise _nothing_waits(run_id, step, "no approval that waits")
            values = {
                "status": "answered" if granted else "rejected",
                "by": by,
                "policy": policy,
                "allowed": json.dumps(list(allowed)),
                "decided_ns": _time_ns(),
            }
            connection.execute(
                update(table)
                .where(table.c.run_id == run_id, table.c.digest == found["digest"], table.c.number == found["number"])
                .values(**values)
            )
        return ApprovalRow(**{**found, **values, "allowed": tuple(allowed)})

    def _must_be_free(self, connection: Connection, run_id: bytes) -> None:
        runs = schema.runs
        found = connection.execute(select(runs).where(runs.c.run_id == run_id).with_for_update()).one_or_none()
        now = self._database.now_ns(connection)
        if found is not None and _is_held(found, now):
            raise RunBusy(run_id.hex(), found.worker, found.lease_expires_ns)

    # --- retention ---

    def left_running(self) -> list[RunRow]:
        """Return the runs that count as running and that nobody holds: their workers died, or stall."""
        with self._database.reading() as connection:
            now = self._database.now_ns(connection)
        return [run for run in self.runs(status=_RUNNING) if not _is_held(run, now)]

    def in_use(self) -> set[bytes]:
        """Return the runs that somebody holds, and those that a person must decide on before they go on."""
        with self._database.reading() as connection:
            now = self._database.now_ns(connection)
        held = {run.run_id for run in self.runs(status=_RUNNING) if _is_held(run, now)}
        waiting = {approval.run_id for approval in self.approvals(status="waiting")}
        return held | waiting | {effect.run_id for effect in self.in_doubt()}

    def prune(
        self, older_than_ns: int, *, dry_run: bool = False, ended: Sequence[tuple[RunRow, RunStatus]] = ()
    ) -> int:
        """Forget the ended runs that were last written before that time; return how many.

        `ended` are runs of `left_running` that ended on record, and how: their workers died before they gave them back.
        Of whatever age, they count as ended from now on, unless somebody holds them by now. What is not over stays:
        runs that are held or pending, and those with an effect in doubt or an approval waiting.
        """
        if dry_run:
            with self._database.reading() as connection:
                forgotten = len(connection.execute(_old_runs(older_than_ns)).all())
                for run, _ in ended:
                    query = _old_runs(older_than_ns, _as_it_was(run))
                    forgotten += len(connection.execute(query).all())
            return forgotten
        for run, status in ended:
            self._settle(run, status)
        forgotten = 0
        while True:
            with self._database.writing() as connection:
                query = _old_runs(older_than_ns).order_by(schema.runs.c.run_id).limit(_BATCH).with_for_update()
                old = list(connection.execute(query).scalars())
                for table in (schema.approvals, schema.effects, schema.steps, schema.runs):
                    connection.execute(delete(table).where(table.c.run_id.in_(old)))
            forgotten += len(old)
            if len(old) < _BATCH:
                return forgotten

    def _settle(self, run: RunRow, status: RunStatus) -> None:
        """Give a run back for its worker, which died; its time stays that of its last write."""
        values = {"status": status.value, "worker": "", "lease_expires_ns": 0}
        with self._database.writing() as connection:
            connection.execute(update(schema.runs).where(_as_it_was(run)).values(**values))

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def _rows(self, table: Any, *where: Any, order: Any = None) -> list[dict[str, Any]]:
        query = select(table).where(*where)
        if order is not None:
            query = query.order_by(order)
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


def _nothing_waits(run_id: bytes, step: int, what: str) -> LedgerError:
    return LedgerError(f"run {run_id.hex()} has {what} at step {step}: `agent-replay decide` lists what waits")


def _is_held(run: RunRow | Row[Any], now_ns: int) -> bool:
    """Whether the run's lease is not over, and its worker is not known to be gone."""
    held: bool = run.lease_expires_ns > now_ns and not is_gone(run.worker)
    return held


def _as_it_was(run: RunRow) -> ColumnElement[bool]:
    """Return what holds while nobody has taken, renewed or given back that run since its row was read."""
    runs = schema.runs
    return and_(
        runs.c.run_id == run.run_id,
        runs.c.fence == run.fence,
        runs.c.worker == run.worker,
        runs.c.lease_expires_ns == run.lease_expires_ns,
    )


def _old_runs(older_than_ns: int, has_ended: ColumnElement[bool] | None = None) -> Select[tuple[bytes]]:
    """Ask for the runs that may be forgotten; `has_ended` (default: by their status) says which are over."""
    runs, effects, approvals = schema.runs, schema.effects, schema.approvals
    return select(runs.c.run_id).where(
        runs.c.updated_ns < older_than_ns,
        runs.c.status.in_(_ENDED) if has_ended is None else has_ended,
        ~exists().where(effects.c.run_id == runs.c.run_id, effects.c.status.in_(OPEN)),
        ~exists().where(approvals.c.run_id == runs.c.run_id, approvals.c.status == "waiting"),
    )

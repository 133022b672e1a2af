"""What is written of approvals, inside a transaction of whoever holds the run. Checks no fence: the lease has."""

from __future__ import annotations

import json
import time
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from otel_agent_replay.errors import ApprovalRequired
from otel_agent_replay.ledger import schema
from otel_agent_replay.ledger.rows import Decision

_time_ns = time.time_ns
_approvals = schema.approvals


def add(connection: Connection, run_id: bytes, digest: bytes, **values: Any) -> None:
    """Add an approval of the action `digest`, granted or waited for."""
    number = connection.execute(
        select(func.count()).where(_approvals.c.run_id == run_id, _approvals.c.digest == digest)
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
    connection.execute(insert(_approvals).values(run_id=run_id, digest=digest, number=number, **row))


def is_there(connection: Connection, run_id: bytes, step: int, digest: bytes, *statuses: str) -> bool:
    """Whether there is an approval of that action at that step in one of these statuses."""
    query = select(func.count()).where(*_at(run_id, step, digest), _approvals.c.status.in_(statuses))
    return connection.execute(query).scalar_one() > 0


def decision(connection: Connection, run_id: bytes, step: int, digest: bytes) -> Decision | None:
    """Return a person's latest answer at that step, None when there is none."""
    query = select(_approvals).where(*_at(run_id, step, digest), _approvals.c.status.in_(("answered", "rejected")))
    found = connection.execute(query.order_by(_approvals.c.number.desc())).first()
    if found is None:
        return None
    return Decision(found.status == "answered", found.by, found.policy, tuple(json.loads(found.allowed)))


def spend(connection: Connection, run_id: bytes, tool: str, digest: bytes, key: str) -> None:
    """Use up one approval of exactly this action for the effect `key`. Raises ApprovalRequired when all are spent."""
    of_action = (_approvals.c.run_id == run_id, _approvals.c.digest == digest, _approvals.c.action == tool)
    found = connection.execute(select(_approvals.c.number, _approvals.c.status).where(*of_action)).all()
    if not found:
        return  # it was granted before the run was in this ledger: the session's own count stands
    granted = min((row.number for row in found if row.status == "granted"), default=None)
    if granted is None:
        raise ApprovalRequired(tool, "the ledger says that it was spent by an earlier call")
    connection.execute(
        update(_approvals).where(*of_action, _approvals.c.number == granted).values(status="spent", spent_key=key)
    )


def _at(run_id: bytes, step: int, digest: bytes) -> tuple[Any, ...]:
    return _approvals.c.run_id == run_id, _approvals.c.digest == digest, _approvals.c.step == step

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
    """Use up one approval of exactly this action for the effect `key`. Raises ApprovalRequired when none is left."""
    if not _spent(connection, run_id, tool, digest, key):
        raise ApprovalRequired(tool, "the ledger holds none that an earlier call has not spent")


def spent_on_record(connection: Connection, run_id: bytes, tool: str, digest: bytes, key: str) -> None:
    """Take down that the effect `key`, which is on record, used up an approval; once more is the same."""
    by_it = (_approvals.c.run_id == run_id, _approvals.c.digest == digest, _approvals.c.spent_key == key)
    if not connection.execute(select(func.count()).where(*by_it)).scalar_one():
        _spent(connection, run_id, tool, digest, key)


def _spent(connection: Connection, run_id: bytes, tool: str, digest: bytes, key: str) -> bool:
    """Spend the first approval of that action that is left; return whether there was one."""
    of_action = (_approvals.c.run_id == run_id, _approvals.c.digest == digest, _approvals.c.action == tool)
    left = select(func.min(_approvals.c.number)).where(*of_action, _approvals.c.status == "granted")
    number = connection.execute(left).scalar_one()
    if number is None:
        return False
    connection.execute(
        update(_approvals).where(*of_action, _approvals.c.number == number).values(status="spent", spent_key=key)
    )
    return True


def _at(run_id: bytes, step: int, digest: bytes) -> tuple[Any, ...]:
    return _approvals.c.run_id == run_id, _approvals.c.digest == digest, _approvals.c.step == step

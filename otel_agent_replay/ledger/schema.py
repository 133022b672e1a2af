"""The ledger's tables. A change here raises `VERSION`: an older reader then refuses the ledger."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, TypeDecorator
from sqlalchemy import Text as _Text


class Text(TypeDecorator[str]):
    """Text of any kind: what no database takes (NUL, half a surrogate pair) is written as its escape."""

    impl = _Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:  # noqa: ARG002 - the base's signature
        """Return what is stored."""
        if value is None:
            return None
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


VERSION = 1
metadata = MetaData()

versions = Table("agent_replay_ledger", metadata, Column("version", Integer, primary_key=True))

runs = Table(
    "agent_replay_runs",
    metadata,
    Column("run_id", LargeBinary(16), primary_key=True),
    Column("agent", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("worker", Text, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("lease_expires_ns", BigInteger, nullable=False),
    Column("started_ns", BigInteger, nullable=False),
    Column("updated_ns", BigInteger, nullable=False),
)

steps = Table(
    "agent_replay_steps",
    metadata,
    Column("run_id", LargeBinary(16), primary_key=True),
    Column("fence", BigInteger, primary_key=True),
    Column("step", BigInteger, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("request_digest", LargeBinary, nullable=False),
    Column("result_digest", LargeBinary, nullable=False),
    Column("begun_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger, nullable=False),
)

effects = Table(
    "agent_replay_effects",
    metadata,
    Column("run_id", LargeBinary(16), primary_key=True),
    Column("tool", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("status", String(16), nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("path", Text, nullable=False),
    Column("side_effect", String(16), nullable=False),
    Column("request_digest", LargeBinary, nullable=False),
    Column("arguments", LargeBinary, nullable=False),
    Column("result", LargeBinary),
    Column("result_digest", LargeBinary, nullable=False),
    Column("begun_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger, nullable=False),
    Column("decided_by", Text, nullable=False),
    Index("agent_replay_effects_open", "status"),
)

approvals = Table(
    "agent_replay_approvals",
    metadata,
    Column("run_id", LargeBinary(16), primary_key=True),
    Column("digest", LargeBinary, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("action", Text, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("by", Text, nullable=False),
    Column("asked_ns", BigInteger, nullable=False),
    Column("decided_ns", BigInteger, nullable=False),
    Column("state_digest", LargeBinary, nullable=False),
    Column("policy", Text, nullable=False),
    Column("allowed", Text, nullable=False),
    Column("arguments", LargeBinary, nullable=False),
    Column("spent_key", Text, nullable=False),
    Index("agent_replay_approvals_open", "status"),
)

"""One database, SQLite or PostgreSQL: connections, durable transactions, and errors in our own words.

SQLite writes take their lock when they begin, so that of two processes one always waits for the other; both databases
have a commit on disk before it returns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from otel_agent_replay.errors import ConfigurationError, LedgerError, UnsupportedFormat
from otel_agent_replay.ledger import schema

_BUSY_MS = 30_000


class Database:
    """A database by its URL. Connections are made anew after a fork: they cannot be shared with the parent."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._pid = 0
        self._prepare()

    @property
    def engine(self) -> Engine:
        """This process's engine."""
        with self._lock:
            if self._engine is None or self._pid != os.getpid():
                self._engine = _engine(self._url)
                self._pid = os.getpid()
            return self._engine

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Run the enclosed code in one transaction that is on disk afterwards. Raises LedgerError."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise LedgerError(f"the ledger could not be written: {_short(error)}") from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run the enclosed code on one view of the data. Raises LedgerError."""
        try:
            with self.engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise LedgerError(f"the ledger could not be read: {_short(error)}") from error

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
            if self._engine is not None and self._pid == os.getpid():
                self._engine.dispose()
            self._engine = None

    def _prepare(self) -> None:
        engine = self.engine
        try:
            schema.metadata.create_all(engine)
            with engine.begin() as connection:
                found = connection.execute(select(schema.versions.c.version)).scalars().all()
                if not found:
                    connection.execute(insert(schema.versions).values(version=schema.VERSION))
        except IntegrityError:
            found = [schema.VERSION]  # another process was faster
        except SQLAlchemyError as error:
            shown = make_url(self._url).render_as_string(hide_password=True)
            raise ConfigurationError(f"the ledger {shown} cannot be opened: {_short(error)}") from error
        if found and max(found) > schema.VERSION:
            raise UnsupportedFormat(
                f"this ledger has version {max(found)}; this is version {schema.VERSION}: upgrade otel-agent-replay"
            )


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(url, parsed.database)
        if parsed.get_backend_name() != "postgresql":
            raise ConfigurationError(f"a ledger is kept in SQLite or PostgreSQL, not in {parsed.get_backend_name()}")
        return create_engine(parsed.set(drivername="postgresql+psycopg"), isolation_level="READ COMMITTED")
    except (ArgumentError, NoSuchModuleError) as error:
        raise ConfigurationError(f"the ledger's URL cannot be read: {_short(error)}") from error
    except ImportError as error:
        raise ConfigurationError(
            "a ledger in PostgreSQL needs its driver: pip install 'otel-agent-replay[postgres]'"
        ) from error


def _sqlite(url: str, database: str | None) -> Engine:
    if not database or database == ":memory:":
        raise ConfigurationError("a ledger in SQLite needs a file: sqlite:////path/to/ledger.sqlite")
    try:
        Path(database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the ledger's folder cannot be made: {error}") from error
    engine = create_engine(url, connect_args={"timeout": _BUSY_MS / 1000})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver's own BEGIN would not take the lock
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _short(error: BaseException) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__

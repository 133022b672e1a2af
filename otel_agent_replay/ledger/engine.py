"""One database, SQLite or PostgreSQL: connections, durable transactions, and errors in our own words.

SQLite writes take their lock when they begin, so that of two processes one always waits for the other; both databases
have a commit on disk before it returns. Knows how the tables are made, not what is written into them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, BigInteger, Connection, Engine, create_engine, event, func, insert, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from otel_agent_replay.errors import ConfigurationError, LedgerError, UnsupportedFormat
from otel_agent_replay.ledger import schema
from otel_agent_replay.ledger.turns import Turns

_BUSY_MS = 30_000
_MAKING = 0x61_67_72_70  # PostgreSQL's advisory lock of whoever makes the tables
_monotonic, _sleep, _time_ns = time.monotonic, time.sleep, time.time_ns
_inherited: list[_Connections] = []
"""The parent's connections, in a forked child: closing one here, or losing it, would end the parent's."""


class Database:
    """A database by its URL. Connections are made anew after a fork: they cannot be shared with the parent."""

    def __init__(self, url: str) -> None:
        self._url = _parsed(url)
        self._shown = self._url.render_as_string(hide_password=True)
        self._closed = False
        self._own = _Connections(self._url)
        self._prepare()

    def _connections(self) -> _Connections:
        """Return this process's connections. Takes no lock: a fork may have left any lock held for ever."""
        if self._closed:
            raise LedgerError(f"the ledger {self._shown} is closed")
        own = self._own
        if own.pid != os.getpid():
            _inherited.append(own)
            own = self._own = _Connections(self._url)
        return own

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Run the enclosed code in one transaction that is on disk afterwards. Raises LedgerError."""
        own = self._connections()
        with own.turns.taken():
            try:
                with own.engine.begin() as connection:
                    yield connection
            except SQLAlchemyError as error:
                raise LedgerError(f"the ledger {self._shown} could not be written: {_short(error)}") from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run the enclosed code on one view of the data. Raises LedgerError."""
        try:
            with self._connections().readers.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise LedgerError(f"the ledger {self._shown} could not be read: {_short(error)}") from error

    def soon(self, action: Callable[[], None]) -> None:
        """Run an action that writes: now, or after the write in whose middle garbage collection has brought it up."""
        self._connections().turns.soon(action)

    def now_ns(self, connection: Connection) -> int:
        """Return the time that leases run by: one clock for all workers, of the machine that they share."""
        if connection.dialect.name == "sqlite":
            return _time_ns()
        clock = func.extract("epoch", func.clock_timestamp()) * 10**9
        return connection.execute(select(clock.cast(BigInteger))).scalar_one()

    def close(self) -> None:
        """Give the connections back; what is asked of it afterwards raises LedgerError."""
        self._closed = True
        if self._own.pid == os.getpid():
            self._own.engine.dispose()

    def _prepare(self) -> None:
        try:
            with self._own.readers.connect() as connection:
                version = _version(connection)
            if version is None:
                with self._own.engine.begin() as connection:
                    version = _made(connection)
        except SQLAlchemyError as error:
            self.close()
            raise ConfigurationError(f"the ledger {self._shown} cannot be opened: {_short(error)}") from error
        if version > schema.VERSION:
            self.close()
            raise UnsupportedFormat(
                f"the ledger {self._shown} has version {version}, this is a reader of version {schema.VERSION}: "
                "upgrade otel-agent-replay"
            )


class _Connections:
    """What one process uses of a database; `readers` begin without the lock that writes take."""

    def __init__(self, url: URL) -> None:
        self.pid = os.getpid()
        self.engine = _engine(url)
        self.readers = self.engine.execution_options(agent_replay_reads=True)
        self.turns = Turns(one_at_a_time=self.engine.dialect.name == "sqlite")


def _version(connection: Connection) -> int | None:
    if not inspect(connection).has_table(schema.versions.name):
        return None
    found: int | None = connection.execute(select(func.max(schema.versions.c.version))).scalar_one()
    return found


def _made(connection: Connection) -> int:
    """Make the tables unless another process was faster; return the version."""
    if connection.dialect.name != "sqlite":
        connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))
    version = _version(connection)
    if version is None:
        schema.metadata.create_all(connection)
        connection.execute(insert(schema.versions).values(version=schema.VERSION))
        version = schema.VERSION
    return version


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except ArgumentError as error:
        raise ConfigurationError(f"the ledger's URL cannot be read: {_short(error)}") from error
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise ConfigurationError(f"a ledger is kept in SQLite or PostgreSQL, not in {backend}")
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigurationError("a ledger in SQLite needs a file: sqlite:////path/to/ledger.sqlite")
    return parsed.set(database=str(Path(parsed.database).absolute()))  # the working directory may change


def _engine(url: URL) -> Engine:
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite(url)
        engine = create_engine(url, isolation_level="READ COMMITTED", pool_pre_ping=True)
    except NoSuchModuleError as error:
        raise ConfigurationError(f"the ledger's URL cannot be read: {_short(error)}") from error
    except ImportError as error:
        raise ConfigurationError(
            "a ledger in PostgreSQL needs its driver: pip install 'otel-agent-replay[postgres]'"
        ) from error

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:  # a server or role may have it off; a stricter setting stays
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
        connection.commit()

    return engine


def _sqlite(url: URL) -> Engine:
    try:
        Path(url.database or "").parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the ledger's folder cannot be made: {error}") from error
    engine = create_engine(url, connect_args={"timeout": _BUSY_MS / 1000})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver's own BEGIN would not take the lock
        _write_ahead(connection)
        for pragma in ("synchronous=FULL", "fullfsync=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        reads = connection.get_execution_options().get("agent_replay_reads")
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Have a file's writes logged ahead, a new file's from now on.

    SQLite does not wait for others when it changes that, whatever its busy timeout: workers that open a new file at
    the same time would be told that it is locked.
    """
    until = _monotonic() + _BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or _monotonic() > until:
                raise
        _sleep(0.005)


def _short(error: BaseException) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__

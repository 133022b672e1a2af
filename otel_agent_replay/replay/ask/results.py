"""The results file: what was asked and what came back, so that nothing is paid for twice.

One SQLite file (WAL). An intent is on disk before its question is sent, the answer after it came; a question whose
intent is there without an answer when the file is opened again is in doubt: it may have been answered, and paid for.
Bodies are kept as they came: contents as sensitive as the lake's, so the file is its owner's alone.
Used by one thread of one process at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.model import SideEffect
from otel_agent_replay.replay.ask.answer import Answer, Used
from otel_agent_replay.replay.ask.request import RecordedStep, SkippedStep

FORMAT = 1
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (
    run_id BLOB PRIMARY KEY,
    state TEXT NOT NULL DEFAULT 'waiting',  -- waiting, listed (its steps are all here), missing (not in the lake)
    why TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE steps (
    run_id BLOB NOT NULL,
    step INTEGER NOT NULL,
    skipped TEXT NOT NULL DEFAULT '',  -- why it cannot be asked again
    protocol TEXT, provider TEXT, model TEXT, masked INTEGER,
    input_tokens INTEGER, output_tokens INTEGER, cost_usd REAL,
    status INTEGER, media_type TEXT, body BLOB, latency_ns INTEGER,
    PRIMARY KEY (run_id, step)
) WITHOUT ROWID;
CREATE TABLE calls (
    run_id BLOB NOT NULL,
    step INTEGER NOT NULL,
    lane TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    state TEXT NOT NULL,  -- intent, answered, failed (nothing was paid), in_doubt
    begun_ns INTEGER NOT NULL,
    estimate_usd REAL,  -- at most
    earlier_usd REAL NOT NULL DEFAULT 0,  -- what earlier goes at it, left in doubt, may have cost
    why TEXT NOT NULL DEFAULT '',
    lost TEXT NOT NULL DEFAULT '[]',  -- what the question did not say, in another protocol's words: JSON texts
    protocol TEXT, model TEXT, input_tokens INTEGER, output_tokens INTEGER, cost_usd REAL,
    status INTEGER, media_type TEXT, body BLOB, latency_ns INTEGER, first_byte_ns INTEGER,
    PRIMARY KEY (run_id, step, lane, repeat)
) WITHOUT ROWID;
CREATE TABLE tools (name TEXT PRIMARY KEY, side_effect TEXT NOT NULL) WITHOUT ROWID;
"""
_PLAIN, _ZLIB = b"\0", b"\1"  # first byte of a stored body
_WORTH_PACKING = 1024  # bytes
_EFFECTS = [effect.value for effect in (SideEffect.NONE, SideEffect.READ, SideEffect.WRITE, SideEffect.EXTERNAL)]


class CallKey(NamedTuple):
    """One question: which step, in which lane, which of its repeats (from 1)."""

    run_id: bytes
    step: int
    lane: str
    repeat: int


@dataclass(frozen=True, slots=True)
class AskedCall:
    """What became of one question; `answer`, in `protocol`, where it was answered, else `why` not.

    `lost` is what the question did not say that the recorded one did.
    """

    lane: str
    repeat: int
    state: str
    protocol: str
    used: Used
    answer: Answer | None
    why: str
    lost: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class AskedStep:
    """A model step of the cohort: its recorded answer, and what was answered when it was asked again."""

    run_id: bytes
    step: int
    skipped: str
    protocol: str
    masked: bool
    used: Used
    answer: Answer | None
    calls: Sequence[AskedCall]


@dataclass(frozen=True, slots=True)
class Spent:
    """What was asked and what it cost; `estimated_usd` is for answers whose price nobody knows, and those in doubt."""

    calls: int
    known_usd: float
    estimated_usd: float

    @property
    def usd(self) -> float:
        """All of it."""
        return self.known_usd + self.estimated_usd


class Results:
    """An open results file. What is changed is on disk after `commit`."""

    def __init__(self, path: Path) -> None:
        """Open or make it. Raises CannotJudge while another process has it, ConfigurationError for another file."""
        self.path = path
        is_new = not path.exists()
        try:
            if is_new:
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, timeout=0.2)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN IMMEDIATE")
            tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if not tables:
                for statement in _SCHEMA.split(";\n"):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO about VALUES ('format', ?)", (str(FORMAT),))
            self._db.execute("COMMIT")
            found = self.about("format")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise CannotJudge(f"{path} is being written by another process; try again when it is done") from error
            raise ConfigurationError(f"{path} cannot be opened as a results file: {error}") from error
        except (sqlite3.DatabaseError, OSError) as error:
            raise ConfigurationError(f"{path} cannot be opened as a results file: {error}") from error
        if found != str(FORMAT):
            raise ConfigurationError(f"{path} was written by a newer version (format {found}); give another file")
        self._db.execute(
            "UPDATE calls SET state = 'in_doubt', why = 'it was under way when its process ended' "
            "WHERE state = 'intent'"
        )

    def close(self) -> None:
        """Keep what was changed and close the file."""
        self.commit()
        self._db.close()

    def __enter__(self) -> Results:  # noqa: PYI034 - typing.Self needs 3.11
        return self

    def __exit__(self, *what: object) -> None:
        self.close()

    def commit(self) -> None:
        """Put everything that was changed on disk."""
        if self._db.in_transaction:
            self._db.execute("COMMIT")

    def _change(self, sql: str, values: Sequence[Any] = ()) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN")
        self._db.execute(sql, values)

    # --- what the file is about ---

    def about(self, name: str) -> str | None:
        """Return what the file says of itself under a name."""
        row = self._db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def bind(self, facts: Mapping[str, Any]) -> bool:
        """Say what the file is about; whether it is new. Raises ConfigurationError where it is about something else."""
        is_new = True
        for name, value in facts.items():
            text = json.dumps(value, sort_keys=True)
            known = self.about(name)
            if known is None:
                self._change("INSERT INTO about VALUES (?, ?)", (name, text))
            elif known != text:
                raise ConfigurationError(
                    f"{self.path} holds answers for another {name}: {known}, not {text}; give another file to --out"
                )
            else:
                is_new = False
        return is_new

    def add_runs(self, run_ids: Sequence[bytes]) -> None:
        """Take runs into the cohort."""
        if not self._db.in_transaction:
            self._db.execute("BEGIN")
        self._db.executemany("INSERT OR IGNORE INTO runs (run_id) VALUES (?)", ((run_id,) for run_id in run_ids))

    # --- while it is asked ---

    def runs(self) -> list[tuple[bytes, str]]:
        """Return the runs of the cohort in order, each with its state."""
        return [(bytes(run), str(state)) for run, state in self._db.execute(_RUNS)]

    def run_is(self, run_id: bytes, state: str, why: str = "") -> None:
        """Note that a run's steps are all listed, or that it is missing."""
        self._change("UPDATE runs SET state = ?, why = ? WHERE run_id = ?", (state, why, run_id))

    def add_step(self, step: RecordedStep | SkippedStep) -> None:
        """List a step; again: nothing changes."""
        if isinstance(step, SkippedStep):
            self._change(
                "INSERT OR IGNORE INTO steps (run_id, step, skipped) VALUES (?, ?, ?)",
                (step.run_id, step.step, step.reason),
            )
            return
        answer = step.answer
        self._change(
            "INSERT OR IGNORE INTO steps VALUES (?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                step.run_id, step.step, step.protocol.name, step.provider, step.model, step.masked,
                step.input_tokens, step.output_tokens, step.cost_usd,
                answer.status, answer.media_type, _packed(answer.body), answer.latency_ns,
            ),
        )  # fmt: skip

    def add_tool(self, name: str, effect: SideEffect) -> None:
        """Note a tool's side effect; of two the riskier counts."""
        known = self._db.execute("SELECT side_effect FROM tools WHERE name = ?", (name,)).fetchone()
        if known is None or _EFFECTS.index(known[0]) < _EFFECTS.index(effect.value):
            self._change("INSERT OR REPLACE INTO tools VALUES (?, ?)", (name, effect.value))

    def states(self, run_id: bytes) -> dict[tuple[int, str, int], str]:
        """Return what is known of a run's questions: (step, lane, repeat) to state."""
        rows = self._db.execute("SELECT step, lane, repeat, state FROM calls WHERE run_id = ?", (run_id,))
        return {(step, lane, repeat): state for step, lane, repeat, state in rows}

    def askable(self, run_id: bytes) -> int:
        """Return how many listed steps of a run can be asked again."""
        sql = "SELECT count(*) FROM steps WHERE run_id = ? AND skipped = ''"
        return int(self._db.execute(sql, (run_id,)).fetchone()[0])

    def intend(self, key: CallKey, estimate_usd: float | None, lost: Sequence[str] = ()) -> None:
        """Note that a question is about to be sent, and what it does not say that was recorded."""
        self._change(
            "INSERT INTO calls (run_id, step, lane, repeat, state, begun_ns, estimate_usd, lost) "
            "VALUES (?, ?, ?, ?, 'intent', ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "earlier_usd = earlier_usd + CASE state WHEN 'in_doubt' THEN coalesce(estimate_usd, 0) ELSE 0 END, "
            "state = 'intent', begun_ns = excluded.begun_ns, estimate_usd = excluded.estimate_usd, "
            "lost = excluded.lost, why = ''",
            (*key, time.time_ns(), estimate_usd, json.dumps(list(lost))),
        )

    def answered(self, key: CallKey, answer: Answer, protocol: str, used: Used) -> None:
        """Note an answer."""
        self._change(
            "UPDATE calls SET state = 'answered', protocol = ?, model = ?, input_tokens = ?, output_tokens = ?, "
            "cost_usd = ?, status = ?, media_type = ?, body = ?, latency_ns = ?, first_byte_ns = ? "
            "WHERE run_id = ? AND step = ? AND lane = ? AND repeat = ?",
            (
                protocol, used.model, used.input_tokens, used.output_tokens, used.cost_usd, answer.status,
                answer.media_type, _packed(answer.body), answer.latency_ns, answer.first_byte_ns, *key,
            ),
        )  # fmt: skip

    def unanswered(self, key: CallKey, why: str, *, in_doubt: bool) -> None:
        """Note that there is no answer: `in_doubt` where one may have been paid for."""
        self._change(
            "UPDATE calls SET state = ?, why = ? WHERE run_id = ? AND step = ? AND lane = ? AND repeat = ?",
            ("in_doubt" if in_doubt else "failed", why, *key),
        )

    def spent(self) -> Spent:
        """Return what was asked so far, over all goes at this file; what failed cost nothing."""
        row = self._db.execute(
            "SELECT count(*) FILTER (WHERE state <> 'failed'), total(cost_usd), total(earlier_usd) + "
            "total(CASE WHEN state <> 'failed' AND cost_usd IS NULL THEN estimate_usd END) FROM calls"
        ).fetchone()
        return Spent(int(row[0]), float(row[1]), float(row[2]))

    def settled(self, lanes: Sequence[str], repeats: int, *, again: bool) -> int:
        """Return how many questions of these lanes need not be asked any more."""
        states = ("answered",) if again else ("answered", "in_doubt")
        sql = "SELECT count(*) FROM calls WHERE lane IN (%s) AND repeat <= ? AND state IN (%s)"
        marks = ", ".join("?" * len(lanes)), ", ".join("?" * len(states))
        return int(self._db.execute(sql % marks, (*lanes, repeats, *states)).fetchone()[0])

    # --- afterwards ---

    def in_doubt(self) -> int:
        """Return how many questions may have been answered and paid for."""
        return int(self._db.execute("SELECT count(*) FROM calls WHERE state = 'in_doubt'").fetchone()[0])

    def tools(self) -> dict[str, SideEffect]:
        """Return the side effects of the tools that the cohort's runs called."""
        return {name: SideEffect(effect) for name, effect in self._db.execute("SELECT name, side_effect FROM tools")}

    def missing(self) -> list[tuple[bytes, str]]:
        """Return the runs of the cohort that could not be read, and why."""
        rows = self._db.execute("SELECT run_id, why FROM runs WHERE state = 'missing'")
        return [(bytes(run), str(why)) for run, why in rows]

    def steps(self) -> Iterator[AskedStep]:
        """Yield every listed step, run by run, in order; one run's are in memory at a time."""
        for run_id, _ in self.runs():
            calls: dict[int, list[AskedCall]] = {}
            with contextlib.closing(self._db.execute(_CALLS, (run_id,))) as rows:
                for step, *more in rows:
                    calls.setdefault(step, []).append(_call(*more))
            with contextlib.closing(self._db.execute(_STEPS, (run_id,))) as rows:
                for step, *more in rows:
                    yield _asked_step(run_id, step, calls.get(step, []), *more)


_RUNS = "SELECT run_id, state FROM runs ORDER BY run_id"
_CALLS = (
    "SELECT step, lane, repeat, state, why, protocol, model, input_tokens, output_tokens, cost_usd, status, "
    "media_type, body, latency_ns, first_byte_ns, lost FROM calls WHERE run_id = ? ORDER BY step, lane, repeat"
)
_STEPS = (
    "SELECT step, skipped, protocol, masked, model, input_tokens, output_tokens, cost_usd, status, media_type, body, "
    "latency_ns FROM steps WHERE run_id = ? ORDER BY step"
)


def _call(
    lane: str, repeat: int, state: str, why: str, protocol: str | None, model: str | None, given: int | None,
    made: int | None, cost: float | None, status: int | None, media_type: str | None, body: bytes | None,
    latency_ns: int | None, first_byte_ns: int | None, lost: str,
) -> AskedCall:  # fmt: skip
    answer = None
    if body is not None and status is not None:
        answer = Answer(status, media_type or "", _unpacked(body), latency_ns, first_byte_ns)
    return AskedCall(
        lane, repeat, state, protocol or "", Used(model or "", given, made, cost), answer, why, json.loads(lost)
    )


def _asked_step(
    run_id: bytes, step: int, calls: Sequence[AskedCall], skipped: str, protocol: str | None, masked: int | None,
    model: str | None, given: int | None, made: int | None, cost: float | None, status: int | None,
    media_type: str | None, body: bytes | None, latency_ns: int | None,
) -> AskedStep:  # fmt: skip
    answer = None
    if body is not None and status is not None:
        answer = Answer(status, media_type or "", _unpacked(body), latency_ns)
    used = Used(model or "", given, made, cost)
    return AskedStep(run_id, step, skipped, protocol or "", bool(masked), used, answer, calls)


def _packed(body: bytes) -> bytes:
    """Return a body as it is stored: small ones as they are, for which packing costs more than it saves."""
    return _PLAIN + body if len(body) < _WORTH_PACKING else _ZLIB + zlib.compress(body, 6)


def _unpacked(stored: bytes) -> bytes:
    return stored[1:] if stored[:1] == _PLAIN else zlib.decompress(stored[1:])

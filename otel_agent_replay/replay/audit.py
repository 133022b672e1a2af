"""The audit log of a lake: who went back to which run, how, and what that was allowed. Append-only, hash-chained.

    <lake>/audit/log.jsonl     one JSON object a line, each with the hash of the line before
    <lake>/audit/head.json     how many lines there are, and the hash of the last

An entry is on disk before what it tells of begins. Owns the chain, its lock and its check; it never changes a line
that is there. A line that a dying writer left torn stays, and the next entry says so.

What the check cannot see: whoever may write in this folder can put away all of it, or write the whole chain anew
together with its head. Keep the hash of the head elsewhere from time to time, and ask whether it is still in the chain.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.payload import credentials
from otel_agent_replay.payload.masks import MASK
from otel_agent_replay.payload.redaction import Redaction

GENESIS = "0" * 64
_STEP = 1 << 16  # bytes of the file's end that are read at a time
_LOG, _HEAD, _LOCK = "log.jsonl", "head.json", "lock"


@dataclass(frozen=True, slots=True)
class AuditCheck:
    """What a check found: whole `entries`, the hash of the last, the first break (line, why), and harmless `notes`."""

    entries: int
    head: str
    first_break: tuple[int, str] | None
    notes: tuple[str, ...] = ()


class AuditLog:
    """The log of one lake. Several processes may write at once."""

    def __init__(self, lake: Path) -> None:
        self.folder = Path(lake) / "audit"
        self.path = self.folder / _LOG

    def append(
        self,
        action: str,
        *,
        run_id: bytes = b"",
        mode: str = "",
        command: Sequence[str] = (),
        allowed: Mapping[str, Sequence[str]] | None = None,
        walls: Sequence[str] = (),
        redaction: Redaction | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Write one entry and return it, durable when this returns. Raises OSError.

        `action` is what is done (replay, fork, resume, rerun, decrypt ...), `allowed` the endpoints, folders, limits
        and names of identity variables that it was given, `walls` those that are to stand around it. The command is
        kept without secrets: by `redaction`, and by the names of its options. `more` must be plain JSON.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                last, torn = _end_of(descriptor)
                entry: dict[str, Any] = {
                    "sequence": 1 if last is None else last["sequence"] + 1,
                    "time_ns": time.time_ns(),
                    "who": _who(),
                    "action": action,
                    "run_id": run_id.hex(),
                    "mode": mode,
                    "command": shown_command(command, redaction),
                    "allowed": {name: list(values) for name, values in (allowed or {}).items() if values},
                    "walls": list(walls),
                    **more,
                    "prev": GENESIS if last is None else last["hash"],
                }
                if torn:
                    entry["torn"] = _torn(torn)
                entry["hash"] = _hash_of(entry)
                data = (b"\n" if torn else b"") + _text(entry) + b"\n"
                while data:
                    data = data[os.write(descriptor, data) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._write_head(entry)
        return entry

    def entries(self, run: str = "") -> list[dict[str, Any]]:
        """Return the whole entries in order, of runs whose id begins with `run`. Raises OSError."""
        found = (_parsed(line) for _, line in self._lines())
        return [entry for entry in found if entry is not None and entry["run_id"].startswith(run)]

    def check(self, known_head: str = "") -> AuditCheck:
        """Recompute the chain. `known_head` is a hash of a former head, kept elsewhere, that must still be in it."""
        previous, count = GENESIS, 0
        notes: list[str] = []
        torn: tuple[int, bytes] | None = None
        before = ""
        hashes: set[str] = set()
        number = 0
        for number, line in self._lines():
            entry = _parsed(line)
            if entry is None:
                if torn is not None:
                    return AuditCheck(count, previous, (torn[0], "this line is damaged"), tuple(notes))
                torn = number, line
                continue
            why = _why_broken(entry, count + 1, previous, torn)
            if why:
                return AuditCheck(count, previous, (number if torn is None else torn[0], why), tuple(notes))
            if torn is not None:
                notes.append(f"line {torn[0]} is torn: its writer died; line {number} says so")
                torn = None
            before, previous, count = previous, entry["hash"], count + 1
            hashes.add(previous)
        if torn is not None:
            if self._ends_whole():
                return AuditCheck(count, previous, (torn[0], "this line is damaged"), tuple(notes))
            notes.append(f"line {torn[0]}, the last, is torn: its writer died")
        first_break = self._head_broken(count, previous, before, number, notes)
        if first_break is None and known_head and known_head not in hashes:
            first_break = (1, "the head that was kept elsewhere is not in this chain: it was written anew or cut")
        return AuditCheck(count, previous, first_break, tuple(notes))

    def _head_broken(self, count: int, last: str, before: str, lines: int, notes: list[str]) -> tuple[int, str] | None:
        try:
            head = json.loads((self.folder / _HEAD).read_text(encoding="ascii"))
            told, told_hash = int(head["count"]), str(head["hash"])
        except FileNotFoundError:
            if count == 0 or (count == 1 and before == GENESIS):
                return None  # the first writer died between the line and the head
            return lines, "the head file is missing"
        except (ValueError, TypeError, KeyError):
            return lines, "the head file is damaged"
        if (told, told_hash) == (count, last):
            return None
        if told > count:
            return count + 1, f"{told - count} entries were cut off the end: the head tells of {told}"
        if (told, told_hash) == (count - 1, before):
            notes.append("the head is one entry behind: its writer died after the entry")
            return None
        return lines, "the head is of another chain"

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    yield number, line.removesuffix(b"\n")
        except FileNotFoundError:
            return

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _write_head(self, entry: Mapping[str, Any]) -> None:
        temporary = self.folder / f".{_HEAD}"
        with temporary.open("w", encoding="ascii") as file:
            json.dump({"count": entry["sequence"], "hash": entry["hash"]}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / _HEAD)
        if os.name != "nt":  # the name of a new file is durable when its folder is
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)  # which gives the lock back


def enter(lake: Path, action: str, **fields: Any) -> None:
    """Append an entry (see `AuditLog.append`) to the log of a lake that is there.

    Raises CannotJudge when that is impossible: what nobody could look up afterwards is not done.
    """
    if not Path(lake).is_dir():
        return  # whatever is asked of it will fail for that reason
    try:
        AuditLog(lake).append(action, **fields)
    except OSError as error:
        raise CannotJudge(f"the {action} could not be entered in {AuditLog(lake).path}: {error}") from error


def shown_command(argv: Sequence[str], redaction: Redaction | None = None) -> list[str]:
    """Return a command line without secrets: what looks like one, and what follows an option of such a name."""
    redaction = redaction or Redaction.default()
    shown = []
    hides = False
    for argument in argv:
        name, assigned, value = argument.partition("=")
        is_named = credentials.is_query_name(name.lstrip("-").replace("_", "-")) or (
            bool(assigned) and credentials.is_secret_variable(name, value)
        )
        if hides and not argument.startswith("-"):
            shown.append(MASK)
        elif is_named and assigned:
            shown.append(f"{name}={MASK}")
        else:
            shown.append(redaction.text(argument))
        hides = is_named and not assigned and argument.startswith("-")
    return shown


def _why_broken(entry: Mapping[str, Any], sequence: int, previous: str, torn: tuple[int, bytes] | None) -> str:
    if torn is not None and entry.get("torn") != _torn(torn[1]):
        return "this line is damaged, and the next does not know of it"
    if torn is None and "torn" in entry:
        return "the torn line before this one was taken away"
    if entry.get("hash") != _hash_of(entry):
        return "this line was altered: its hash does not hold"
    if entry.get("prev") != previous or entry.get("sequence") != sequence:
        return f"this line does not follow the one before: it is number {entry.get('sequence')}, expected {sequence}"
    return ""


def _end_of(descriptor: int) -> tuple[dict[str, Any] | None, bytes]:
    """Return the last whole entry of the file, and the torn line behind it."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    data, start = b"", size
    while True:
        whole, _, torn = data.rpartition(b"\n")
        lines = whole.split(b"\n")
        for line in reversed(lines if start == 0 else lines[1:]):
            entry = _parsed(line)
            if entry is not None:
                return entry, torn
        if start == 0:
            return None, torn
        step = min(_STEP, start)
        start -= step
        os.lseek(descriptor, start, os.SEEK_SET)
        data = os.read(descriptor, step) + data


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(entry, dict) and {"sequence", "run_id", "prev", "hash"} <= entry.keys()
    return entry if whole and isinstance(entry["sequence"], int) and isinstance(entry["run_id"], str) else None


def _torn(line: bytes) -> dict[str, Any]:
    return {"bytes": len(line), "sha256": hashlib.sha256(line).hexdigest()}


def _text(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def _hash_of(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text({name: value for name, value in entry.items() if name != "hash"})).hexdigest()


def _who() -> dict[str, Any]:
    uid = os.getuid() if hasattr(os, "getuid") else None
    return {"user": _user_name(uid), "uid": uid, "host": socket.gethostname(), "pid": os.getpid()}


def _user_name(uid: int | None) -> str:
    """Return the name of the user that this process runs as, not of one that the environment may claim."""
    if uid is None:
        return os.getlogin()
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run as a number without a name
        return str(uid)

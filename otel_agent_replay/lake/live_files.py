"""Which files of a folder count, while a compaction replaces some of them by others and after it did.

A folder that was ever compacted holds `_compaction.json`, which is replaced as a whole. It names the files that a
compaction makes and those that they stand for. Until it is `done` the former do not count, from then on the latter
do not: the moment in which that file is replaced is the moment in which all readers see the new instead of the old.
A file that was replaced never counts again, so a sealer that publishes it once more after a crash doubles nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from otel_agent_replay.errors import DamagedRecording

STATE_FILE = "_compaction.json"

IDLE, BEGUN, DONE = "idle", "begun", "done"


@dataclass(frozen=True, slots=True)
class CompactionState:
    """What compactions did in one folder. `number` rises with every change of it, `time_ns` is when it was changed.

    `made` and `replaced` are names of files, of the compaction that is under way (phase `begun` or `done`); `merged`
    the packs (hexadecimal, as in names) of the files that earlier ones replaced.
    """

    number: int = 0
    phase: str = IDLE
    time_ns: int = 0
    made: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    merged: frozenset[str] = frozenset()

    def begun(self, made: Iterable[str], replaced: Iterable[str], time_ns: int) -> CompactionState:
        """Return the state in which files are made that do not count yet."""
        return replace(
            self, number=self.number + 1, phase=BEGUN, time_ns=time_ns, made=tuple(made), replaced=tuple(replaced)
        )

    def done(self, time_ns: int) -> CompactionState:
        """Return the state in which the new files count instead of the old."""
        return replace(self, number=self.number + 1, phase=DONE, time_ns=time_ns)

    def given_up(self, time_ns: int) -> CompactionState:
        """Return the state after a compaction that came to nothing."""
        return replace(self, number=self.number + 1, phase=IDLE, time_ns=time_ns, made=(), replaced=())

    def finished(self, time_ns: int) -> CompactionState:
        """Return the state after the old files are gone."""
        merged = self.merged.union(map(pack_in, self.replaced))
        return replace(self.given_up(time_ns), merged=merged)

    def counts(self, name: str) -> bool:
        """Return whether the file of that name is one of the lake's."""
        if self.phase == BEGUN and name in self.made:
            return False
        if self.phase == DONE and name in self.replaced:
            return False
        return pack_in(name) not in self.merged


def pack_in(name: str) -> str:
    """Return the pack in a file's name."""
    return name.removesuffix(".parquet").rpartition("-")[2]


def live_names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted, without those of files that do not count; [] when there is no folder.

    Raises DamagedRecording when it cannot be known which do.
    """
    names = _names_in(folder)
    state = read_state(folder) if names else None
    if state is None:  # no compaction has begun here yet: the list is whole
        return names
    while True:
        before, names, state = state, _names_in(folder), read_state(folder)
        if state is None or state.number == before.number:
            break
    return names if state is None else [name for name in names if state.counts(name)]


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - a path for each of its names is not needed
    except FileNotFoundError:
        return []


_known: dict[Path, tuple[tuple[int, int, int], CompactionState]] = {}
_MOST_KNOWN = 4096


def read_state(folder: Path) -> CompactionState | None:
    """Return the state of a folder; None when nothing in it was ever compacted. Raises DamagedRecording."""
    path = folder / STATE_FILE
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
    known = _known.get(path)
    if known is not None and known[0] == stamp:
        return known[1]
    try:
        state = _of_json(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedRecording(
            f"{path} is not what a compaction writes ({error}): which files of that folder count is not known. "
            "Restore it, or see what `agent-replay doctor --deep` says of the folder"
        ) from error
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[path] = stamp, state
    return state


def write_state(folder: Path, state: CompactionState) -> None:
    """Replace the state of a folder, durably and at once."""
    document = {
        "number": state.number,
        "phase": state.phase,
        "time_ns": state.time_ns,
        "made": state.made,
        "replaced": state.replaced,
        "merged": sorted(state.merged),
    }
    path = folder / STATE_FILE
    temporary = folder / f".{STATE_FILE}.new"
    with temporary.open("w", encoding="ascii") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync(folder)


def sync(path: Path) -> None:
    """Let what was written to a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _of_json(stored: dict[str, object]) -> CompactionState:
    phase = stored["phase"]
    if phase not in {IDLE, BEGUN, DONE}:
        raise ValueError(f"phase {phase!r}")
    number, time_ns = stored["number"], stored["time_ns"]
    if type(number) is not int or type(time_ns) is not int:
        raise ValueError("number and time_ns are integers")
    made, replaced, merged = (_texts(stored[key]) for key in ("made", "replaced", "merged"))
    return CompactionState(number, str(phase), time_ns, made, replaced, frozenset(merged))


def _texts(stored: object) -> tuple[str, ...]:
    if not isinstance(stored, list) or not all(isinstance(one, str) for one in stored):
        raise ValueError("a list of names was expected")
    return tuple(stored)

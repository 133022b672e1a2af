"""New files in the place of old ones, for all readers at one moment, whatever dies in between.

The order is: say what is about to be made, put it in place (payloads before spans), say that it counts, and, when
readers that began before have had their time, remove the old and say so. `recover` takes up after any of these.
Spans take their payloads with them: the files of both have the same names.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from otel_agent_replay.lake.layout import PAYLOADS, SPANS, Partition, beside, publish
from otel_agent_replay.lake.live_files import BEGUN, DONE, IDLE, CompactionState, read_state, sync, write_state


def switch(lake: Path, partition: Partition, table: str, staged: Sequence[Path], replaced: Sequence[str]) -> None:
    """Let the `staged` files count instead of those named `replaced`. They lie as in a lake, under another folder.

    Raises OSError; what counts is then what counted before.
    """
    folder = partition.folder(lake, table)
    state = recover(lake, partition, table) or CompactionState()
    if state.phase == DONE:
        # What that one replaced may still be read; it never counts again, and `settling` removes it later.
        state = state.finished(time.time_ns())
    names = [path.name for path in staged]
    write_state(folder, state.begun(names, replaced, time.time_ns()))
    try:
        for of_table in _put_in_place(table):
            for path in staged:
                source = beside(path, of_table)
                if source.exists():
                    target = partition.folder(lake, of_table) / path.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    publish(source, target)
        begun = read_state(folder)
        write_state(folder, (begun or state).done(time.time_ns()))
    except OSError:
        recover(lake, partition, table)
        raise


def recover(lake: Path, partition: Partition, table: str) -> CompactionState | None:
    """Undo a switch that was begun and not done; return the state of the folder, None where there never was one.

    Raises OSError, DamagedRecording.
    """
    folder = partition.folder(lake, table)
    state = read_state(folder)
    if state is not None and state.phase == BEGUN:
        _remove(lake, partition, _put_in_place(table), state.made)
        state = state.given_up(time.time_ns())
        write_state(folder, state)
    return state


def finish(lake: Path, partition: Partition, table: str) -> None:
    """Remove the files that no longer count, once nobody can be reading them. Raises OSError, DamagedRecording."""
    folder = partition.folder(lake, table)
    state = read_state(folder)
    if state is not None and state.phase == DONE:
        _remove(lake, partition, _in_order_of_removal(table), state.replaced)
        write_state(folder, state.finished(time.time_ns()))


def is_settled(state: CompactionState | None) -> bool:
    """Whether nothing is under way in a folder of that state."""
    return state is None or state.phase == IDLE


def _put_in_place(table: str) -> tuple[str, ...]:
    return (PAYLOADS, SPANS) if table == SPANS else (table,)


def _in_order_of_removal(table: str) -> tuple[str, ...]:
    return tuple(reversed(_put_in_place(table)))


def _remove(lake: Path, partition: Partition, tables: Sequence[str], names: Sequence[str]) -> None:
    for table in tables:
        folder = partition.folder(lake, table)
        for name in names:
            (folder / name).unlink(missing_ok=True)
        if folder.is_dir():
            sync(folder)

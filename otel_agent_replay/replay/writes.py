"""What a run has changed in the world so far, as one number: two runs that made the same writes have the same one.

The order of writes and when they were made have no part in it, so that parallel ones compare. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from otel_agent_replay.model import Call, Kind, SideEffect
from otel_agent_replay.replay.tape_entry import Entry

NOTHING_WRITTEN = 0
Key = tuple[Kind, str, bytes]

_MODULUS = 1 << 256
_CHANGES = frozenset({SideEffect.WRITE, SideEffect.EXTERNAL})
_ASKS_THE_WORLD = frozenset({Kind.TOOL, Kind.HTTP, Kind.RETRIEVAL})


def key_of(call: Call) -> Key:
    """Return what two calls of the same arguments share."""
    return call.kind, call.name, call.digest


def changes_the_world(call: Call) -> bool:
    """Whether the call may change something, also when it failed or was never answered."""
    return call.side_effect in _CHANGES


def repeats(call: Call) -> bool:
    """Whether asking again, with nothing written in between, gives the same: a read of the world does."""
    return call.kind in _ASKS_THE_WORLD and call.side_effect not in _CHANGES


def with_write(written: int, call: Call) -> int:
    """Return what is written once `call`, a write, was made too."""
    named = f"{call.kind.value}\0{call.name}\0".encode("utf-8", "surrogatepass")
    return (written + int.from_bytes(hashlib.sha256(named + call.digest).digest(), "big")) % _MODULUS


@dataclass(frozen=True, slots=True)
class Writes:
    """By `id` of an entry: what was written `before` it began, and which of them are writes that count (`made`)."""

    before: dict[int, int]
    made: frozenset[int]


def writes_in(entries: Sequence[Entry]) -> Writes:
    """Return what each of a run's entries, in the order they began, found written.

    What a declared tool does inside is its own affair: such an exchange counts as the tool does.
    """
    declared = {entry.node.path for entry in entries if entry.call.side_effect is not SideEffect.NONE}
    before: dict[int, int] = {}
    made = set()
    written = NOTHING_WRITTEN
    for entry in entries:
        before[id(entry)] = written
        path = entry.node.path
        inside = entry.below and any(path[:length] in declared for length in range(1, len(path)))
        if changes_the_world(entry.call) and not inside:
            made.add(id(entry))
            written = with_write(written, entry.call)
    return Writes(before, frozenset(made))

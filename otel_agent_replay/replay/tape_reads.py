"""The bulk reads on a tape: clocks, draws, identifiers, environment, what became of waits.

Each is handed out once, in order within its place, thread of control, kind and name. Which of them have their place
among the run's ends is told here too; what comes of that is `order`'s business.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator

from otel_agent_replay.model import CLIENT_STRAND, TIMER, Kind, Node, Read
from otel_agent_replay.replay.past import Past
from otel_agent_replay.replay.tape_entry import Path


class TapeReads:
    """The reads of the nodes that are added, but for those that began at sequence number `cut` or lie in the `past`.

    `taken` counts those that were handed out. Thread-safe once all nodes are there.
    """

    def __init__(self, cut: float, past: Past | None) -> None:
        self.taken = 0
        self._cut = cut
        self._past = past
        self._nodes: dict[Path, Node] = {}
        self._at: dict[Path, _Reads] = {}
        self._lock = threading.Lock()

    def add(self, node: Node) -> None:
        """Take the reads of a node."""
        self._nodes[node.path] = node

    def with_turns(self, node: Node) -> Iterator[Read]:
        """Yield the reads of a node that have their place among the run's ends."""
        return (read for read in node.reads if read.has_turn and self._is_to_come(read) and self._counts(read.name))

    def take(self, place: Path, kind: Kind, name: str, strand: str) -> Read | None:
        """Hand out the next read of that name at `place`, or None when none is left."""
        with self._lock:
            reads = self._reads_at(place)
            read = None if reads is None else reads.take(kind, name, strand)
            self.taken += read is not None
            return read

    def take_wait(self, place: Path, name: str, strand: str) -> Read | None:
        """The same for what became of a wait: another thread of control's is never given."""
        with self._lock:
            reads = self._reads_at(place) if self._counts(name) else None
            read = None if reads is None else reads.take_own(Kind.CLOCK, name, strand)
            self.taken += read is not None
            return read

    def left(self, place: Path) -> list[Read]:
        """Return the reads at `place` that were not handed out."""
        with self._lock:
            reads = self._reads_at(place)
            return [] if reads is None else list(reads.left.values())

    def count_left(self, crossings: Collection[Path]) -> int:
        """Return how many reads were never made, leaving out those at and inside `crossings`."""
        return sum(
            len(self.left(path))
            for path in self._nodes
            if not any(path[:length] in crossings for length in range(1, len(path) + 1))
        )

    def _counts(self, name: str) -> bool:
        """Whether a wait of that name can be found again: who enters in the middle counts timers from there."""
        return self._past is None or not name.startswith(TIMER)

    def _is_to_come(self, read: Read) -> bool:
        return read.sequence < self._cut and (self._past is None or not self._past.has_read(read))

    def _reads_at(self, place: Path) -> _Reads | None:
        reads = self._at.get(place)
        if reads is None:
            node = self._nodes.get(place)
            if node is None:
                return None
            made_here = [read for read in node.reads if read.strand != CLIENT_STRAND and self._is_to_come(read)]
            reads = self._at[place] = _Reads(sorted(made_here, key=lambda read: read.sequence))
        return reads


class _Reads:
    """The bulk reads of one place, each handed out once, in order within strand, kind and name."""

    __slots__ = ("_any", "_exact", "left")

    def __init__(self, reads: list[Read]) -> None:
        self._exact: dict[tuple[str, Kind, str], deque[int]] = {}
        self._any: dict[tuple[Kind, str], list[int]] = {}
        self.left: dict[int, Read] = dict(enumerate(reads))
        for number, read in self.left.items():
            self._exact.setdefault((read.strand, read.kind, read.name), deque()).append(number)
            self._any.setdefault((read.kind, read.name), []).append(number)

    def take(self, kind: Kind, name: str, strand: str) -> Read | None:
        """Return the next read of that name in `strand`; from any strand when `strand` recorded none here."""
        if (strand, kind, name) in self._exact:
            return self.take_own(kind, name, strand)
        for number in self._any.get((kind, name), ()):
            read = self.left.pop(number, None)
            if read is not None:
                return read
        return None

    def take_own(self, kind: Kind, name: str, strand: str) -> Read | None:
        """Return the next read of that name in `strand`."""
        numbers = self._exact.get((strand, kind, name))
        while numbers:
            read = self.left.pop(numbers.popleft(), None)
            if read is not None:
                return read
        return None

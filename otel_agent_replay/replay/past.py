"""What of a recording lies before the checkpoint that its agent is entered at. Pure.

Owns which calls, scopes and reads are over there: code that is entered neither makes them nor asks for them again.
"""

from __future__ import annotations

from collections.abc import Collection

from otel_agent_replay.model import ORDER_MARKS, THREAD_END, Kind, Node, Read, RecordedRun


class Past:
    """`calls` are the sequence numbers of the calls that are over, `until` is the last one of a read that is."""

    def __init__(self, recorded: RecordedRun, until: int, calls: Collection[int]) -> None:
        self.until = until
        self._calls = frozenset(calls)
        self._to_come: set[tuple[str, ...]] = set()  # places in which something is still to come
        strands = {""}
        for node in recorded.nodes:
            if self._comes(node):
                self._to_come.update(node.path[:length] for length in range(1, len(node.path) + 1))
            else:
                strands.add(node.strand)
            strands.update(read.strand for read in node.reads if read.sequence <= until)
        self.next_strand = 1 + max(map(_number, strands))
        """Number of the next thread of control that the run's first one starts, as far as the recording tells."""

    def has(self, node: Node) -> bool:
        """Whether a call is over, or a scope has nothing more to come."""
        if node.kind is Kind.SCOPE:
            return node.sequence <= self.until and node.path not in self._to_come
        return node.sequence in self._calls

    def has_read(self, read: Read) -> bool:
        """Whether a bulk read is over; a thread's end is once no thread of that number can come."""
        if read.name == THREAD_END and 0 < _number(read.strand) < self.next_strand:
            return True
        return read.sequence <= self.until

    def _comes(self, node: Node) -> bool:
        if any(read.sequence > self.until for read in node.reads if read.name not in ORDER_MARKS):
            return True
        if node.kind is Kind.RUN:
            return False
        return node.sequence > self.until if node.kind is Kind.SCOPE else node.sequence not in self._calls


def _number(strand: str) -> int:
    """Return which of the threads that the run's first one started a label belongs to, 0 for that one itself."""
    first = strand.partition(".")[0]
    return int(first) if first.isdecimal() else 0

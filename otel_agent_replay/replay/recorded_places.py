"""Where in the recording the places of a run that goes on lie.

Parallel code may come to equal places in another order than it did before. Each place that the recording has gets its
recorded number among its like; a new one gets a number beyond them, so that no two ever share a path.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from otel_agent_replay.boundary.crossing import Place
from otel_agent_replay.model import Kind, Node

_Like = tuple[tuple[str, ...], Kind, str]


class RecordedPlaces:
    """The numbers of a recording's `nodes`. Thread-safe."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = nodes
        self._lock = threading.Lock()
        self._scopes: dict[tuple[_Like, str], deque[int]] = {}
        self._beyond: dict[_Like, Iterator[int]] | None = None

    def found(self, place: Place, recorded: Node) -> None:
        """`place` is where `recorded` was."""
        place.renumber(recorded.occurrence)

    def new(self, place: Place) -> None:
        """`place` is none that the recording has."""
        with self._lock:
            self._number_new(place, _like(place))

    def scope(self, place: Place, strand: Callable[[], str]) -> None:
        """`place` is a scope that the thread of control `strand()` enters: its next one there, or a new one."""
        like = _like(place)
        with self._lock:
            waiting = self._scopes.get((like, strand())) if like in self._loaded() else None
            if waiting:
                place.renumber(waiting.popleft())
            else:
                self._number_new(place, like)

    def _number_new(self, place: Place, like: _Like) -> None:
        numbers = self._loaded().get(like)
        if numbers is not None:
            place.renumber(next(numbers))

    def _loaded(self) -> dict[_Like, Iterator[int]]:
        if self._beyond is None:
            last: dict[_Like, int] = {}
            for node in sorted(self._nodes, key=lambda node: node.sequence):
                like = (node.path[:-1], node.kind, node.name)
                last[like] = max(last.get(like, 0), node.occurrence)
                if node.kind is Kind.SCOPE:
                    self._scopes.setdefault((like, node.strand), deque()).append(node.occurrence)
            self._beyond = {like: itertools.count(number + 1) for like, number in last.items()}
        return self._beyond


def _like(place: Place) -> _Like:
    return (() if place.parent is None else place.parent.path, place.kind, place.name)

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
from otel_agent_replay.replay.past import Past

_Like = tuple[tuple[str, ...], Kind, str]


class RecordedPlaces:
    """The numbers of a recording's `nodes`. Thread-safe. `goes_on` tells that there may be places beyond them.

    Scopes in the `past` are taken: nobody enters them again.
    """

    def __init__(self, nodes: Iterable[Node], *, goes_on: bool = False, past: Past | None = None) -> None:
        self._nodes = nodes
        self._past = past
        self._goes_on = goes_on
        self._lock = threading.Lock()
        self._scopes: dict[_Like, dict[str, deque[int]]] = {}
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
            waiting = self._loaded_scopes().get(like, {})
            own = waiting.get(strand())
            if not own and not self._goes_on:  # which thread of control enters which is not known of every recording
                own = next((others for others in waiting.values() if others), None)
            if own:
                place.renumber(own.popleft())
            else:
                self._number_new(place, like)

    def _number_new(self, place: Place, like: _Like) -> None:
        numbers = self._loaded().get(like)
        if numbers is not None:
            place.renumber(next(numbers))

    def _loaded_scopes(self) -> dict[_Like, dict[str, deque[int]]]:
        self._loaded()
        return self._scopes

    def _loaded(self) -> dict[_Like, Iterator[int]]:
        if self._beyond is None:
            last: dict[_Like, int] = {}
            for node in sorted(self._nodes, key=lambda node: node.sequence):
                like = (node.path[:-1], node.kind, node.name)
                last[like] = max(last.get(like, 0), node.occurrence)
                if node.kind is Kind.SCOPE and not (self._past is not None and self._past.has(node)):
                    self._scopes.setdefault(like, {}).setdefault(node.strand, deque()).append(node.occurrence)
            self._beyond = {like: itertools.count(number + 1) for like, number in last.items()}
        return self._beyond


def _like(place: Place) -> _Like:
    return (() if place.parent is None else place.parent.path, place.kind, place.name)

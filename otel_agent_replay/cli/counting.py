"""How far work on a lake is: a line on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys

from otel_agent_replay.cli.progress import CountLine


class Counting:
    """A context whose value is called with (how many are done, of how many) and shows `what` these are."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._line: CountLine | None = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        """Say how far it is."""
        if not sys.stderr.isatty():
            return
        if self._line is None:
            self._line = CountLine(total, self._what)
        self._line.add(done - self._done)
        self._done = done

    def __enter__(self) -> Counting:  # noqa: PYI034 - typing.Self needs 3.11
        return self

    def __exit__(self, *what: object) -> None:
        if self._line is not None:
            self._line.end()

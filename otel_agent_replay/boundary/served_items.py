"""Generators that are answered: their items as recorded, whatever is sent or thrown in.

What that led to is recorded as well. Calling generators through is `tools`' business.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from functools import partial
from typing import Any

from otel_agent_replay.boundary.crossing import Crossing
from otel_agent_replay.boundary.http_faults import stop
from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.payload.classes import class_name
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.payload.failure import rebuild


def serve_items(crossing: Crossing) -> Generator[Any, Any, Any]:
    """Give the items of an answered generator, and return or raise as it did."""
    served = _Served(crossing)
    try:
        for item in served.items:
            try:
                yield item
                served.thrown = None
            except Exception as error:  # noqa: PERF203 - to be caught at the very item
                served.thrown = error
        served.check_left()
        crossing.settle()
    finally:
        crossing.finish(served.outcome)
    return served.end()


async def serve_items_async(crossing: Crossing) -> AsyncGenerator[Any, None]:
    """The same of an async generator."""
    served = _Served(crossing)
    try:
        for item in served.items:
            try:
                yield item
                served.thrown = None
            except Exception as error:  # noqa: PERF203 - to be caught at the very item
                served.thrown = error
        served.check_left()
        await crossing.settle_async()
    finally:
        crossing.finish(served.outcome)
    served.end()


class _Served:
    """What is on record of a generator; `thrown` is what its consumer threw in at the last item that was given."""

    def __init__(self, crossing: Crossing) -> None:
        if crossing.answer is None:
            raise AssertionError("only an answered crossing can be served")
        self.outcome = crossing.answer.outcome
        self.thrown: Exception | None = None
        self._crossing = crossing
        self._step = crossing.answer.origin_step
        result = self.outcome.result
        recorded = {"yielded": ()} if result is None or result.data is None else decode(result.data)
        if not (isinstance(recorded, dict) and "yielded" in recorded):
            # What a person or a status query said of a generator is a list of its items, or the only one.
            recorded = {"yielded": recorded if isinstance(recorded, (list, tuple)) else (recorded,)}
        self.items = recorded["yielded"]
        self._returned = recorded.get("returned")
        crossing.leave = partial(crossing.finish, self.outcome)

    def check_left(self) -> None:
        """Stop the replay of a consumer that wants more items than the recorded one took."""
        if self.outcome.closed_early:
            expected = f"the generator to be closed after {len(self.items)} items"
            departure = ReplayDeparture(
                step=self._step, path=self._crossing.place.path, expected=expected, came="a request for the next one"
            )
            raise stop(self._crossing.session, departure)

    def end(self) -> Any:
        """Return or raise as the generator did: what was just thrown in, where it let that pass."""
        failure = self.outcome.failure
        if failure is None:
            return self._returned
        if self.thrown is not None and class_name(type(self.thrown)) == failure.type:
            raise self.thrown
        raise rebuild(failure)

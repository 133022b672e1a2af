"""Tasks and futures of a run come out of sets in the same order in a replay.

A set of tasks or futures is walked by their hashes, which are their addresses: `for task in done` after `asyncio.wait`
would come in another order in each process. So those that a run makes hash by the label of their thread of control;
they are equal to themselves only, as ever. `asyncio.as_completed` turns its coroutines into tasks in the order of a set
of addresses: hooked, it does so in the order in which they are given. That of pools' futures gives those that were done
before it was called in the order of such a set: hooked, in the order in which they were done, which a replay imposes.
Loops that are not written in Python (uvloop) make their tasks themselves: theirs keep their addresses.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import math
import queue
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from otel_agent_replay.boundary.one_ending import ending_is_over

_create_task = asyncio.BaseEventLoop.create_task
_eager = getattr(asyncio, "eager_task_factory", None)  # asyncio's own, since Python 3.12: it makes plain tasks

_done = itertools.count(1)


def _number(label: str) -> int:
    """Return the number of a thread of control among its like: what lies in one set was mostly made in one place."""
    return int(label.rpartition(".")[2])


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set goes by its label."""

    _agent_replay_number: int

    def __new__(cls, *_args: Any, **options: Any) -> Any:
        """Make one that can be hashed before it is initialised: tasks enter a set of all tasks in the middle of it."""
        made = super().__new__(cls)
        made._agent_replay_number = _number(options["label"])
        return made

    def __init__(self, coro: Any, **options: Any) -> None:
        del options["label"]
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._agent_replay_number


class NumberedFuture(concurrent.futures.Future[Any]):
    """What a pool gave for a task of the run; its place in a set goes by the task's label.

    `_agent_replay_done` tells which one was done before which; one that was done before it was numbered has none.
    """

    _agent_replay_number: int
    _agent_replay_done = 0

    def __hash__(self) -> int:
        return self._agent_replay_number

    def set_result(self, result: Any) -> None:
        """Set the result, and when."""
        self._agent_replay_done = next(_done)
        super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Set the error, and when."""
        self._agent_replay_done = next(_done)
        super().set_exception(exception)

    def _invoke_callbacks(self) -> None:
        ending_is_over()  # before anybody's code runs
        super()._invoke_callbacks()  # type: ignore[misc]


class NumberedAsyncFuture(asyncio.Future[Any]):
    """The same as an event loop sees it (`run_in_executor`)."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._agent_replay_number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._agent_replay_number


for _kind, _shown in ((NumberedTask, "Task"), (NumberedFuture, "Future"), (NumberedAsyncFuture, "Future")):
    _kind.__name__ = _shown  # what `repr` and logs say


def task(loop: asyncio.BaseEventLoop, coro: Any, label: str, options: dict[str, Any]) -> asyncio.Task[Any]:
    """Make a task as `loop.create_task` does, numbered unless the loop has a task factory of its own."""
    factory = loop.get_task_factory()
    if factory is not None and factory is not _eager:
        return _create_task(loop, coro, **options)
    if factory is not None:
        options = {"eager_start": True, **options}
    loop._check_closed()  # type: ignore[attr-defined]
    made = NumberedTask(coro, label=label, loop=loop, **options)
    if made._source_traceback:  # type: ignore[attr-defined]
        del made._source_traceback[-1]  # type: ignore[attr-defined]
    return made


def number_future(future: concurrent.futures.Future[Any], label: str) -> bool:
    """Number what a pool's `submit` has just given; False where it is of a class of its own."""
    if type(future) is not concurrent.futures.Future:
        return False
    vars(future)["_agent_replay_number"] = _number(label)
    future.__class__ = NumberedFuture
    return True


def numbered_like(future: Any, loop: asyncio.AbstractEventLoop | None) -> asyncio.Future[Any] | None:
    """Return a future of the event loop that follows a numbered one of a pool; None for one that is not numbered."""
    if not isinstance(future, NumberedFuture):
        return None
    wrapped = NumberedAsyncFuture(future._agent_replay_number, loop=loop or asyncio.get_event_loop())
    asyncio.futures._chain_future(future, wrapped)  # type: ignore[attr-defined]
    return wrapped


def _plainly(seconds: float | None, attempt: Callable[[float | None], Any]) -> Any:
    return attempt(seconds)


def completed(
    futures: Iterable[Any],
    timeout: float | None,
    waited: Callable[[float | None, Callable[[float | None], Any]], Any] = _plainly,
) -> Iterator[Any]:
    """Yield futures of a pool as they are done, also those that were done before anybody asked, in that order.

    `waited` is given the seconds that are left and what waits that long for one, None when none came, and gives that.
    """
    # The clock and the kind of queue that also keep virtual time, where a run has that (`virtual_locks`).
    monotonic = concurrent.futures._base.time.monotonic  # type: ignore[attr-defined]
    until = None if timeout is None else monotonic() + timeout
    done: queue.Queue[Any] = queue.Queue()
    found: list[Any] = []  # the last one comes first
    pending = dict.fromkeys(futures)
    total = len(pending)
    for future in sorted(pending, key=_when_done):
        future.add_done_callback(done.put)

    def first(seconds: float | None) -> Any:
        if not found:
            try:
                found.append(done.get(timeout=seconds))
            except queue.Empty:
                return None
            while not done.empty():
                found.append(done.get())
            found.sort(key=_when_done, reverse=True)
        return found[-1]

    while pending:
        if waited(None if until is None else max(until - monotonic(), 0), first) is None:
            raise concurrent.futures.TimeoutError(f"{len(pending)} (of {total}) futures unfinished")
        del pending[found[-1]]
        yield found.pop()


def _when_done(future: Any) -> float:
    return getattr(future, "_agent_replay_done", 0) if future.done() else math.inf


class InOrder(Iterable[Any]):
    """Awaitables as futures, made by `make` in the order given once somebody asks, each awaitable once."""

    def __init__(self, awaitables: Iterable[Any], make: Callable[[Any], Any]) -> None:
        self._awaitables = awaitables
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return iter([one if asyncio.isfuture(one) else self._make(one) for one in dict.fromkeys(self._awaitables)])

"""`yield from` for async generators, which the language has not: a front that stands for another generator.

What its consumer sends, throws in and closes must reach the generator behind, or declaring a function would change
what it does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any


def relayed(choose: Callable[..., AsyncGenerator[Any, Any]]) -> Callable[..., AsyncGenerator[Any, Any]]:
    """Return an async generator function that is, from its first item on, the generator which `choose` returns.

    `choose` is given the call's arguments when the first item is asked for.
    """

    async def front(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        behind = choose(*args, **kwargs)
        step = behind.__anext__()
        while True:
            try:
                item = await step
            except StopAsyncIteration:
                return
            try:
                sent = yield item
            except GeneratorExit:
                if not getattr(behind, "ag_running", False):  # else the loop that ends closes it by itself
                    await behind.aclose()
                raise
            except BaseException as thrown:
                step = behind.athrow(thrown)
            else:
                step = behind.asend(sent)

    return front

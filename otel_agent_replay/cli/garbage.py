"""Not looking for garbage while a command holds large runs.

Python looks through all that is held each time a quarter more has come. A run of a hundred thousand spans is millions
of objects, none of which point in circles, and looking through them again and again takes a third of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Leave circles of objects uncollected inside; what points in no circle goes at once, as ever."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

"""What share of many parameters every run of the tests tries: the others are for `make soak`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def shared(every: Iterable[Any], *kept: Any) -> list[Any]:
    """Return all of `every` as parameters; those that are not among `kept` are marked `soak`.

    >>> shared(["before", "during", "after"], "during")[1]
    'during'
    """
    listed = list(every)
    missing = [one for one in kept if one not in listed]
    assert kept and not missing, f"not among the parameters: {missing}"
    return [one if one in kept else _of_the_soak(one) for one in listed]


def _of_the_soak(one: Any) -> Any:
    values = one if isinstance(one, tuple) else (one,)
    return pytest.param(*values, marks=pytest.mark.soak)

"""How many runs are drawn of each stratum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.replay.sampling import allocation

_SIZES = st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.integers(1, 40), min_size=1, max_size=8)


def test_rare_strata_keep_one_and_the_rest_goes_by_size():
    """Of 1,000 runs ten are drawn: one of the single failure, the others in proportion."""
    assert allocation({"ok": 899, "slow": 100, "failed": 1}, 10) == {"ok": 8, "slow": 1, "failed": 1}
    assert allocation({"a": 50, "b": 50}, 5) == {"a": 3, "b": 2}
    assert allocation({"a": 2, "b": 1}, 9) == {"a": 2, "b": 1}


@given(_SIZES, st.integers(0, 60))
def test_what_is_allocated_can_be_drawn(sizes, more):
    """Every stratum has one at least and no more than it has runs; together they are as many as wanted."""
    wanted = len(sizes) + more
    counts = allocation(sizes, wanted)
    assert all(1 <= counts[name] <= size for name, size in sizes.items())
    assert sum(counts.values()) == min(wanted, sum(sizes.values()))

"""Laws of shared beginnings, shared ends and deltas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.model import digest_of
from otel_agent_replay.payload import BodyHistory, common_prefix, common_suffix

PARTS = st.lists(st.sampled_from([b"a", b"b", b"x" * 5_000, b"y" * 4_096, b"ab" * 3_000]), max_size=6).map(b"".join)


@given(PARTS, PARTS)
def test_common_prefix_is_shared_and_longest(a, b):
    """Both begin with it, and the next byte differs or is not there."""
    length = common_prefix(a, b)
    assert a[:length] == b[:length]
    assert length == min(len(a), len(b)) or a[length] != b[length]


@given(PARTS, PARTS, st.integers(0, 40_000))
def test_common_suffix_is_shared_and_longest(a, b, limit):
    """Both end with it; it is as long as it can be within the limit."""
    length = common_suffix(a, b, limit)
    assert length <= limit
    assert a[len(a) - length :] == b[len(b) - length :]
    assert length in (limit, len(a), len(b)) or a[-1 - length] != b[-1 - length]


@given(st.lists(PARTS, min_size=1, max_size=8), PARTS)
def test_a_delta_rebuilds_the_body(bodies, body):
    """base[:prefix] + middle + base[-suffix:] is the body, and the two never overlap in either."""
    history = BodyHistory(max_bodies=4, max_bytes=60_000)
    kept = {}
    for one in bodies:
        history.remember(digest_of(one), one)
        kept[digest_of(one)] = one
    delta = history.delta(body)
    if delta is None:
        return
    digest, prefix, suffix = delta
    base = kept[digest]
    assert prefix + suffix <= min(len(base), len(body))
    middle = body[prefix : len(body) - suffix]
    assert base[:prefix] + middle + base[len(base) - suffix :] == body


@given(st.lists(PARTS, max_size=12))
def test_history_stays_within_its_bounds(bodies):
    """No more bodies and bytes than were allowed are ever held."""
    history = BodyHistory(max_bodies=3, max_bytes=10_000)
    for body in bodies:
        history.remember(digest_of(body), body)
        assert history.count <= 3
        assert history.size <= 10_000

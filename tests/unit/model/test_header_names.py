"""Headers picked by their names."""

from __future__ import annotations

from otel_agent_replay.model.header_names import HeaderNames


def test_headers_are_picked_in_any_case_and_in_order():
    """Each header whose name is one of them comes back as it was spelled, also one that comes twice."""
    headers = (("Accept", "a"), ("DATE", "b"), ("accept", "c"), ("Accept-Encoding", "d"))
    names = HeaderNames(["accept", "age"])
    assert list(names.of(headers)) == [("Accept", "a"), ("accept", "c")]
    assert list(names.of(headers)) == [("Accept", "a"), ("accept", "c")]
    assert list(names.of(())) == []


def test_a_peer_that_makes_up_names_costs_no_memory():
    """Names without end are each judged rightly, and few of them are remembered."""
    names = HeaderNames(["accept"])
    for number in range(5_000):
        assert list(names.of(((f"x-{number}", ""), ("accept", "")))) == [("accept", "")]
    assert len(names._has.__self__) <= 2_048

"""When a trace is complete, and when a request is needed no more."""

from otel_agent_replay_collector.keeping import Policy
from otel_agent_replay_collector.pending_traces import NO_TRACE, PendingTraces

from otel_agent_replay.model import Span

SECOND = 1_000_000_000
A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def pending(**changed):
    return PendingTraces(**{"quiet_s": 10, "longest_s": 60, "most_items": 100, **changed})


def test_a_trace_is_complete_when_it_is_quiet_old_or_large():
    """Each of the three suffices; what lately came waits."""
    traces = pending()
    traces.add(1, 0, {A: 1, B: 1, C: 100})
    traces.add(2, 9 * SECOND, {B: 1})
    assert traces.complete(9 * SECOND) == [C]
    assert set(traces.complete(10 * SECOND)) == {A, C}
    traces.add(3, 55 * SECOND, {A: 1, B: 1})
    assert traces.complete(59 * SECOND) == [C]
    assert set(traces.complete(60 * SECOND)) == {A, B, C}


def test_records_without_a_trace_wait_for_nobody():
    """They are complete at once."""
    traces = pending()
    traces.add(1, 0, {NO_TRACE: 3})
    assert traces.complete(1) == [NO_TRACE]


def test_a_request_is_free_when_all_its_traces_have_landed():
    """Not before, and in whatever order they land."""
    traces = pending()
    traces.add(1, 0, {A: 2, B: 1})
    traces.add(2, 0, {A: 1})
    assert traces.places_of([A]) == [1, 2]
    assert traces.landed([A]) == [2]
    assert traces.landed([B]) == [1]
    assert len(traces) == 0


def test_batches_hold_about_so_many_spans_and_at_least_one_trace():
    """A large trace is a batch of its own; nothing is left out or put in twice."""
    traces = pending()
    traces.add(1, 0, {A: 5, B: 50, C: 5})
    assert traces.batches([A, B, C], 10) == [[A], [B], [C]]
    assert traces.batches([A, C, B], 10) == [[A, C], [B]]


def span(number=0, **changed):
    return Span(**{"trace_id": A, "span_id": number.to_bytes(8, "big"), "name": "x", "start_ns": 1, **changed})


def test_a_policy_keeps_what_failed_was_flagged_or_wrote():
    """And with a rate of 0 nothing else; a reason that is not named does not count."""
    policy = Policy(0, ("failed", "flagged", "risky"))
    assert not policy.keeps(A, [span(), span(1, attributes={"agent_replay.side_effect": "read"})])
    assert policy.keeps(A, [span(), span(1, status_code=2)])
    assert policy.keeps(A, [span(attributes={"agent_replay.flagged": True})])
    assert policy.keeps(A, [span(attributes={"agent_replay.side_effect": "write"})])
    assert not Policy(0, ("flagged",)).keeps(A, [span(1, status_code=2)])


def test_a_policy_draws_by_the_trace_alone_and_about_as_many_as_it_says():
    """Every receiver draws the same, what a lower rate keeps a higher one does, and a rate of 1 keeps all."""
    ids = [number.to_bytes(16, "big") for number in range(2000)]
    tenth = {trace for trace in ids if Policy(0.1, ()).keeps(trace, [])}
    third = {trace for trace in ids if Policy(0.3, ()).keeps(trace, [])}
    assert 140 < len(tenth) < 260
    assert tenth < third
    assert Policy(1, ()).keeps_all
    assert all(Policy(1, ()).keeps(trace, []) for trace in ids)

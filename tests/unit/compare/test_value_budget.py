"""A payload that is too large to be compared to its end is told as that, never as equal."""

from functools import partial

import pytest

from otel_agent_replay.compare import Verdict, compare, node_changes
from otel_agent_replay.payload.difference import differences_within
from otel_agent_replay.testing.builders import run


@pytest.fixture
def little_work(monkeypatch):
    """Let a comparison look at few values only."""
    monkeypatch.setattr(node_changes, "differences_within", partial(differences_within, work=300))


def fetched(rows, seed):
    return run(seed=seed).tool("fetch", {"q": 1}, rows).build(output="done")


def test_a_large_payload_is_told_as_not_compared_to_the_end(little_work):
    """The change is there, its places are no complete list, and a notice says why."""
    rows = [{"n": number} for number in range(500)]
    comparison = compare(fetched(rows, 1), fetched([*rows[:-1], {"n": -1}], 2))
    assert comparison.verdict is Verdict.DIFFERENT
    assert "value_budget" in [notice.code for notice in comparison.notices]
    assert not comparison.changes[0].fields[0].complete


def test_a_payload_within_the_work_has_no_such_notice():
    """With the work that is the default the place is named and nothing is said of a budget."""
    rows = [{"n": number} for number in range(500)]
    comparison = compare(fetched(rows, 1), fetched([*rows[:-1], {"n": -1}], 2))
    assert "value_budget" not in [notice.code for notice in comparison.notices]
    assert comparison.changes[0].fields[0].differences[0].path == "[499].n"

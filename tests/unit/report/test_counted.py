"""Counts for people: one thing is in the singular."""

from __future__ import annotations

import pytest

from otel_agent_replay.report.amounts import counted


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [
        (0, "run", "0 runs"),
        (1, "run", "1 run"),
        (2, "loss", "2 losses"),
        (1, "loss", "1 loss"),
        (1234, "step", "1,234 steps"),
    ],
)
def test_what_is_counted_is_in_the_singular_or_not(number, noun, told):
    """None and several are in the plural, thousands are separated."""
    assert counted(number, noun) == told

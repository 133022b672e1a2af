"""A rate, a budget and a number of questions hold."""

from __future__ import annotations

import pytest

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.replay.ask.pace import Budget, Pace, parse_rate


class Clock:
    def __init__(self):
        self.moment = 100.0

    def now(self):
        return self.moment

    def wait(self, seconds):
        self.moment += seconds


def test_no_two_questions_come_within_an_interval():
    """A hundred questions at 30 a minute take 198 seconds at least, however they are asked."""
    clock = Clock()
    pace = Pace(parse_rate("30/min"), now=clock.now, wait=clock.wait)
    moments = []
    for number in range(100):
        clock.moment += number % 3
        pace.take()
        moments.append(clock.moment)
    gaps = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]
    assert min(gaps) >= 2 - 1e-9
    assert pace.ready_in() == pytest.approx(2)


def test_without_a_rate_nobody_waits():
    """No rate, no waiting."""
    pace = Pace(None, wait=lambda _: pytest.fail("it waited"))
    pace.take()
    assert pace.ready_in() == 0


@pytest.mark.parametrize(("text", "rate"), [("60/min", 1), ("2/s", 2), ("3600/h", 1), ("30", 0.5), ("0.5/s", 0.5)])
def test_rates_are_read(text, rate):
    """N/s, N/min, N/h; a number alone is a minute's."""
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize("text", ["", "fast", "1/day", "0/min", "-1/s", "inf/s", "nan/s"])
def test_what_is_no_rate_is_a_usage_error(text):
    """A rate that is none is refused with the form of one."""
    with pytest.raises(ConfigurationError, match="60/min"):
        parse_rate(text)


def test_what_is_under_way_counts_as_spent():
    """A question is let through only while everything under way could cost its most and still fit."""
    budget = Budget(usd=1.0)
    for _ in range(2):
        assert not budget.why_not(0.4)
        budget.take(0.4)
    assert "--budget 1 is reached" in budget.why_not(0.4)
    budget.settle(0.4, 0.1)
    assert not budget.why_not(0.4)
    budget.settle(0.4, None)
    assert budget.spent_usd == pytest.approx(0.5)
    assert "no price" in budget.why_not(None)


def test_what_was_not_answered_is_not_counted():
    """A number of questions holds, and one that failed unpaid is given back."""
    budget = Budget(calls=1)
    budget.take(None)
    assert "--max-calls 1" in budget.why_not(None)
    budget.give_back(None)
    assert not budget.why_not(None)

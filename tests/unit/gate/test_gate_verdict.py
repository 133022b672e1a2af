"""The verdict of a gate: what passes, what does not, and what may not be called either."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.gate import check
from otel_agent_replay.gate.rates import Rate
from otel_agent_replay.gate.verdict import (
    CaseVerdict,
    GateVerdict,
    Means,
    Reason,
    Role,
    Standing,
    Trial,
    reason_of,
)
from tests.support.case_runs import bad_run, case_of, good_run

PASS = Trial(Means.RERUN, Reason.HELD)
FAIL = Trial(Means.RERUN, Reason.BROKEN, "must_call check_policy")
UNKNOWN = Trial(Means.RERUN, Reason.STOPPED)


def row(reason=Reason.HELD, trials=(PASS,), **more) -> CaseVerdict:
    return CaseVerdict("refund", Path("cases/refund"), Role.BAD, reason, trials=trials, **more)


def test_an_empty_gate_fails():
    """No case is no proof: the gate fails, and says that there is none."""
    verdict = GateVerdict([])
    assert (verdict.exit_code, verdict.standing) == (1, Standing.FAILED)
    assert verdict.sentence == "May not ship: there is no case."


@pytest.mark.parametrize(
    ("reasons", "code"),
    [
        ([Reason.HELD], 0),
        ([Reason.HELD, Reason.HELD], 0),
        ([Reason.HELD, Reason.DEPARTED], 125),
        ([Reason.HELD, Reason.DEPARTED, Reason.BROKEN], 1),
        ([Reason.FLAKY], 125),
        ([Reason.TAMPERED, Reason.HELD], 1),
    ],
)
def test_all_must_pass_and_a_failure_outweighs_a_doubt(reasons, code):
    """0 only when every case passed; 1 as soon as one failed; 125 when none failed and one could not be decided."""
    assert GateVerdict([row(one) for one in reasons]).exit_code == code


def test_only_held_is_a_pass():
    """Of all reasons there is one that passes."""
    assert [one for one in Reason if row(one).standing is Standing.PASSED] == [Reason.HELD]


@pytest.mark.parametrize(
    ("passed", "failed", "wanted"),
    [
        (20, 0, Reason.HELD),
        (19, 1, Reason.HELD),  # 0.95 is reached
        (18, 2, Reason.FLAKY),  # 0.90, and the true rate may be 0.97
        (10, 10, Reason.TOO_RARELY),  # the true rate is below 0.70
        (1, 2, Reason.TOO_RARELY),
        (0, 3, Reason.BROKEN),  # it always fails: no flake
    ],
)
def test_flakiness_is_a_rate(passed, failed, wanted):
    """Of several trials the share decides; where few trials leave it open, that is said instead of a failure."""
    reason, detail = reason_of([PASS] * passed + [FAIL] * failed, 0.95)
    assert reason is wanted
    if failed and passed:
        assert f"{passed} of {passed + failed} passed" in detail


def test_one_pass_among_failures_is_no_pass():
    """Luck does not ship: whatever the order of the trials, one pass of three is none."""
    for trials in ([PASS, FAIL, FAIL], [FAIL, FAIL, PASS]):
        assert reason_of(trials, 0.95)[0] is not Reason.HELD


def test_undecided_trials_are_not_passes():
    """Where trials could not be decided, the case is not decided, and the detail counts them."""
    reason, detail = reason_of([PASS, UNKNOWN, UNKNOWN], 0.95)
    assert reason is Reason.STOPPED
    assert "1 of 3 passed" in detail and "2 times the live run did not end" in detail


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_interval_holds_the_rate_and_narrows(passed, failed):
    """Wilson's interval lies in 0 to 1, contains the rate, and is narrower for ten times the trials."""
    rate = Rate(passed, passed + failed)
    low, high = rate.interval
    assert 0 <= low <= high <= 1
    if rate.tried:
        assert low - 1e-12 <= rate.value <= high + 1e-12
        wide = Rate(10 * passed, 10 * rate.tried).interval
        assert wide[1] - wide[0] <= high - low + 1e-12


def test_the_interval_is_wilsons():
    """Known values: 0 of 10 reaches 27.8 %, 9 of 10 lies between 59.6 % and 98.2 %."""
    assert Rate(0, 10).interval == (0.0, pytest.approx(0.2775, abs=1e-4))
    assert Rate(9, 10).interval == (pytest.approx(0.5958, abs=1e-4), pytest.approx(0.9821, abs=1e-4))


def test_what_a_fix_mended_and_what_it_broke_are_told_apart():
    """Invariants broken on record and kept now are mended; those kept on record and broken now are newly broken."""
    case = case_of(must_call=["check_policy"], must_not_call=["send_mail"], budget={"steps": 100})
    was, now = check(case, bad_run()), check(case, good_run())
    fixed = row(trials=[dataclasses.replace(PASS, results=now)], recorded=was)
    assert fixed.mended == ["must_call check_policy", "must_not_call send_mail"]
    assert fixed.newly_broken == []
    worse = row(trials=[dataclasses.replace(FAIL, results=was)], recorded=now)
    assert worse.mended == []
    assert worse.newly_broken == ["must_call check_policy", "must_not_call send_mail"]

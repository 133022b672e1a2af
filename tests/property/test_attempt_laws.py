"""A run that took several attempts is the run that it would have been in one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.model import OutcomeStatus, RunStatus
from tests.support.attempts import bring, bring_and_seal, record, told

disk = settings(
    max_examples=settings.default.max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def deeds(draw):
    """What an agent does: calls and reads, some of them in scopes; every scope is left again."""
    found, depth = [], 0
    for what in draw(st.lists(st.sampled_from(["tool", "tool", "read", "enter", "leave"]), min_size=2, max_size=14)):
        if what == "leave" and not depth:
            continue
        depth += {"enter": 1, "leave": -1}.get(what, 0)
        found.append((what, draw(st.sampled_from("ab"))))
    return [("tool", "first"), *found, *[("leave", "")] * depth, ("tool", "last")]


@st.composite
def resumed(draw):
    """An agent's deeds, where its attempts die, in which order and groups they are sealed."""
    doings = draw(deeds())
    places = sorted(draw(st.lists(st.integers(1, len(doings) - 1), min_size=1, max_size=3, unique=True)))
    cuts = [(place, doings[place - 1][0] == "tool" and draw(st.booleans())) for place in places]
    order = draw(st.permutations(range(len(cuts) + 1)))
    groups = draw(st.lists(st.integers(0, 2), min_size=len(order), max_size=len(order)))
    again = draw(st.integers(0, len(cuts)))
    return doings, cuts, [(number, group) for number, group in zip(order, groups, strict=True)], again


@disk
@given(resumed())
def test_attempts_sealed_in_any_order_load_as_the_run_in_one_go(drawn):
    """Every call, read, scope and result is there once, whenever and together with what each attempt was sealed."""
    doings, cuts, order, again = drawn
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ((single, at_once),) = record(folder / "one", doings, [])
        attempts = record(folder / "many", doings, cuts)
        bring_and_seal([single], folder / "reference")
        lake = folder / "lake"
        for group in range(3):
            bring_and_seal([attempts[number][0] for number, of in order if of == group], lake)
        bring_and_seal([attempts[again][0]], lake)
        expected = Lake(folder / "reference").load(at_once.run_id)
        found = Lake(lake).load(attempts[0][1].run_id)
        assert told(found) == told(expected)
        assert found.run.status is RunStatus.OK
        assert [attempt.number for attempt in found.attempts] == list(range(1, len(attempts) + 1))
        assert found.losses == ()
        assert verify(found) == []
        pending = [item for item in found.superseded if item.node.outcome.status is OutcomeStatus.PENDING]
        assert len(pending) == len(found.superseded)
        sequences = [item.node.sequence for item in found.spans]
        assert sequences == sorted(set(sequences))


@disk
@given(resumed(), st.data())
def test_it_reads_the_same_while_parts_of_it_are_not_sealed(drawn, data):
    """What lies in the journal and what lies in the lake are one run, at each moment."""
    doings, cuts, order, _ = drawn
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        attempts = record(folder / "many", doings, cuts)
        whole, lake = folder / "whole", folder / "lake"
        bring_and_seal([path for path, _ in attempts], whole)
        sealed = data.draw(st.sets(st.sampled_from(range(len(attempts)))))
        bring_and_seal([attempts[number][0] for number, _ in order if number in sealed], lake)
        for number, (path, _) in enumerate(attempts):
            if number not in sealed:
                bring(path, lake)
        run_id = attempts[0][1].run_id
        found, expected = load_run(lake, run_id.hex()), Lake(whole).load(run_id)
        assert told(found) == told(expected)
        assert found.run == expected.run
        assert found.attempts == expected.attempts
        assert len(found.superseded) == len(expected.superseded)

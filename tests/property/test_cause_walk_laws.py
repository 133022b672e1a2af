"""Laws of the way back: whatever an agent passes on, what differs leads to the answer that first differed."""

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.compare import compare, explain
from otel_agent_replay.compare.walk import HopBasis, WalkEnd
from otel_agent_replay.testing.builders import run

NAMES = ("alpha", "bravo", "carol", "delta")


@st.composite
def passings(draw):
    """Steps as (tool, which earlier step's answer it is given: None for none), and the step whose answer differs."""
    count = draw(st.integers(2, 12))
    steps = [
        (draw(st.sampled_from(NAMES)), draw(st.none() if place == 0 else st.none() | st.integers(0, place - 1)))
        for place in range(count)
    ]
    return steps, draw(st.integers(0, count - 1)), draw(st.sampled_from(["value", "json", "inside"]))


def recorded(seed, steps, changed, how, *, differs):
    """A run of these steps; an answer is made of its number and of what was given, so that it is passed on."""
    builder, answers = run(seed=seed), []
    for place, (name, source) in enumerate(steps):
        given_value = f"fresh-{place:04}" if source is None else answers[source]
        words = {"value": given_value, "json": f'{{"given": "{given_value}"}}', "inside": [{"deep": [given_value]}]}
        answer = f"{given_value}.{place:02}" + ("-other" if differs and place == changed else "")
        builder.tool(name, {"n": place, "given": words[how]}, {"answer": answer, "noise": [place] * 3})
        answers.append(answer)
    return builder.build()


def derived(steps, changed):
    """The steps that the changed answer reaches."""
    reached = {changed}
    for place, (_, source) in enumerate(steps):
        if source in reached:
            reached.add(place)
    return reached


@given(passings())
def test_what_was_passed_on_leads_back_to_the_first_answer_that_differed(passing):
    """Every changed step leads to the one equal request that was answered differently, over as many hops as it took."""
    steps, changed, how = passing
    a, b = (recorded(seed, steps, changed, how, differs=seed == 2) for seed in (1, 2))
    comparison = compare(a, b)
    walks = explain(a, b, comparison)
    assert {comparison.changes[number].a.step - 1 for number in walks} == derived(steps, changed)
    for number, walk in walks.items():
        assert walk.end is WalkEnd.ANSWER
        assert walk.at.step == changed + 1
        place = comparison.changes[number].a.step - 1
        expected = []
        while place != changed:
            expected.append(place + 1)
            place = steps[place][1]
        assert [hop.asker.step for hop in walk.hops] == expected
        assert all(hop.basis is HopBasis.DIGEST for hop in walk.hops)
        assert all(hop.source.step < hop.asker.step for hop in walk.hops)


@given(passings())
def test_the_other_way_round_it_is_the_same_way(passing):
    """Seen from A the walks have the same steps."""
    steps, changed, how = passing
    a, b = (recorded(seed, steps, changed, how, differs=seed == 2) for seed in (1, 2))
    forth, back = explain(a, b, compare(a, b)), explain(b, a, compare(b, a))
    titles = lambda walks: [(walk.end, walk.at.step, [hop.source.step for hop in walk.hops]) for walk in walks.values()]
    assert titles(forth) == titles(back)


@given(passings())
def test_a_run_and_itself_have_no_way(passing):
    """Nothing differs, nothing is explained."""
    steps, changed, how = passing
    a = recorded(1, steps, changed, how, differs=True)
    assert explain(a, a, compare(a, a)) == {}

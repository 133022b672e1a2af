"""A difference is followed back to its source: by digests of parts, over any number of steps, and never guessed."""

import json

import pytest

from otel_agent_replay.compare import Cause, compare
from otel_agent_replay.compare.explanation import explain
from otel_agent_replay.compare.walk import HopBasis, WalkEnd
from otel_agent_replay.model import Kind
from otel_agent_replay.testing.builders import run
from otel_agent_replay.testing.recorded_bodies import chat_answer, chat_request


def departed(asked_a, asked_b, **kept):
    """Two runs with an equal search; then a refund that is asked for otherwise."""

    def build(asked, seed):
        builder = run(seed=seed).tool("search", {"q": "orders"}, ["order alpha", "order bravo"])
        return builder.tool("refund", {"order": asked}, "ok").build(**kept)

    return compare(build(asked_a, 1), build(asked_b, 2)).departure


def agent(seed, order, *, hops):
    """A run whose search finds `order`; each of `hops` tools takes its argument from the answer before, as text."""
    messages = [{"role": "user", "content": "refund my order"}]
    builder = run("planner", seed=seed, input={"q": "refund"})

    def turn(name, arguments, answer):
        nonlocal messages
        builder.model(chat_request(messages), chat_answer(tool_calls=[(f"c{seed}", name, arguments)]))
        builder.tool(name, arguments, answer)
        called = {"id": f"c{seed}", "type": "function"}
        called["function"] = {"name": name, "arguments": json.dumps(arguments, indent=1)}
        messages = [
            *messages,
            {"role": "assistant", "tool_calls": [called]},
            {"role": "tool", "tool_call_id": f"c{seed}", "content": json.dumps(answer)},
        ]

    turn("search", {"q": "orders"}, {"orders": [{"id": order, "state": "late"}]})
    for number in range(hops):
        turn(f"look{number}", {"id": order}, {"next": (order := f"{order}/{number}")})
    builder.model(chat_request(messages), chat_answer(f"done with {order}"))
    return builder.build(output=f"done with {order}")


@pytest.mark.parametrize("hops", [0, 1, 5, 40])
def test_the_final_answer_is_followed_back_over_any_number_of_steps(hops):
    """The way from the final answer leads step by step to the search that answered an equal request differently."""
    a, b = agent(1, "alpha-77", hops=hops), agent(2, "bravo-88", hops=hops)
    comparison = compare(a, b)
    walks = explain(a, b, comparison)
    last = walks[len(comparison.changes) - 1]
    assert last.start.kind == "run"
    assert last.end is WalkEnd.ANSWER
    assert last.at.title == "step 2 · tool search"
    assert last.at.path == comparison.departure.at.path
    assert len(last.hops) == 2 + 2 * hops
    assert all(hop.basis is HopBasis.DIGEST and hop.part for hop in last.hops)
    assert [hop.asker for hop in last.hops[1:]] == [hop.source for hop in last.hops[:-1]]


def test_two_sources_are_told_apart():
    """A difference that an independent answer brought ends there, not at the departure before it."""

    def build(seed, name, price):
        builder = run(seed=seed).tool("search", {"q": 1}, {"name": name}).tool("price", {"q": 2}, {"price": price})
        return builder.tool("mail", {"to": name}, "ok").tool("charge", {"sum": price}, "ok").build()

    a, b = build(1, "alpha", "10.00 EUR"), build(2, "bravo", "20.00 EUR")
    ends = {walk.start.name: walk.at.name for walk in explain(a, b, compare(a, b)).values()}
    assert ends == {"search": "search", "price": "price", "mail": "search", "charge": "price"}


def test_an_answer_that_both_runs_had_is_named_as_that():
    """The other order that is refunded stood in the search's equal answer: the choice among it differs."""
    found = departed("order alpha", "order bravo")
    assert found.cause is Cause.REQUEST
    assert any("step 1 · tool search, which both runs had" in line for line in found.evidence)


def test_words_lead_to_an_equal_answer_where_no_part_does():
    """A piece of an answer's text is found by its words when no digest fits."""
    assert any("step 1 · tool search, which both runs had" in line for line in departed("alpha", "bravo").evidence)


def test_new_words_of_no_answer_came_from_outside():
    """An order that no earlier answer names came from outside the recorded steps."""
    assert any("('zulu') is in no earlier answer" in line for line in departed("alpha", "zulu").evidence)


def test_nothing_is_claimed_where_an_answer_was_not_kept():
    """Without the bytes of an earlier answer nobody can say that what is new was not in it."""
    told = departed("alpha", "zulu", keep_payloads=False).evidence
    assert "was not kept" in told[-1]
    assert not any("outside" in line for line in told)


def test_a_recorded_read_is_a_source():
    """An identifier that a run drew and then sent is named as the draw."""

    def build(seed, drawn):
        return run(seed=seed).read(Kind.UUID, "uuid.uuid4", drawn).tool("pay", {"key": drawn}, "ok").build()

    found = compare(build(1, "6f1c-aaaa-0001"), build(2, "6f1c-bbbb-0002")).departure
    assert any("what uuid.uuid4 gave in B" in line for line in found.evidence)


def test_a_text_inside_of_a_prompt_is_found():
    """A retrieved text that a prompt template wraps is found inside of the prompt."""

    def build(seed, text):
        builder = run(seed=seed).retrieval("docs", "refunds", [{"text": text}])
        return builder.model(f"Answer from: {text}\nBe short.").build()

    a, b = build(1, "Refunds take five days."), build(2, "Refunds take fifteen days.")
    (model,) = [walk for walk in explain(a, b, compare(a, b)).values() if walk.start.kind == "model"]
    assert [hop.basis for hop in model.hops] == [HopBasis.TEXT]
    assert model.at.title == "step 1 · retrieval docs"


def test_an_id_inside_of_a_text_is_found_as_a_word_of_its_own():
    """A short id of an answer is found in the text that names it, and not inside of a longer one."""

    def build(seed, number, *, said):
        return run(seed=seed).tool("book", {}, {"number": number}).build(f"Booked as {said}.")

    def basis(said_a, said_b):
        a, b = build(1, "RF-17", said=said_a), build(2, "RF-29", said=said_b)
        hops = [hop for walk in explain(a, b, compare(a, b)).values() for hop in walk.hops]
        return [hop.basis for hop in hops]

    assert basis("RF-17", "RF-29") == [HopBasis.TEXT]
    assert HopBasis.TEXT not in basis("XRF-170", "XRF-290")


def test_an_answer_that_no_step_gave_is_the_codes_or_from_outside():
    """A final answer whose new words no step answered is laid to no step."""
    a, b = (run(seed=seed).tool("look", {}, 1).build(said) for seed, said in ((1, "sunny"), (2, "cloudy")))
    (walk,) = explain(a, b, compare(a, b)).values()
    assert walk.end is WalkEnd.OUTSIDE
    assert "the agent's own code made it, or it came from outside" in walk.sentences[-1]


def test_a_run_that_failed_is_led_back_to_the_step_that_failed():
    """A run's failure is what a tool failed with."""

    def build(seed, error):
        builder = run(seed=seed).tool("charge", {"sum": 5}, **({"error": error} if error else {"result": "paid"}))
        return builder.build(None if error else "ok", error=error)

    a, b = build(1, None), build(2, TimeoutError("the bank did not answer"))
    walk = list(explain(a, b, compare(a, b)).values())[-1]
    assert (walk.start.kind, walk.at.name, walk.end) == ("run", "charge", WalkEnd.ANSWER)


def test_an_added_step_is_led_back_to_the_answer_that_asked_for_it():
    """A tool call that only B makes comes from the model's answer that asks for it, and that from the search."""

    def build(seed, found, tool):
        builder = run(seed=seed).tool("search", {"q": 1}, {"state": found})
        builder.model(f"state: {found}", chat_answer(tool_calls=[("c", tool, {"id": "o-1234"})]))
        return builder.tool(tool, {"id": "o-1234", "why": tool}, "ok").tool("log", {}, "ok").build()

    a, b = build(1, "sent out", "wait"), build(2, "went lost", "refund")
    walk = next(walk for walk in explain(a, b, compare(a, b)).values() if walk.start.name == "refund")
    assert [hop.source.kind for hop in walk.hops] == ["model", "tool"]
    assert walk.at.name == "search"


def test_an_inner_answer_is_the_source_of_the_tool_around_it():
    """Where a tool's answer differs by an HTTP answer inside of it, the walk ends at that."""

    def build(seed, total):
        inside = lambda tool: tool.http("GET", "https://shop.example/total", {"total": total})
        return run(seed=seed).tool("total", {}, {"total": total}, inside=inside).tool("charge", {"sum": total}).build()

    a, b = build(1, "10.00 EUR"), build(2, "20.00 EUR")
    assert {walk.at.kind for walk in explain(a, b, compare(a, b)).values()} == {"http"}


def test_the_mirrored_comparison_walks_the_same_steps():
    """Seen from the other side the way has the same steps."""
    a, b = agent(1, "alpha-77", hops=2), agent(2, "bravo-88", hops=2)
    forth, back = explain(a, b, compare(a, b)), explain(b, a, compare(b, a))
    titles = lambda walks: [[hop.source.title for hop in walk.hops] for walk in walks.values()]
    assert titles(forth) == titles(back)


def test_what_only_a_asked_is_walked_in_a():
    """A removed step is explained by what A's steps before it answered."""

    def build(seed, tool):
        builder = run(seed=seed).model("go on", chat_answer(tool_calls=[("c", tool, {"id": "o-1234"})] if tool else ()))
        return (builder.tool(tool, {"id": "o-1234"}, "ok") if tool else builder).build()

    a, b = build(1, "refund"), build(2, "")
    walk = next(walk for walk in explain(a, b, compare(a, b)).values() if walk.start.name == "refund")
    assert (walk.side, walk.at.kind) == ("A", "model")


def test_below_the_floor_no_cause_is_named_even_of_an_equal_request():
    """Where hardly anything can be paired the sentence says so, and what was seen first is no verdict on the cause."""
    a, b = run(seed=1).tool("s", {"q": 1}, "r1"), run(seed=2).tool("s", {"q": 1}, "r2")
    for number in range(20):
        a.tool(f"a{chr(97 + number)}", {"n": number}, number)
        b.retrieval(f"b{chr(97 + number)}", {"m": number}, number)
    comparison = compare(a.build(), b.build())
    assert comparison.departure.cause is Cause.UNKNOWN
    assert comparison.sentence.startswith("The runs are too different to name a cause.")
    assert "follow" not in comparison.sentence

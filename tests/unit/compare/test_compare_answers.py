"""What `compare` says of two runs: departure, cause, questions, consequences."""

import pytest

from otel_agent_replay.compare import (
    Added,
    Asked,
    Basis,
    Cause,
    Changed,
    Field,
    Mark,
    Moved,
    Removed,
    Reply,
    Verdict,
    compare,
)
from otel_agent_replay.model import (
    AnswerSource,
    Kind,
    Loss,
    LossReason,
    RunStatus,
    Versions,
)
from otel_agent_replay.testing.builders import run
from otel_agent_replay.testing.recorded_bodies import chat_answer, chat_request, chat_stream


def question(comparison, asked):
    return next(item for item in comparison.questions if item.asked is asked)


def conversation(*texts, system="be brief", tool_result=None):
    messages = [{"role": "system", "content": system}]
    messages += [
        {"role": "user" if number % 2 == 0 else "assistant", "content": text} for number, text in enumerate(texts)
    ]
    if tool_result is not None:
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": tool_result})
    return chat_request(messages)


def weather_agent(seed=1, temperature=21, final="It is 21 degrees", city="Paris", **versions):
    builder = run("weather", input={"city": city}, seed=seed, versions=Versions(**versions), started_ns=10**18 * seed)
    builder.retrieval("docs", "weather policy", ["be careful"])
    builder.model(conversation("weather?"), chat_answer(tool_calls=[(f"call_{seed}", "forecast", {"city": city})]))
    builder.tool("forecast", {"city": city}, {"temperature": temperature})
    builder.model(conversation("weather?", tool_result=f"temperature: {temperature}"), final)
    return builder.build(output=final)


def test_the_same_agent_recorded_twice_is_identical_in_one_line():
    """Other ids and another day are no difference, and one line says so."""
    comparison = compare(weather_agent(1), weather_agent(2))
    assert comparison.verdict is Verdict.IDENTICAL
    assert comparison.changes == []
    assert comparison.departure is None
    assert comparison.sentence.startswith("The runs are identical")
    assert "\n" not in comparison.sentence
    assert comparison.volatile == {"ids of tool calls and messages": 1}


def test_ids_in_the_names_of_steps_part_no_runs():
    """A step that is named after an id which each run draws anew, of whatever form, is the same step."""
    ids = (
        ("550e8400-e29b-41d4-a716-446655440000", "0f1e2d3c4b5a6978", "1700000001"),
        ("67e55044-10b1-426f-9247-bb680e5fe0c8", "a0b1c2d3e4f56789", "1800000002"),
    )

    def agent(names):
        builder = run("desk")
        for name in names:
            builder.tool(f"job {name}", {"ask": "state"}, "done")
        return builder.build()

    comparison = compare(agent(ids[0]), agent(ids[1]))
    assert comparison.verdict is Verdict.IDENTICAL, comparison.sentence
    assert comparison.changes == []


def test_a_changed_tool_result_is_named_first():
    """With one tool result changed the departure is exactly that node, and what follows carries it."""
    comparison = compare(weather_agent(1), weather_agent(2, temperature=30, final="It is 30 degrees"))
    departure = comparison.departure
    assert departure.at.title == "step 3 · tool forecast"
    assert departure.cause is Cause.ANSWER
    assert [(item.path, item.before, item.after) for item in departure.change.fields[0].differences] == [
        ("temperature", 21, 30)
    ]
    assert [consequence.basis for consequence in departure.consequences] == [Basis.CARRIES, Basis.ENCLOSES]
    assert departure.consequences[0].change.a.kind == "model"
    assert question(comparison, Asked.TOOL_RESULTS).reply is Reply.YES
    assert question(comparison, Asked.TOOL_ARGUMENTS).reply is Reply.NO
    assert question(comparison, Asked.FINAL_ANSWER).reply is Reply.YES
    assert question(comparison, Asked.RETRIEVED).reply is Reply.NO
    assert question(comparison, Asked.APPROVALS).reply is Reply.NOTHING


def test_a_changed_prompt_is_a_changed_instruction_with_its_path():
    """A system message that differs names the message, and repeats of it later are the same difference."""
    a = run(seed=1).model(conversation("a")).model(conversation("b")).build("x")
    b = run(seed=2).model(chat_request([{"role": "system", "content": "be long"}, {"role": "user", "content": "a"}]))
    b = b.model(chat_request([{"role": "system", "content": "be long"}, {"role": "user", "content": "b"}])).build("x")
    departure = compare(a, b).departure
    assert departure.cause is Cause.INSTRUCTIONS
    assert departure.change.fields[0].differences[0].path == "messages[0].content"
    assert [item.basis for item in departure.consequences] == [Basis.SAME_DIFFERENCE]


def test_a_model_that_answers_differently_is_the_cause():
    """An equal request with another answer is the model's doing."""
    comparison = compare(run(seed=1).model("q", "yes").build(), run(seed=2).model("q", "no").build())
    assert comparison.departure.cause is Cause.MODEL_ANSWER
    assert "same request" in comparison.sentence
    assert question(comparison, Asked.MODEL_ANSWERS).reply is Reply.YES
    assert question(comparison, Asked.FINISH_REASONS).reply is Reply.NO


def test_another_model_is_named_though_its_span_is_called_otherwise():
    """A model call stays the same logical node when the model in its name changes."""
    one = chat_request([{"role": "user", "content": "q"}], model="gpt-4o-mini")
    other = chat_request([{"role": "user", "content": "q"}], model="gpt-4.1")
    a = run(seed=1).model(one, "yes", name="chat gpt-4o-mini").build()
    b = run(seed=2).model(other, "yes", name="chat gpt-4.1").build()
    departure = compare(a, b).departure
    assert departure.cause is Cause.MODEL_OR_PARAMETERS
    assert {item.field for item in departure.change.fields} == {Field.MODEL}


def test_offered_tools_and_parameters_are_told_apart():
    """Each part of a request is its own field."""
    one = chat_request([{"role": "user", "content": "q"}], temperature=0, tools=[{"name": "a"}])
    other = chat_request([{"role": "user", "content": "q"}], temperature=1, tools=[{"name": "b"}])
    change = compare(run(seed=1).model(one).build(), run(seed=2).model(other).build()).changes[0]
    assert {item.field for item in change.fields} == {Field.PARAMETERS, Field.TOOLS}


def test_chunking_ids_and_spelling_are_volatile():
    """A stream cut otherwise, under another response id, is the same action; it is counted, not reported."""
    a = run(seed=1).model("q", chat_stream(["hel", "lo"], response_id="a")).build()
    b = run(seed=2).model("q", chat_stream(["hello"], response_id="b")).build()
    comparison = compare(a, b)
    assert comparison.verdict is Verdict.IDENTICAL
    assert comparison.volatile == {"response id": 1}


def test_new_tool_call_ids_do_not_change_later_requests():
    """Ids that the provider draws anew are followed through the conversation, not compared."""

    def agent(seed, id_):
        call = {"id": id_, "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
        echoed = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": id_, "content": "1"}]
        return (
            run(seed=seed)
            .model("q", chat_answer(tool_calls=[(id_, "f", {"a": 1})]))
            .model(chat_request(echoed))
            .build()
        )

    assert compare(agent(1, "call_x"), agent(2, "call_y")).verdict is Verdict.IDENTICAL


def test_an_id_among_a_tools_arguments_is_content():
    """`id` inside arguments is what the model asked for."""

    def agent(seed, id_):
        return run(seed=seed).model("q", chat_answer(tool_calls=[("c", "delete", {"id": id_})])).build()

    assert compare(agent(1, "a"), agent(2, "b")).departure.cause is Cause.MODEL_ANSWER


def test_an_inserted_step_leaves_later_siblings_paired():
    """One more call is one Added, whatever shifts behind it."""
    a = run(seed=1).tool("s", {"q": 1}, 1).tool("s", {"q": 2}, 2).tool("s", {"q": 3}, 3).build()
    b = run(seed=2).tool("s", {"q": 1}, 1).tool("s", {"q": 9}, 9).tool("s", {"q": 2}, 2).tool("s", {"q": 3}, 3).build()
    comparison = compare(a, b)
    assert [type(change) for change in comparison.changes] == [Added]
    assert comparison.changes[0].b.step == 2
    assert comparison.departure.cause is Cause.UNKNOWN
    assert comparison.verdict is Verdict.DIFFERENT
    assert question(comparison, Asked.TOOL_ARGUMENTS).detail == "1 only in B"


def test_a_replaced_step_names_both_sides():
    """Where one run does something else instead, the sentence names both."""
    a = run(seed=1).tool("search", {"q": 1}, 1).build()
    b = run(seed=2).tool("lookup", {"id": 7}, 2).build()
    comparison = compare(a, b)
    assert {type(change) for change in comparison.changes} == {Added, Removed}
    assert "lookup" in comparison.sentence
    assert "search" in comparison.sentence


def test_a_renamed_tool_with_equal_arguments_is_one_changed_step():
    """The only two left over, of one kind and with one request, are one step with another name."""
    a = run(seed=1).tool("search", {"q": 1}, 1).build()
    b = run(seed=2).tool("search_v2", {"q": 1}, 1).build()
    (change,) = compare(a, b).changes
    assert isinstance(change, Changed)
    assert change.fields[0].field is Field.NAME


def test_an_inner_difference_comes_before_the_step_that_contains_it():
    """The exchange inside a tool is named, not the innocent tool around it."""

    def agent(seed, rate):
        inside = lambda tool: tool.http("GET", "https://rates.example/usd", {"rate": rate})
        return run(seed=seed).tool("convert", {"amount": 2}, rate * 2, inside=inside).build(rate * 2)

    departure = compare(agent(1, 1.5), agent(2, 2.5)).departure
    assert departure.at.kind == "http"
    assert [item.basis for item in departure.consequences] == [Basis.ENCLOSES, Basis.ENCLOSES]


def test_concurrent_steps_in_another_order_are_only_reordered():
    """Tools that overlap may begin in any order."""
    a = run(seed=1).together(lambda s: s.tool("x", {}, 1).tool("y", {}, 2)).build()
    b = run(seed=2).together(lambda s: s.tool("y", {}, 2).tool("x", {}, 1)).build()
    comparison = compare(a, b)
    assert comparison.verdict is Verdict.REORDERED
    assert len(comparison.reordered) == 1
    assert comparison.changes == []


def test_sequential_steps_in_another_order_are_a_change():
    """Doing y before x, one after the other, is doing something else."""
    a = run(seed=1).tool("x", {}, 1).tool("y", {}, 2).build()
    b = run(seed=2).tool("y", {}, 2).tool("x", {}, 1).build()
    comparison = compare(a, b)
    assert [type(change) for change in comparison.changes] == [Moved]
    assert comparison.verdict is Verdict.DIFFERENT


def test_a_level_put_in_between_keeps_its_steps_paired():
    """Steps wrapped in a scope are the same steps below one added level."""
    a = run(seed=1).tool("x", {"q": 1}, 1).tool("y", {"q": 2}, 2).build()
    b = run(seed=2).step("plan", lambda s: s.tool("x", {"q": 1}, 1).tool("y", {"q": 2}, 2)).build()
    comparison = compare(a, b)
    assert [type(change) for change in comparison.changes] == [Added]
    assert comparison.changes[0].wraps
    assert len(comparison.alignment.pairs) == 3
    assert [row.mark for row in comparison.rows] == [Mark.SAME, Mark.ADDED, Mark.SAME, Mark.SAME]


def test_a_digest_only_run_is_compared_by_digest_and_says_so():
    """Without payloads a difference is known, its place is not."""
    a = run(seed=1).tool("x", {"q": 1}, {"secret": 1}).build(keep_payloads=False)
    b = run(seed=2).tool("x", {"q": 1}, {"secret": 2}).build(keep_payloads=False)
    comparison = compare(a, b)
    (change,) = comparison.changes
    assert change.fields[0].by_digest
    assert any(notice.code == "digest_only" for notice in comparison.notices)
    assert compare(a, a).verdict is Verdict.IDENTICAL


def test_a_run_whose_process_died_is_not_said_to_differ():
    """What comes after the end of a cut recording is not observed."""
    a = run(seed=1).tool("x", {}, 1).build(status=RunStatus.PENDING)
    b = run(seed=2).tool("x", {}, 1).tool("y", {}, 2).build()
    comparison = compare(a, b)
    assert comparison.verdict is Verdict.NOT_COMPARABLE
    assert comparison.departure.cause is Cause.ENDING_NOT_OBSERVED
    assert comparison.notices[0].code == "pending"


def test_an_unfinished_step_is_not_said_to_differ():
    """A step that never ended has no result to compare."""
    a = run(seed=1).tool("x", {}, pending=True).build(status=RunStatus.PENDING)
    b = run(seed=2).tool("x", {}, 1).build()
    assert compare(a, b).departure.cause is Cause.ENDING_NOT_OBSERVED


def test_losses_make_a_missing_step_incomplete_rather_than_removed():
    """A step missing from a run that lost records may have happened."""
    a = run(seed=1).tool("x", {}, 1).tool("y", {}, 2).build()
    b = run(seed=2).loss(Loss(LossReason.DROPPED, "records", 3)).tool("x", {}, 1).build()
    comparison = compare(a, b)
    assert comparison.departure.cause is Cause.INCOMPLETE
    assert comparison.verdict is Verdict.NOT_COMPARABLE
    assert comparison.notices[0].run == "B"
    assert "3 records" in comparison.notices[0].text


def test_a_failure_where_the_other_succeeded_is_an_error():
    """Equal request, one raised."""
    a = run(seed=1).tool("x", {}, 1).build()
    b = run(seed=2).tool("x", {}, error=TimeoutError("slow")).build()
    departure = compare(a, b).departure
    assert departure.cause is Cause.ERROR
    assert {item.field for item in departure.change.fields} >= {Field.STATUS, Field.FAILURE}


def test_another_code_version_explains_a_step_that_nothing_else_explains():
    """When all before is equal and the revision is not, the code is the cause."""
    a = run(seed=1, versions=Versions(code="abc")).tool("x", {}, 1).build()
    b = run(seed=2, versions=Versions(code="def")).tool("x", {}, 1).tool("y", {}, 2).build()
    comparison = compare(a, b)
    assert comparison.departure.cause is Cause.CODE
    assert question(comparison, Asked.VERSIONS).reply is Reply.YES
    assert "code: abc -> def" in question(comparison, Asked.VERSIONS).detail


def test_a_version_unknown_on_one_side_cannot_be_known():
    """Unknown is neither same nor different."""
    a = run(seed=1, versions=Versions(code="abc")).build()
    assert question(compare(a, run(seed=2).build()), Asked.VERSIONS).reply is Reply.UNKNOWN


def test_what_a_stopped_replay_did_not_load_is_no_change():
    """A version that a run never learnt is told by name, with why, and not counted: not known is not changed."""
    known = Versions(code="abc", model_route="m", packages={"httpx": "1.0", "openai": "3.1"})
    a = run(seed=1, versions=known).tool("x", {}, 1).tool("y", {}, 2).build()
    b = run(seed=2, versions=Versions(code="abc", packages={"httpx": "1.0"})).tool("x", {}, 1)
    asked = question(compare(a, b.build(mode="exact", status=RunStatus.DEPARTED)), Asked.VERSIONS)
    assert (asked.reply, asked.differing) == (Reply.UNKNOWN, 0)
    assert (
        asked.detail == "not known in B, a replay that stopped early: model_route (m in A), package openai (3.1 in A)"
    )


def test_a_version_that_changed_is_told_apart_from_those_that_are_not_known():
    """Only what both runs know and differ in counts as changed; the rest is said after it, of either side."""
    a = run(seed=1, versions=Versions(code="abc", packages={"openai": "3.1"})).build()
    b = run(seed=2, versions=Versions(code="def", prompt="p2")).build(status=RunStatus.PENDING)
    asked = question(compare(a, b), Asked.VERSIONS)
    assert (asked.reply, asked.differing) == (Reply.YES, 1)
    assert asked.detail == (
        "code: abc -> def; not known in A: prompt (p2 in B); "
        "not known in B, whose recording has no end: package openai (3.1 in A)"
    )


@pytest.mark.parametrize(
    ("status", "reply"),
    [(RunStatus.DEPARTED, Reply.UNKNOWN), (RunStatus.ABORTED, Reply.UNKNOWN), (RunStatus.OK, Reply.YES)],
)
@pytest.mark.parametrize("stopped_is_a", [False, True])
def test_a_stopped_run_that_asked_fewer_models_did_not_change_them(status, reply, stopped_is_a):
    """Models and tools are gathered call by call: a part of the other run's is a change only in a run that ended."""
    whole = run(seed=1, versions=Versions(model_route="m-1,m-2", tool_schema="aa,bb")).tool("x", {}, 1).build()
    part = run(seed=2, versions=Versions(model_route="m-1", tool_schema="bb")).build(status=status)
    sides = (part, whole) if stopped_is_a else (whole, part)
    assert question(compare(*sides), Asked.VERSIONS).reply is reply


def test_another_model_of_a_stopped_run_is_a_change():
    """A model that the other run did not ask is one, wherever the run stopped."""
    a = run(seed=1, versions=Versions(model_route="m-1,m-2")).tool("x", {}, 1).build()
    b = run(seed=2, versions=Versions(model_route="m-3")).build(status=RunStatus.DEPARTED)
    asked = question(compare(a, b), Asked.VERSIONS)
    assert (asked.reply, asked.detail) == (Reply.YES, "model_route: m-1,m-2 -> m-3")


def test_what_ran_below_a_step_answered_from_tape_is_not_called_removed():
    """A replay serves a tool without running it: what lies below was not run, which is no difference."""
    inside = lambda tool: tool.http("GET", "https://x.example/a", {"v": 1})
    a = run(seed=1).tool("x", {}, 1, inside=inside).tool("y", {}, 2).build()
    b = run(seed=2).tool("x", {}, 1, source=AnswerSource.TAPE).tool("y", {}, 2, source=AnswerSource.TAPE)
    comparison = compare(a, b.build(mode="exact"))
    assert comparison.verdict is Verdict.IDENTICAL
    assert [notice.code for notice in comparison.notices] == ["not_run"]
    assert Mark.UNOBSERVED in {row.mark for row in comparison.rows}


def test_what_an_answered_tool_did_not_read_is_no_difference():
    """A tool that was served without running read no variable; one that ran and read another is different."""
    reading = lambda content: lambda tool: tool.read(Kind.ENV, "os.environ[REGION]", content)
    a = run(seed=1).tool("x", {}, 1, inside=reading("eu")).build()
    served = run(seed=2).tool("x", {}, 1, source=AnswerSource.TAPE).build(mode="exact")
    assert compare(a, served).verdict is Verdict.IDENTICAL
    assert compare(served, a).verdict is Verdict.IDENTICAL
    ran = run(seed=2).tool("x", {}, 1, inside=reading("us")).build()
    assert compare(a, ran).verdict is Verdict.DIFFERENT


def test_an_edited_answer_is_the_fork():
    """A fork's own edit is its cause."""
    a = run(seed=1).tool("x", {}, 1).build()
    b = run(seed=2).tool("x", {}, 2, source=AnswerSource.EDITED).build(mode="fork")
    assert compare(a, b).departure.cause is Cause.EDITED


def test_clock_reads_are_volatile_and_named_as_a_possible_source():
    """Another time is no change; where a request then differs, the read is evidence."""

    def agent(seed, now, date):
        return run(seed=seed).read(Kind.CLOCK, "time.time", now).model(f"today is {date}").build()

    same = compare(agent(1, 1.0, "Monday"), agent(2, 2.0, "Monday"))
    assert same.verdict is Verdict.IDENTICAL
    assert same.volatile == {"clock reads": 1}
    departure = compare(agent(1, 1.0, "Monday"), agent(2, 2.0, "Tuesday")).departure
    assert departure.cause is Cause.REQUEST
    assert "1 earlier read of time.time gave other values" in departure.evidence


def test_an_environment_variable_that_changed_is_a_change():
    """What the code read from its environment is an input."""
    a = run(seed=1).read(Kind.ENV, "os.environ[MODE]", "fast").tool("x", {}, 1).build()
    b = run(seed=2).read(Kind.ENV, "os.environ[MODE]", "slow").tool("x", {}, 1).build()
    (change,) = compare(a, b).changes
    assert change.fields[0].field is Field.ENVIRONMENT


def test_independent_differences_are_not_called_consequences():
    """A second tool that answers differently to equal arguments does not follow from the first."""
    a = run(seed=1).tool("x", {}, "red").tool("y", {"n": 1}, "up").build()
    b = run(seed=2).tool("x", {}, "blue").tool("y", {"n": 1}, "down").build()
    comparison = compare(a, b)
    assert [item.basis for item in comparison.departure.consequences] == [Basis.INDEPENDENT]
    assert "1 does not follow" in comparison.sentence


def test_tokens_cost_and_latency_are_given_per_node_and_in_all():
    """A is the base of relative numbers; the totals are sums over model calls."""
    a = run(seed=1).model("q", tokens=(100, 10), cost_usd=0.5, takes_ns=10_000_000).build()
    b = run(seed=2).model("q", tokens=(150, 10), cost_usd=0.75, takes_ns=40_000_000).build()
    comparison = compare(a, b)
    (node,) = comparison.nodes
    assert node.measures.input_tokens.absolute == 50
    assert node.measures.cost_usd.relative == 0.5
    assert node.measures.latency_ns.relative == 3.0
    assert comparison.totals.cost_usd.after == 0.75
    assert len(comparison.timing) == 1
    assert comparison.verdict is Verdict.IDENTICAL


def test_unrelated_runs_get_no_cause():
    """When hardly anything pairs, no cause is named."""
    a = run(seed=1)
    b = run(seed=2)
    for number in range(20):
        a.tool(f"a{chr(97 + number)}", {"n": number}, number)
        b.retrieval(f"b{chr(97 + number)}", {"m": number}, number)
    comparison = compare(a.build(), b.build())
    assert comparison.departure.cause is Cause.UNKNOWN
    assert "too different" in comparison.departure.evidence[0]


def test_loopback_ports_are_no_difference():
    """A test server's port is drawn anew by every run."""
    a = run(seed=1).model("q", url="http://127.0.0.1:4000/v1/chat/completions").build()
    b = run(seed=2).model("q", url="http://127.0.0.1:5000/v1/chat/completions").build()
    comparison = compare(a, b)
    assert comparison.verdict is Verdict.IDENTICAL
    assert comparison.volatile == {"loopback port": 1}


def test_malformed_provider_output_is_compared_as_text():
    """A body that is no JSON is compared all the same."""
    payload = chat_answer("x")
    broken = payload._replace(data=b'{"choices": [', digest=b"\1" * 32)
    comparison = compare(run(seed=1).model("q", payload).build(), run(seed=2).model("q", broken).build())
    assert comparison.verdict is Verdict.DIFFERENT


def test_uncaptured_randomness_is_named_where_nothing_else_explains():
    """A step that nothing recorded explains, in a run whose random draws were not captured, is not called the code's."""  # noqa: E501
    a = run(seed=1).covered("random", "not_captured").tool("x", {}, 1).build()
    b = run(seed=2).tool("x", {}, 1).tool("y", {}, 2).build()
    comparison = compare(a, b)
    assert comparison.departure.cause is Cause.AMBIENT
    assert [(notice.code, notice.run) for notice in comparison.notices] == [("not_covered", "A")]

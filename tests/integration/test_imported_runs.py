"""Runs of other instrumentations beside each other: compared, shown and asked again, as far as they tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_agent_replay.imports.files import read_spans
from otel_agent_replay.imports.landing import land
from otel_agent_replay.lake.views import connect
from otel_agent_replay.testing.provider import ScriptedProvider
from tests.support.asked_runs import FakeModel, document, invoke
from tests.support.foreign_spans import foreign_span

SPANS = Path(__file__).parents[1] / "unit" / "imports" / "spans"


def written(name: str) -> Path:
    return SPANS / f"{name}.otlp.json"


def diff(tmp_path, a: Path, b: Path, *more: str):
    return invoke(tmp_path / "none", "diff", a, b, *more)


def codes(done) -> set[str]:
    return {notice["code"] for notice in document(done)["notices"]}


@pytest.mark.parametrize("other", ["openllmetry", "genai"])
def test_the_same_calls_by_two_instrumentations_are_identical(tmp_path, other):
    """One keeps the provider's JSON, the other messages: the calls are compared in one form, which is said."""
    done = diff(tmp_path, written("openinference"), written(other), "--json")
    assert (done.exit_code, document(done)["verdict"]) == (0, "identical")
    assert codes(done) == {"fidelity_exchange", "fidelity_messages", "forms"}


def test_what_fidelity_leaves_unsaid_is_said_first(tmp_path):
    """Before any claim the report says what of the calls was not recorded."""
    done = diff(tmp_path, written("genai"), written("genai"))
    assert done.exit_code == 0
    assert "A and B: 3 model calls have fidelity `messages`" in done.output
    assert done.output.index("fidelity `messages`") < done.output.index("identical")


def test_calls_without_contents_say_so(tmp_path):
    """With contents left out, models and counts are compared, and the report says that there is no more."""
    document_ = json.loads(written("genai").read_text())
    for group in document_["resourceSpans"]:
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                span["attributes"] = [one for one in span["attributes"] if "messages" not in one["key"]]
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(document_))
    assert "fidelity_text" in codes(diff(tmp_path, bare, bare, "--json"))


def test_another_answer_is_found_in_any_dialect(tmp_path):
    """An answer that differs is found at its step though the two files speak different dialects."""
    changed = tmp_path / "changed.json"
    changed.write_text(written("genai").read_text().replace("It is 7 degrees.", "It is 9 degrees."))
    found = document(diff(tmp_path, written("openinference"), changed, "--json"))
    assert (found["verdict"], found["departure"]["at"]["step"]) == ("different", 2)


def test_a_langfuse_export_is_compared(tmp_path):
    """Files of Langfuse are taken as they are."""
    trace = {"id": "0af7651916cd43dd8448eb211c80319c", "name": "t"}
    ask = {
        "id": "00f067aa0ba902b7",
        "traceId": trace["id"],
        "type": "GENERATION",
        "name": "ask",
        "model": "gpt-4o",
        "startTime": "2025-10-09T08:53:20.123Z",
        "endTime": "2025-10-09T08:53:21.5Z",
        "parentObservationId": None,
        "input": '[{"role": "user", "content": "Hi"}]',
        "output": '{"role": "assistant", "content": "Hello"}',
    }
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps({"trace": trace, "observations": [ask]}))
    other.write_text(one.read_text().replace("Hello", "Goodbye"))
    assert diff(tmp_path, one, one).exit_code == 0
    done = diff(tmp_path, one, other, "--json")
    assert (done.exit_code, document(done)["verdict"]) == (1, "different")


@pytest.fixture
def lake(tmp_path):
    for name in ("openinference", "genai", "both"):
        land(tmp_path / "lake", read_spans(written(name)).spans, source=name)
    return tmp_path / "lake"


def run_of(lake: Path, name: str) -> str:
    trace = read_spans(written(name)).spans[0].trace_id.hex()
    with connect(lake) as connection:
        ((run_id,),) = connection.execute("SELECT run_id FROM runs WHERE trace_id = ?", [trace]).fetchall()
    return run_id


def test_what_two_instrumentations_tell_is_one_run_in_the_lake(lake):
    """Sums over a run with two instrumentations on are those of a run with one."""
    with connect(lake) as connection:
        rows = connection.execute(
            "SELECT model_call_count, input_tokens, output_tokens, round(cost_usd, 9) FROM runs"
        ).fetchall()
        again = connection.execute("SELECT count(*) FROM spans WHERE same_call IS NOT NULL").fetchone()
    assert set(rows) == {(3, 70, 20, 0.000375)}
    assert len(rows) == 3
    assert again == (3,)


def test_an_imported_call_of_enough_fidelity_is_asked_again(lake):
    """A request that is the provider's own JSON is sent as it is, but for the model, and the answers are compared."""
    model = FakeModel({"Weather in Oslo?": ("weather", {"city": "Oslo"})})
    with ScriptedProvider(model) as provider:
        candidate = f"model=new,base_url={provider.url}/v1"
        done = invoke(lake, "ask", run_of(lake, "openinference"), "--step", 1, "--candidate", candidate, "--json")
        (sent,) = provider.seen
    assert done.exit_code == 0, done.output
    assert [message["content"] for message in sent.json["messages"]] == ["Be brief.", "Weather in Oslo?"]
    assert document(done)["candidates"][0]["actions"][0]["match"] == "same"


def test_an_imported_call_of_messages_is_not_asked(lake):
    """A call of which messages alone are there cannot be asked again, and the reason is given."""
    candidate = "model=new,base_url=http://127.0.0.1:9/v1"
    done = invoke(lake, "ask", run_of(lake, "genai"), "--step", 1, "--candidate", candidate)
    assert done.exit_code == 125
    assert "fidelity `messages`" in done.output


def test_a_search_shows_its_query_and_documents(tmp_path):
    """A retriever's span is a row of `retrievals`, its documents with id, text and score."""
    attributes = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": "refund policy",
        "retrieval.documents.0.document.id": "d-1",
        "retrieval.documents.0.document.content": "Refunds take 5 days.",
        "retrieval.documents.0.document.score": 0.9,
        "session.id": "s-1",
    }
    land(tmp_path, [foreign_span(attributes, name="search")], source="here")
    with connect(tmp_path) as connection:
        ((name, query, documents),) = connection.execute("SELECT name, query, documents FROM retrievals").fetchall()
        ((thread, found),) = connection.execute(
            "SELECT thread_id, payload_documents(pack, result_payload) FROM runs, lake_spans WHERE kind = 'retrieval'"
        ).fetchall()
    assert (name, json.loads(query), thread) == ("search", "refund policy", "s-1")
    assert json.loads(documents) == [{"document": {"id": "d-1", "content": "Refunds take 5 days.", "score": 0.9}}]
    assert [(one["id"], one["text"]) for one in found] == [("d-1", "Refunds take 5 days.")]


def test_an_imported_run_is_shown(lake):
    """`show` lists the steps of an imported run with models, tokens and costs."""
    done = invoke(lake, "show", run_of(lake, "both"))
    assert done.exit_code == 0, done.output
    assert done.output.count("model chat gpt-4o") == 3
    assert "20 -> 7 tokens" in done.output

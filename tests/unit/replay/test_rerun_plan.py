"""Plans of re-runs: what a command line says, what travels in the file, and which table comes of it."""

from __future__ import annotations

import pytest

from otel_agent_replay.boundary.policy import CALLED_THROUGH, REGRESSION
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import AnswerSource, Kind, SideEffect
from otel_agent_replay.replay.rerun.candidate_endpoint import CandidateEndpoint
from otel_agent_replay.replay.rerun.plan import Candidate, RerunPlan, Spending, age_ns, edits_of, script_of
from otel_agent_replay.replay.rerun.route import mode_of
from otel_agent_replay.replay.rerun.user_turns import fits
from otel_agent_replay.testing import builders

CHANGES = (SideEffect.WRITE, SideEffect.EXTERNAL)
RUN = (
    builders.run("desk")
    .tool("find", {"id": 1}, 1)
    .tool("pay", {"id": 1}, 1, side_effect=SideEffect.WRITE)
    .tool("mail", {"id": 1}, 1, side_effect=SideEffect.EXTERNAL)
    .build()
)


@pytest.mark.parametrize("live", [(), ("find",), ("unknown", "find")])
@pytest.mark.parametrize("stub", [(), ("*",), ("pay", "other"), ("*", "mail")])
def test_whatever_is_overridden_no_write_is_ever_live(live, stub):
    """No table that can be asked for has a live cell for a write or external call, by kind or by name."""
    mode = mode_of(RerunPlan(live=live, stub=stub), RUN)
    for kind in (Kind.TOOL, Kind.HTTP, Kind.PROCESS, Kind.FILE):
        for effect in CHANGES:
            cell = mode.sources(kind, effect)
            assert not {AnswerSource.LIVE, AnswerSource.WAIT} & set(cell)
            assert cell[-1] is AnswerSource.REFUSED
    for (_, effect), cell in mode.named.items():
        assert effect not in CHANGES or AnswerSource.LIVE not in cell


@pytest.mark.parametrize("name", ["pay", "mail"])
def test_a_recorded_write_cannot_be_named_live(name):
    """The error says which, and what to do."""
    with pytest.raises(ConfigurationError, match=f"'{name}' would let a write happen"):
        mode_of(RerunPlan(live=("find", name)), RUN)


def test_stubbing_everything_leaves_the_model_and_the_waits():
    """With `*` tools, requests, retrievals and decisions are never called through but for a rehearsal."""
    mode = mode_of(RerunPlan(stub=("*",)), RUN)
    for kind in (Kind.TOOL, Kind.HTTP, Kind.RETRIEVAL, Kind.DECISION):
        for effect in SideEffect:
            assert set(mode.sources(kind, effect)) & CALLED_THROUGH <= {AnswerSource.DRY_RUN}
    for kind in (Kind.MODEL, Kind.SLEEP, Kind.CHECKPOINT):
        assert mode.sources(kind, SideEffect.READ) == REGRESSION.sources(kind, SideEffect.READ)


def test_a_plan_comes_out_of_its_file_as_it_went_in(tmp_path):
    """Every part of it, with texts and values of a script."""
    plan = RerunPlan(
        lane="baseline", repeat=3, candidate=Candidate("new", "http://h/v1", "KEY", (0.25, 2.0)),
        edits=edits_of(Candidate("new"), ["temperature=0"], "Be brief.", read=str), live=("a",), stub=("*",),
        pool=("00" * 16,), pool_age_ns=5, own_worlds=True, script=("yes", {"no": [1]}), simulator="a:b", seed="s",
        spending=Spending(7, 0.5),
    )  # fmt: skip
    path = tmp_path / "plan.json"
    plan.write(path)
    assert RerunPlan.read(path) == plan
    path.write_text('{"lane": 1}')
    with pytest.raises(ConfigurationError, match="no plan of a re-run"):
        RerunPlan.read(path)


def test_a_candidate_is_read_from_its_text_and_never_tells_its_key():
    """Parts in any order; what is told names that there is a key, not which."""
    parsed = Candidate.parse("base_url=https://h/v1, model=m,key_env=NAME,price=0.25/2")
    assert parsed == Candidate("m", "https://h/v1", "NAME", (0.25, 2.0))
    assert parsed.told() == ["model=m", "base_url=https://h/v1", "key"]


@pytest.mark.parametrize(
    "text", ["m", "model=", "model=a,model=b", "temperature=0", "base_url=h/v1", "model=m,api=ollama.chat"]
)
def test_a_candidate_of_another_form_is_refused(text):
    """So is another protocol: the agent's own client speaks."""
    with pytest.raises(ConfigurationError):
        Candidate.parse(text)


def test_ages_and_scripts():
    """Units of time; turns as a JSON array or as lines."""
    assert [age_ns(text) for text in ("90s", "2h", "1d")] == [90 * 10**9, 7200 * 10**9, 86400 * 10**9]
    with pytest.raises(ConfigurationError, match="like 12h"):
        age_ns("12")
    assert script_of('["a", {"b": 1}]') == ("a", {"b": 1})
    assert script_of("first\n\nsecond\n") == ("first", "second")


CHAT, MESSAGES, GOOGLE = "openai.chat_completions", "anthropic.messages", "google.generate_content"


@pytest.mark.parametrize(
    ("protocol", "url", "base", "expected"),
    [
        (CHAT, "https://api.openai.com/v1/chat/completions", "http://h:1/gate/v1", "http://h:1/gate/v1/chat/completions"),
        (MESSAGES, "https://api.anthropic.com/v1/messages", "http://h/gate", "http://h/gate/v1/messages"),
        (MESSAGES, "https://api.anthropic.com/v1/messages", "http://h/gate/v1", "http://h/gate/v1/messages"),
        (GOOGLE, "https://g/v1beta/models/m:generateContent?key=secret", "http://h:9",
         "http://h:9/v1beta/models/m:generateContent"),
    ],
)  # fmt: skip
def test_a_base_url_stands_for_what_comes_before_the_protocols_own_path(protocol, url, base, expected):
    """The protocol's own path stays, and the model that it names; a key in the query does not."""
    endpoint = CandidateEndpoint(base, key="")
    assert endpoint.moved(protocol, url, [])[0] == expected


@pytest.mark.parametrize(
    ("name", "value", "key_header"),
    [("Authorization", "Bearer old", "Bearer new"), ("x-api-key", "old", "new"), ("api-key", "old", "new")],
)
def test_the_candidates_key_takes_the_place_of_the_clients(name, value, key_header):
    """In whichever header the client sends its own; every other header stays."""
    endpoint = CandidateEndpoint("", key="new")
    url, headers = endpoint.moved(
        "openai.responses", "https://h/v1/responses", [(name, value), ("Host", "h"), ("a", "b")]
    )
    assert (url, dict(headers)) == ("https://h/v1/responses", {name: key_header, "Host": "h", "a": "b"})


def test_the_clients_own_key_goes_to_no_other_host():
    """Without a key of its own the candidate's endpoint gets a word in its place; at the same host it stays."""
    client = [("Authorization", "Bearer mine"), ("Host", "api.openai.com")]
    for base, sent in (("http://h:1/v1", "Bearer replay-placeholder"), ("https://api.openai.com/v2", "Bearer mine")):
        endpoint = CandidateEndpoint(base, key="")
        _, headers = endpoint.moved("openai.responses", "https://api.openai.com/v1/responses", client)
        assert dict(headers)["Authorization"] == sent


ASKED = "Shall I refund order 17 for 20 EUR?"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (ASKED, True),
        ("shall i refund order 17, for 20 EUR, now?", True),
        ("Shall I refund order 18 for 20 EUR?", False),  # another order
        ("Shall I refund order 17?", False),  # an amount is missing
        ("I shall refund order 17 for 20 EUR.", False),  # it does not ask
        ("Do you want the 20 of 17 in blue or in red, wrapped, and by when?", False),  # it asks something else
    ],
)
def test_a_turn_fits_when_it_asks_the_same_of_the_same(said, expected):
    """Question for question, number for number, and half of the words; the same both ways round."""
    assert fits(ASKED, said) is expected
    assert fits(said, ASKED) is expected

"""Real exchanges asked again: those of many providers as questions, and the 698 decisions of 48 airline runs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from otel_agent_replay.compare.action_difference import ActionMatch, compare_actions
from otel_agent_replay.compare.actions import action_of
from otel_agent_replay.protocols import recognise
from otel_agent_replay.replay.ask.answer import Answer
from otel_agent_replay.replay.ask.candidate import Candidate
from otel_agent_replay.replay.ask.request import RecordedStep
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.provider import Reply
from tests.support.asked_runs import document, invoke
from tests.support.recordings import data_folder, load_exchanges

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "benchmarks" / "airline.py"
RECORD = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(CORPUS.parent)!r})
import airline
import otel_agent_replay as replay
from otel_agent_replay.export.sealer import seal

replay.configure(lake=sys.argv[1], seal="off")
agent = airline.Airline()
for conversation in airline.corpus():
    agent.drive(conversation)
replay.shutdown()
seal(Path(sys.argv[1]))
"""


def airline():
    spec = importlib.util.spec_from_file_location("airline_corpus", CORPUS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.real
def test_real_requests_are_put_together_again_as_they_were():
    """Without a change the same bytes go to the same address, and no header tells of the recorded call."""
    if data_folder() is None:
        pytest.skip("no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder")
    asked = 0
    for exchange, protocol in real_exchanges():
        step = recorded_step(exchange, protocol)
        question = Candidate(key_variable="KEY").question(step, {"KEY": "key"})
        assert question.body == exchange.request_body, exchange.source
        assert question.url.partition("?")[0] == exchange.url.partition("?")[0], exchange.source
        assert question.lost == ()
        names = {name.lower() for name, _ in question.headers}
        assert not names & {"cookie", "traceparent", "host", "content-length", "idempotency-key"}, exchange.source
        asked += 1
    assert asked > 400


@pytest.mark.real
def test_a_real_answer_is_the_same_action_as_itself():
    """Each real answer compared with itself is the same; errors, and only what is no whole answer, are none."""
    if data_folder() is None:
        pytest.skip("no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder")
    matches: Counter[ActionMatch] = Counter()
    for exchange, protocol in real_exchanges():
        folded = protocol.fold(exchange.response_body, exchange.media_type, exchange.status)
        action = action_of(folded)
        match = compare_actions(action, action).match
        whole = folded.error is None and folded.complete
        assert match is (ActionMatch.SAME if whole else ActionMatch.NO_ANSWER), exchange.source
        matches[match] += 1
    assert matches[ActionMatch.SAME] > 400


def real_exchanges():
    for exchange in load_exchanges():
        protocol = recognise(exchange.method, exchange.url, exchange.request_headers, exchange.request_body)
        if protocol is not None:
            yield exchange, protocol


def recorded_step(exchange, protocol):
    answer = Answer(exchange.status, exchange.media_type, exchange.response_body)
    headers = tuple(exchange.request_headers)
    provider = protocol.provider(exchange.url)
    return RecordedStep(
        b"r" * 16, 1, protocol, provider, "recorded", exchange.url, headers, exchange.request_body, answer, False
    )


@pytest.mark.real
@pytest.mark.slow
def test_every_decision_of_the_airline_runs_agrees_with_itself(tmp_path):
    """A candidate that answers what was recorded agrees on 698 of 698 steps, at stake as the tools were declared."""
    corpus = airline()
    conversations = corpus.corpus()
    if conversations is None:
        pytest.skip(f"{corpus.FILE} is not here: set OTEL_AGENT_REPLAY_DATA")
    answers: dict[bytes, list[bytes]] = {}
    for conversation in conversations:
        for request, response in corpus.exchanges(conversation["traj"]):
            answers.setdefault(request, []).append(response)
    subprocess.run([sys.executable, "-c", RECORD, tmp_path / "lake"], check=True, timeout=300)

    def script(request):
        asked = json.dumps({**request.json, "model": "gpt-4o"}).encode()
        return Reply(answers[asked][0])

    with ScriptedProvider(script) as provider:
        done = invoke(tmp_path / "lake", "steps", "--where", "agent = 'airline'", "--out", tmp_path / "out", "--json",
                      "--candidate", f"model=other,base_url={provider.url}/v1")  # fmt: skip
        assert len(provider.seen) == 698
    lane = document(done)["lanes"]["candidate"]
    assert (lane["runs"], lane["runs_agreeing"]) == (48, 48)
    differing = [request for request, known in answers.items() if len(set(known)) > 1]
    assert not differing, "the same question had one answer only"
    assert (lane["in_sight"]["steps"], lane["in_sight"]["agree"]) == (698, 698)
    assert lane["by_risk"]["write"]["steps"] == 86
    assert done.exit_code == 0

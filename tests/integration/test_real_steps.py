"""The airline conversations, recorded through the recorder and asked again: 48 outcomes are 698 decisions."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.provider import Reply
from tests.support.asked_runs import document, invoke

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

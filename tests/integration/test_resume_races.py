"""A worker that wants a run which another one has just gone on with first reads what that one wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.configure import configured
from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.model import RunStatus
from otel_agent_replay.replay.launch_continued import resume_command
from otel_agent_replay.testing.provider import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat
from tests.support import desk_agents

ROOT = Path(__file__).parent.parent.parent
AGENT = [sys.executable, str(ROOT / "tests/support/desk_agents.py"), "long"]
DIED_AT = 9


@pytest.fixture
def died(tmp_path, monkeypatch):
    """A run that died before step 9, and this process about to go on with it; yields both, and what the model saw."""
    lake = tmp_path / "lake"
    with ScriptedProvider(lambda _: openai_chat("yes")) as model, ScriptedProvider([Reply(b"{}")]) as pay:
        monkeypatch.setenv("MODEL_URL", model.url)
        monkeypatch.setenv("PAY_URL", pay.url)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        environment = {
            **os.environ,
            "AGENT_REPLAY_LAKE": str(lake),
            "AGENT_REPLAY_SEAL": "off",
            "AGENT_REPLAY_LEDGER": "file",
            "AGENT_REPLAY_KILL_AT": f"before:{DIED_AT}",
        }
        ended = subprocess.run(AGENT, env=environment, cwd=tmp_path, check=False, timeout=60)
        assert ended.returncode == -signal.SIGKILL
        replay.configure(lake=lake, seal="off", ledger="file")
        try:
            yield lake, only_run(lake), model
        finally:
            replay.shutdown()


def only_run(lake):
    """Return the id of the one run in the journal."""
    from otel_agent_replay.export.sealer import seal
    from otel_agent_replay.lake.catalog import Lake

    seal(lake)
    (summary,) = Lake(lake).runs()
    return summary.run.run_id.hex()


def go_on_elsewhere(lake, run_id, tmp_path, **options):
    """Go on with the run in another process."""
    run = load_run(lake, run_id).run
    return resume_command(run, AGENT, lake=lake, ledger="file", changed=True, directory=tmp_path, **options)


def test_a_run_that_another_worker_has_finished_meanwhile_is_left_alone(died, tmp_path):
    """Read before the other one finished: no model call again, no new attempt, and the run stays finished."""
    lake, run_id, model = died
    runs = configured().resuming(run_id, changed=True)
    assert go_on_elsewhere(lake, run_id, tmp_path).exit_code == 0
    asked = len(model.seen)
    with opening_runs(runs), pytest.raises(replay.CannotJudge, match="has finished"):
        desk_agents.long("17")
    run = load_run(lake, run_id).run
    assert (run.status, run.attempt, len(model.seen)) == (RunStatus.OK, 2, asked)
    assert configured().ledger().run(bytes.fromhex(run_id)).status == "ok"


def test_what_another_worker_did_before_it_died_is_not_done_again(died, tmp_path):
    """Read before the other one went on and died: this one goes on from where that one got to."""
    lake, run_id, model = died
    runs = configured().resuming(run_id, changed=True)
    assert go_on_elsewhere(lake, run_id, tmp_path, max_steps=DIED_AT + 4).status.value == "stopped"
    asked = len(model.seen)
    with opening_runs(runs):
        desk_agents.long("17")
    run = load_run(lake, run_id)
    assert (run.run.status, run.run.attempt) == (RunStatus.OK, 3)
    assert len(model.seen) == asked + 1  # of the model steps 1, 6, 11 and 16 the first three were done

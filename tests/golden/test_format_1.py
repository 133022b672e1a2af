"""A recording of format 1 reads, verifies, replays, compares and seals for ever (see `format-1/README.md`)."""

import datetime as dt
import decimal
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import COMMANDS, main
from otel_agent_replay.compare import Verdict, compare
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.model import Kind, OutcomeStatus, RunStatus, SideEffect
from otel_agent_replay.payload.codec import decode
from otel_agent_replay.replay import isolation
from otel_agent_replay.replay.enclosed import Enclosure
from otel_agent_replay.replay.launch import entry_command, replay_command
from tests.golden.make_format_1 import ANSWER, MOST_BYTES
from tests.support.agents import ROOT, assert_same

FOLDER = Path(__file__).parent / "format-1"


@pytest.fixture
def lake(tmp_path):
    """A copy of the sealed lake: a replay adds itself to the lake that it reads."""
    return shutil.copytree(FOLDER / "lake", tmp_path / "lake")


def the_run(lake):
    """The one run that was recorded."""
    stored = Lake(lake)
    (run,) = [summary.run for summary in stored.runs() if not summary.run.replay]
    return stored.load(run.run_id)


@pytest.fixture
def recorded(lake):
    return the_run(lake)


def of(recorded, kind, name=None):
    return [node for node in recorded.nodes if node.kind is kind and name in {None, node.name}]


def result(recorded, node):
    return decode(recorded.payload(node.outcome.result.digest))


def test_the_run_reads(recorded):
    """The run row says who, when, what with, and that nothing was lost."""
    run = recorded.run
    assert (run.agent, run.status, run.mode, run.replay) == ("golden", RunStatus.OK, "record", False)
    assert (run.thread_id, run.subject, run.service, run.hash_seed) == ("talk-1", "customer-9", "shop", "17")
    assert (run.versions.agent, run.versions.prompt, run.versions.policy) == ("1", "7", "p3")
    assert run.versions.model_route == "default"
    assert run.versions.tool_schema
    assert "openai" in run.versions.packages
    assert recorded.losses == ()
    assert {entry.what for entry in run.coverage.entries} >= {"urllib3", "time", "random", "environment"}


def test_one_of_everything_reads(recorded):
    """Each step is there with its kind, name, side effect and outcome."""
    steps = sorted((node.kind.value, node.name, node.side_effect.value) for node in recorded.nodes if node.step)
    assert steps == [
        ("approval", "may_refund", "external"),
        ("checkpoint", "paid", "none"),
        ("checkpoint", "planned", "none"),
        ("decision", "desk_for", "none"),
        ("http", of(recorded, Kind.HTTP)[0].name, "read"),
        ("model", "chat", "read"),
        ("model", "chat", "read"),
        ("retrieval", "find_policy", "read"),
        ("sleep", "asyncio.sleep", "none"),
        ("sleep", "asyncio.sleep", "none"),
        ("sleep", "asyncio.sleep", "none"),
        ("sleep", "time.sleep", "none"),
        ("tool", "fee_for", "none"),
        ("tool", "fee_for", "none"),
        ("tool", "fee_for", "none"),
        ("tool", "find_order", "read"),
        ("tool", "order_again", "external"),
        ("tool", "parcel_state", "read"),
        ("tool", "refund", "write"),
        ("tool", "tracking", "read"),
    ]
    (scope,) = of(recorded, Kind.SCOPE)
    assert scope.name == "plan"
    assert [node.path[1] for node in of(recorded, Kind.RETRIEVAL)] == [scope.path[-1]]


def test_typed_values_read(recorded):
    """Decimals, dates, sets, bytes, a generator's items and a failure come back as what they were."""
    (order,) = of(recorded, Kind.TOOL, "find_order")
    sent = dt.date(2026, 11, 24)
    assert result(recorded, order) == {"item": "Wasserkessel", "price": decimal.Decimal("49.00"), "sent": sent}
    (state,) = of(recorded, Kind.TOOL, "parcel_state")
    assert result(recorded, state)["seen"] == {"Leipzig", "Halle"}
    (refund,) = of(recorded, Kind.TOOL, "refund")
    assert result(recorded, refund)["receipt"] == b"\x00\xffreceipt"
    assert (refund.side_effect, refund.call.idempotency_key) == (SideEffect.WRITE, "17")
    (failed,) = of(recorded, Kind.TOOL, "order_again")
    assert failed.outcome.status is OutcomeStatus.ERROR
    assert failed.outcome.failure.type.endswith("OutOfStock")
    assert failed.outcome.failure.message == "no Wasserkessel left"


def test_reads_of_each_kind_read(recorded):
    """Clock, random, identifier and environment reads lie in order on the step that made them."""
    (scope,) = of(recorded, Kind.SCOPE)
    kinds = [read.kind for read in scope.reads]
    assert set(kinds) == {Kind.CLOCK, Kind.RANDOM, Kind.UUID, Kind.ENV}
    assert [read.sequence for read in scope.reads] == sorted(read.sequence for read in scope.reads)
    regions = [read.value for read in scope.reads if read.kind is Kind.ENV]
    assert "eu-1" in regions


def test_http_bodies_read(recorded):
    """A plain and a streamed answer, and a packed one, are there byte for byte with their chunks."""
    plain, streamed = of(recorded, Kind.MODEL)
    body = recorded.payload(plain.outcome.result.digest)
    assert json.loads(body)["choices"][0]["message"]["tool_calls"][0]["id"] == "call_1"
    events = recorded.payload(streamed.outcome.result.digest).decode()
    deltas = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: {")]
    text = "".join(delta["choices"][0]["delta"].get("content") or "" for delta in deltas)
    assert text == "".join(ANSWER)
    assert sum(chunk.size for chunk in streamed.outcome.chunks) == len(events.encode())
    assert len(streamed.outcome.chunks) > len(ANSWER)
    (stock,) = of(recorded, Kind.HTTP)
    assert stock.outcome.head.status == 200
    request = json.loads(recorded.payload(streamed.call.request.digest))
    assert [message["role"] for message in request["messages"]] == ["system", "user", "assistant", "tool"]


def test_the_key_is_not_there():
    """The key that the agent used is in neither file."""
    for path in [*(FOLDER / "journal").iterdir(), *FOLDER.rglob("*.parquet")]:
        assert b"shopkey" not in path.read_bytes()


def test_it_verifies(recorded):
    """Every digest and the manifest hold."""
    assert verify(recorded) == []


def test_it_is_identical_with_itself(recorded):
    """Comparing it with itself finds nothing."""
    assert compare(recorded, recorded).verdict is Verdict.IDENTICAL


def environment():
    """The replaying process's own: the shop's variables are not set, they come from the tape."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AGENT_REPLAY_", "OTEL_", "SHOP_"))
    }
    return {**kept, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("isolate", [False, True], ids=["in process", "kernel"])
def test_it_replays_by_its_command(lake, recorded, isolate):
    """The agent's code runs again and every step is answered from the tape; the replay compares as identical."""
    if isolate and isolation.why_not():
        pytest.skip(isolation.why_not())
    command = [sys.executable, str(FOLDER / "agent.py")]
    enclosure = Enclosure(lake, isolate=isolate, environment=environment(), directory=lake, timeout_s=60)
    verdict = replay_command(recorded.run, command, enclosure=enclosure)
    assert_same(verdict)
    assert verdict.output_same
    assert verdict.order_not_imposed == ()
    seal(lake)
    replayed = Lake(lake).load(bytes.fromhex(verdict.replay_run_id))
    assert replayed.run.replay
    assert compare(recorded, replayed).verdict in {Verdict.IDENTICAL, Verdict.REORDERED}


def test_it_replays_by_its_entry(lake, recorded):
    """Called with its recorded input, the agent does the same."""
    enclosure = Enclosure(lake, environment=environment(), directory=FOLDER, timeout_s=60)
    verdict = replay_command(recorded.run, entry_command("agent:golden"), enclosure=enclosure)
    assert_same(verdict)


def test_a_changed_prompt_departs_at_its_message(lake, recorded, tmp_path):
    """The recording can tell a changed agent from the one that made it."""
    changed = tmp_path / "agent.py"
    changed.write_text((FOLDER / "agent.py").read_text().replace("Be short.", "Be kind."))
    enclosure = Enclosure(lake, environment=environment(), directory=lake, timeout_s=60)
    verdict = replay_command(recorded.run, [sys.executable, str(changed)], enclosure=enclosure)
    assert verdict.exit_code == 1
    assert verdict.departure.differences[0].startswith("messages[0].content")


VIEWS = {
    "runs": 1,
    "spans": 22,
    "steps": 20,
    "model_calls": 2,
    "tool_calls": 8,
    "retrievals": 1,
    "decisions": 1,
    "approvals": 1,
    "checkpoints": 2,
    "losses": 0,
    "labels": 0,
}


def asked(lake, query):
    done = CliRunner().invoke(main, ["sql", "--json", "--lake", str(lake), query])
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_the_views_answer(lake):
    """Each view gives the rows that the run makes."""
    found = {view: asked(lake, f"SELECT count(*) AS n FROM {view}")[0]["n"] for view in VIEWS}
    assert found == VIEWS
    for view in ("messages", "clock_reads", "random_draws", "payloads", "effects"):
        assert asked(lake, f"SELECT count(*) AS n FROM {view}")[0]["n"], view
    assert asked(lake, "SELECT DISTINCT format_version FROM runs") == [{"format_version": 1}]


@pytest.mark.parametrize("name", ["show", "verify", "diff"])
def test_the_commands_read_it(lake, recorded, name):
    """The reading commands end well on it."""
    assert name in COMMANDS
    run_id = recorded.run.run_id.hex()
    operands = [run_id, run_id] if name == "diff" else [run_id]
    done = CliRunner().invoke(main, [name, "--json", "--lake", str(lake), *operands])
    assert done.exit_code == 0, done.output


def test_its_segment_seals_to_the_same_run(recorded, tmp_path):
    """The journal segment of the same run seals into a lake that verifies and compares as identical."""
    root = tmp_path / "unsealed"
    shutil.copytree(FOLDER / "journal", root / "journal")
    report = seal(root)
    assert (report.runs, report.losses, report.failed, report.torn, report.unreadable) == (1, 0, [], [], [])
    assert report.segments_removed == 1
    sealed = the_run(root)
    assert sealed.run.run_id == recorded.run.run_id
    assert verify(sealed) == []
    assert compare(recorded, sealed).verdict is Verdict.IDENTICAL
    assert [(node.path, node.step, node.sequence) for node in sealed.nodes] == [
        (node.path, node.step, node.sequence) for node in recorded.nodes
    ]


def test_it_stays_small():
    """Agent, lake and segment together are small enough to be kept for ever."""
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert size < MOST_BYTES

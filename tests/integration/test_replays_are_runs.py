"""A replay is a run of its own: written in few words, it comes out of the lake whole."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider

import otel_agent_replay as replay
from otel_agent_replay.boundary.runs import set_run_factory
from otel_agent_replay.compare import compare
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.model import AnswerSource, LossReason
from otel_agent_replay.replay.runs import ReplayRuns
from otel_agent_replay.testing.provider import Reply, ScriptedProvider
from tests.support.journal_files import all_records

ANSWER = {"id": "x", "object": "chat.completion", "model": "m", "choices": [], "usage": {"prompt_tokens": 3}}


@replay.tool(side_effect="read")
def lookup(order: str) -> dict:
    return {"order": order, "state": "x" * 3000}


@replay.agent(name="desk")
def desk(url: str) -> str:
    order = lookup("17")
    with httpx.Client() as client:
        answer = client.post(url, json={"model": "m", "messages": [{"role": "user", "content": order["state"]}]})
        answer.json()
        return client.get(url.replace("chat/completions", "state")).text


@replay.agent(name="leaver")
def leaver(url: str) -> int:
    """Leave a stream after its first piece, as clients of models do at its last event."""
    with httpx.Client() as client, client.stream("GET", url) as response:
        return len(next(response.iter_raw()))


@pytest.fixture
def runtime(tmp_path: Path):
    found = replay.configure(lake=tmp_path / "lake", seal="off")
    yield found
    replay.shutdown()


def recorded_and_replayed(runtime, lake_of_replay: Path | None = None):
    """Record a run and replay it; return the lake, the run and its replay, both out of the lake."""
    folder = runtime.settings.lake
    with ScriptedProvider([Reply.of_json(ANSWER), Reply(b"open")]) as provider:
        url = provider.url + "/v1/chat/completions"
        assert desk(url) == "open"
    runtime.journal.rotate()
    seal(folder)
    lake = Lake(folder)
    origin = lake.load(lake.runs(limit=1)[0].run.run_id)
    runs = ReplayRuns([origin], target=origin.run.run_id, opener=runtime.recording.open, closer=runtime.recording.close)
    set_run_factory(runs)
    assert desk(url) == "open"
    set_run_factory(runtime.recording)
    assert runs.verdict().exit_code == 0
    runtime.journal.rotate()
    return lake, origin


def test_a_sealed_replay_has_all_that_its_tape_gave_it(runtime):
    """Heads, bodies, facts and digests are in the replay's own rows, and hold."""
    lake, origin = recorded_and_replayed(runtime)
    seal(lake.root)
    again = next(lake.load(one.run.run_id) for one in lake.runs() if one.run.replay)
    assert again.run.origin_run_id == origin.run.run_id
    crossings = [node for node in again.nodes if node.step is not None]
    assert [node.source for node in crossings] == [AnswerSource.TAPE] * 3
    for mine, theirs in zip(crossings, [node for node in origin.nodes if node.step is not None], strict=True):
        assert mine.origin_step == theirs.step
        assert (mine.call.request.digest, mine.call.head) == (theirs.call.request.digest, theirs.call.head)
        assert (mine.outcome.head, mine.outcome.chunks) == (theirs.outcome.head, theirs.outcome.chunks)
        for payload in (mine.call.request, mine.outcome.result):
            assert again.payload(payload.digest) == origin.payload(payload.digest)
    model = next(span for span in again.spans if span.node is not None and span.node.kind == "model")
    assert model.span.name == "chat m"
    assert model.span.attributes["gen_ai.usage.input_tokens"] == 3
    assert not again.losses
    assert not verify(again)
    assert compare(origin, again).verdict.value == "identical"


def test_what_came_as_recorded_has_no_records_of_its_own_in_the_journal(runtime):
    """Tools, model calls and other HTTP alike: a replay writes many to a record, each naming its recorded step."""
    recorded_and_replayed(runtime)
    folder = runtime.settings.lake
    assert not [*all_records(folder, "node_begun"), *all_records(folder, "node_ended")]
    steps = [step for record in all_records(folder, "answered") for step in record.answered.origin_steps]
    assert sorted(steps) == [1, 2, 3]


def test_with_spans_of_its_own_what_came_as_recorded_refers_to_the_tape(tmp_path: Path):
    """Where the service has tracing each node has records, which say no more than that the tape has the rest."""
    runtime = replay.configure(lake=tmp_path / "lake", seal="off", tracer_provider=TracerProvider())
    try:
        recorded_and_replayed(runtime)
        ended = [record.node_ended for record in all_records(runtime.settings.lake, "node_ended")]
    finally:
        replay.shutdown()
    crossings = [one for one in ended if one.result_digest]
    assert [one.as_recorded for one in crossings] == [True] * 3
    assert not any(one.result_data or one.HasField("exchange") for one in crossings)


def test_a_stream_left_where_the_recording_was_left_came_as_recorded(runtime):
    """A reader that leaves at the same piece gets the recorded outcome, in few words too."""
    folder = runtime.settings.lake
    with ScriptedProvider([Reply(b"x" * 100, framing="chunked", cuts=[50])]) as provider:
        read = leaver(provider.url)
    runtime.journal.rotate()
    seal(folder)
    lake = Lake(folder)
    origin = lake.load(lake.runs(limit=1)[0].run.run_id)
    runs = ReplayRuns([origin], target=origin.run.run_id, opener=runtime.recording.open, closer=runtime.recording.close)
    set_run_factory(runs)
    assert leaver(provider.url) == read
    set_run_factory(runtime.recording)
    assert runs.verdict().exit_code == 0
    runtime.journal.rotate()
    (record,) = all_records(folder, "answered")
    assert list(record.answered.origin_steps) == [1]
    assert not all_records(folder, "node_begun")
    seal(folder)
    replayed = next(listed for listed in Lake(folder).runs(limit=2) if listed.run.run_id != origin.run.run_id)
    runs_of_both = (origin, Lake(folder).load(replayed.run.run_id))
    theirs, mine = (next(node.outcome for node in run.nodes if node.step == 1) for run in runs_of_both)
    assert theirs.closed_early
    assert mine == theirs


def test_a_replay_written_into_a_lake_without_its_origin_says_so(runtime, tmp_path: Path):
    """What cannot be filled in is kept by digest, and counted."""
    lake, origin = recorded_and_replayed(runtime)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (lake.root / "journal").rename(elsewhere / "journal")
    seal(elsewhere)
    again = next(Lake(elsewhere).load(one.run.run_id) for one in Lake(elsewhere).runs() if one.run.replay)
    mine = [node for node in again.nodes if node.step is not None]
    theirs = [node for node in origin.nodes if node.step is not None]
    assert [node.call.request.digest for node in mine] == [node.call.request.digest for node in theirs]
    assert [node.outcome.result.digest for node in mine] == [node.outcome.result.digest for node in theirs]
    assert again.payload(mine[0].call.request.digest) is None
    assert [(loss.reason, loss.count) for loss in again.losses] == [(LossReason.NOT_COVERED, 3)]

"""A body that was handed over in parts comes out of the lake as one."""

from __future__ import annotations

from pathlib import Path

import httpx

import otel_agent_replay as replay
from otel_agent_replay.boundary.http_tap import PART_OF_STREAM
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.testing.provider import Reply, ScriptedProvider


def test_a_long_stream_is_put_together_when_it_is_sealed(tmp_path: Path):
    """An event stream of several parts, read to its end, has all its bytes and all its chunks."""
    event = b"data: " + b"x" * 65_000 + b"\n\n"
    body = event * (3 * PART_OF_STREAM // len(event))
    runtime = replay.configure(lake=tmp_path / "lake", seal="off")
    try:
        with ScriptedProvider([Reply.of_events(body)]) as provider, httpx.Client() as client:

            @replay.agent(name="reader")
            def read() -> bytes:
                with client.stream("GET", provider.url + "/events") as response:
                    return b"".join(response.iter_raw())

            assert read() == body
        runtime.journal.rotate()
    finally:
        replay.shutdown()
    seal(tmp_path / "lake")
    lake = Lake(tmp_path / "lake")
    recorded = lake.load(lake.runs(limit=1)[0].run.run_id)
    (node,) = [node for node in recorded.nodes if node.kind == "http"]
    assert recorded.payload(node.outcome.result.digest) == body
    assert sum(chunk.size for chunk in node.outcome.chunks) == len(body)
    assert len(node.outcome.chunks) > 3

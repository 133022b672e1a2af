from __future__ import annotations

from otel_agent_replay.export import loss_count
from otel_agent_replay.export.loss_count import LossCount
from otel_agent_replay.wire.frames import read_frames
from otel_agent_replay.wire.v1 import journal_pb2 as wire


def begun(run: bytes) -> wire.Record:
    return wire.Record(node_begun=wire.NodeBegun(run_id=run))


def test_losses_are_counted_by_run_and_kind() -> None:
    """Counts come out as one record a run and kind, and are forgotten once they are written."""
    count = LossCount()
    count.add([begun(b"a" * 16), begun(b"a" * 16), begun(b"b" * 16), wire.Record(body=wire.Body())])
    assert len(count) == 4
    data, counts = count.frames()
    losses = [wire.Record.FromString(raw).loss for _, raw in read_frames(data)]
    assert {(loss.run_id, loss.what, loss.count) for loss in losses} == {
        (b"a" * 16, "node_begun", 2),
        (b"b" * 16, "node_begun", 1),
        (b"", "body", 1),
    }
    count.add([begun(b"a" * 16)])
    count.written(counts)
    assert len(count) == 1


def test_the_count_itself_stays_small(monkeypatch) -> None:
    """Beyond a number of runs, losses are counted without their run, but counted."""
    monkeypatch.setattr(loss_count, "_MOST_KEYS", 3)
    count = LossCount()
    count.add([begun(bytes([number]) * 16) for number in range(10)])
    data, counts = count.frames()
    assert sum(counts.values()) == 10
    assert len(list(read_frames(data))) == 4

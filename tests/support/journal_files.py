"""What lies in a journal folder, read without the sealer."""

from __future__ import annotations

from pathlib import Path

from otel_agent_replay.wire.frames import read_frames
from otel_agent_replay.wire.v1 import journal_pb2 as wire


def segment_paths(lake: Path) -> list[Path]:
    return sorted((lake / "journal").glob("*.log"))


def records_in(path: Path) -> list[wire.Record]:
    """Return the records of one segment, header and clean end too; fails when it is torn."""
    frames = read_frames(path.read_bytes())
    records = [wire.Record.FromString(raw) for _, raw in frames]
    assert not frames.torn, f"{path} is torn at {frames.end} of {frames.size}"
    return records


def kinds_in(path: Path) -> list[str]:
    return [record.WhichOneof("record") or "" for record in records_in(path)]


def all_records(lake: Path, kind: str) -> list[wire.Record]:
    return [record for path in segment_paths(lake) for record in records_in(path) if record.HasField(kind)]


def a_loss(number: int) -> wire.Record:
    """Return a small record that can be told from its like."""
    return wire.Record(loss=wire.Loss(reason="internal", what="probe", count=1, detail=str(number)))


def probes(lake: Path) -> list[int]:
    """Return the numbers of the `a_loss` records, in the order of the files."""
    return [int(record.loss.detail) for record in all_records(lake, "loss") if record.loss.what == "probe"]

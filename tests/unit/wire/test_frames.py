from __future__ import annotations

import pytest

from otel_agent_replay.wire.frames import FRAME_OVERHEAD, frame, read_frames


def test_frames_come_back_in_order() -> None:
    """What was framed is read back record by record, with offsets, and the end is clean."""
    records = [b"a", b"bb" * 1000, b"\0" * 7]
    frames = read_frames(b"".join(frame(record) for record in records))
    assert [record for _, record in frames] == records
    assert [offset for offset, _ in frames] == [8, 17, 2025]
    assert not frames.torn


def test_an_empty_record_is_refused() -> None:
    """A record of no bytes cannot be framed, because zeros left by a power loss would read as one."""
    with pytest.raises(ValueError, match="empty"):
        frame(b"")


def test_a_hole_of_zeros_ends_the_segment() -> None:
    """Zeros after the last frame are a torn tail, not records."""
    frames = read_frames(frame(b"whole") + bytes(64))
    assert [record for _, record in frames] == [b"whole"]
    assert frames.torn
    assert frames.end == FRAME_OVERHEAD + 5


def test_nothing_is_read_from_nothing() -> None:
    """An empty segment has no records and a clean end."""
    frames = read_frames(b"")
    assert list(frames) == []
    assert not frames.torn

"""Segments of accepted requests: what is written is read, and what a crash left is told from what was acknowledged."""

import random

import pytest
from otel_agent_replay_collector.buffers import BufferPool
from otel_agent_replay_collector.request_file import (
    CLOSED,
    HEADER,
    PAGE,
    RequestSegment,
    closed_segments,
    rounded,
    waiting_bytes,
    write_header,
)
from otel_agent_replay_collector.request_log import Accepted, RequestLog


class Owner:
    """Hears what became of requests."""

    def __init__(self):
        self.heard = []

    def committed(self, requests, error):
        self.heard += [(request.tag, error) for request in requests]


def logged(lake, bodies, **options):
    """The bodies written by a log, together, and what their owner heard."""
    pool, owner = BufferPool(1 << 30), Owner()
    log = RequestLog(lake, segment_bytes=1 << 30, segment_s=1000, **options)
    for number, body in enumerate(bodies):
        buffer = pool.take(len(body))
        buffer.body(len(body))[:] = body
        log.submit(Accepted(buffer, len(body), 1, number, owner, tag=number))
    log.close()
    return owner.heard


def frame(body, segment=7, kind=1):
    data = bytearray(HEADER + len(body))
    data[HEADER:] = body
    write_header(memoryview(data), kind=kind, length=len(body), time_ns=5, segment=segment, items=3)
    return bytes(data).ljust(rounded(len(data), HEADER), b"\0")


def scanned(path, data):
    path.write_bytes(data)
    segment = RequestSegment(path)
    scan = segment.scan()
    bodies = [segment.request(place) for place in scan.places]
    segment.close()
    return bodies, scan


@pytest.mark.parametrize("sync", [True, False])
def test_requests_of_any_size_are_read_back_in_order(tmp_path, sync):
    """Small ones share pages, large ones have their own; nothing is lost, mixed up or told twice."""
    draw = random.Random(3)
    bodies = [
        draw.randbytes(size) for size in (0, 1, 63, 64, 65, 4031, 4032, 4033, 65_000, 70_000, 3, 1_500_000, 7)
    ] * 3
    heard = logged(tmp_path, bodies, sync=sync)
    assert sorted(heard) == [(number, None) for number in range(len(bodies))]
    (path,) = closed_segments(tmp_path)
    segment = RequestSegment(path)
    scan = segment.scan()
    assert [segment.request(place) for place in scan.places] == bodies
    assert [place.items for place in scan.places] == list(range(len(bodies)))
    assert (scan.torn, scan.damaged) == (0, 0)
    assert waiting_bytes(tmp_path) == path.stat().st_size
    segment.close()


@pytest.mark.parametrize("cut", [1, 40, 63, 64, 65, 3000, 4095, 4096, 5000])
def test_a_torn_tail_is_cut_and_counted(tmp_path, cut):
    """Whatever a crash left of the last write, all before it is read, and the bytes of the rest are told."""
    whole = frame(b"first" * 100).ljust(PAGE, b"\0")
    bodies, scan = scanned(tmp_path / f"a{CLOSED}", whole + frame(b"second" * 1000)[:cut])
    assert bodies == [b"first" * 100]
    assert (scan.torn, scan.damaged) == (cut, 0)


def test_damage_before_whole_frames_is_told_apart_from_a_torn_tail(tmp_path):
    """A broken byte in the middle loses its frame alone; what stands behind is read, and the damage is counted."""
    pages = [frame(bytes([number]) * 5000).ljust(2 * PAGE, b"\0") for number in range(1, 4)]
    broken = bytearray(pages[1])
    broken[200] ^= 1
    bodies, scan = scanned(tmp_path / f"a{CLOSED}", pages[0] + bytes(broken) + pages[2])
    assert [body[0] for body in bodies] == [1, 3]
    assert scan.damaged > 0
    assert scan.torn == 0


def test_what_an_earlier_file_left_on_the_disk_is_no_frame(tmp_path):
    """A whole frame with another segment's number is not taken for one of this segment."""
    bodies, _ = scanned(
        tmp_path / f"a{CLOSED}", frame(b"ours").ljust(PAGE, b"\0") + frame(b"old", segment=8).ljust(PAGE, b"\0")
    )
    assert bodies == [b"ours"]


def test_pages_that_never_reached_the_disk_are_passed_over(tmp_path):
    """Zeros between frames and behind them are neither damage nor torn."""
    bodies, scan = scanned(tmp_path / f"a{CLOSED}", frame(b"a").ljust(3 * PAGE, b"\0") + frame(b"b").ljust(PAGE, b"\0"))
    assert bodies == [b"a", b"b"]
    assert (scan.torn, scan.damaged) == (0, 0)


def test_requests_are_refused_while_the_disk_is_full_and_kept_when_it_is_not(tmp_path, monkeypatch):
    """Whoever waits hears the error, the next request is tried anew, and the refused one is nowhere."""
    from otel_agent_replay_collector import request_segment

    real, fail = request_segment.os.pwrite, [True]

    def pwrite(fd, data, at):
        if fail.pop() if fail else False:
            raise OSError(28, "No space left on device")
        return real(fd, data, at)

    monkeypatch.setattr(request_segment.os, "pwrite", pwrite)
    pool, owner = BufferPool(1 << 30), Owner()
    log = RequestLog(tmp_path, segment_bytes=1 << 30, segment_s=1000)
    for body in (b"refused", b"kept"):
        before = len(owner.heard)
        buffer = pool.take(len(body))
        buffer.body(len(body))[:] = body
        log.submit(Accepted(buffer, len(body), 1, 1, owner, tag=body))
        while len(owner.heard) == before:
            pass
    log.close()
    assert [(tag, error is None) for tag, error in owner.heard] == [(b"refused", False), (b"kept", True)]
    (path,) = closed_segments(tmp_path)
    segment = RequestSegment(path)
    assert [segment.request(place) for place in segment.scan().places] == [b"kept"]
    segment.close()

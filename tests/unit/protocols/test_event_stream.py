"""AWS event streams: frames, their headers, both checksums, and what a damaged one is said to be."""

from __future__ import annotations

import struct
import zlib

import botocore.eventstream
import pytest

from otel_agent_replay.protocols import EventStreamParser, frames_of
from otel_agent_replay.protocols.event_stream import looks_like_event_stream, with_payload, written_frame
from tests.support.bedrock_bodies import converse_stream, event, exception, text_answer

FRAME = event("messageStart", {"role": "assistant"})


def sealed(headers: bytes, payload: bytes) -> bytes:
    """A frame with these header bytes, whatever they are, and right checksums."""
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    data = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return data + struct.pack(">I", zlib.crc32(data))


def test_frames_are_those_that_botocore_reads():
    """Headers and payloads are what AWS's own parser makes of the same bytes, and ours are readable to it."""
    body = converse_stream(*text_answer("Grüße", "!")) + exception("throttlingException", {"message": "slow down"})
    theirs = botocore.eventstream.EventStreamBuffer()
    theirs.add_data(body)
    assert [(dict(frame.headers), frame.payload) for frame in frames_of(body)] == [
        (message.headers, message.payload) for message in theirs
    ]


def test_headers_of_every_type_are_read():
    """Booleans, numbers, bytes, text, times and UUIDs, as the format defines them."""
    uuid = bytes(range(16))
    headers = b"".join(
        bytes([len(name)]) + name + value
        for name, value in [
            (b"yes", b"\x00"), (b"no", b"\x01"), (b"byte", b"\x02\xff"), (b"short", b"\x03\x01\x00"),
            (b"int", b"\x04\x00\x00\x00\x07"), (b"long", b"\x05" + b"\x00" * 7 + b"\x09"),
            (b"bytes", b"\x06\x00\x02\x00\xff"), (b"text", b"\x07\x00\x03\xc3\xa9!"),
            (b"time", b"\x08" + struct.pack(">q", -5)), (b"uuid", b"\x09" + uuid),
        ]
    )  # fmt: skip
    (frame,) = frames_of(sealed(headers, b"p"))
    assert frame.headers == {
        "yes": True, "no": False, "byte": -1, "short": 256, "int": 7, "long": 9, "bytes": b"\x00\xff", "text": "é!",
        "time": -5, "uuid": uuid,
    }  # fmt: skip
    assert (frame.payload, frame.problem) == (b"p", None)


@pytest.mark.parametrize(
    "headers",
    [
        b"\x03ab", b"\x01a", b"\x01a\x0a", b"\x01a\x07\x00\x09abc", b"\x01a\x04\x00", b"\x01\xff\x00",
        b"\x01a\x07\x00\x01\xff",
    ],
)  # fmt: skip
def test_headers_that_cannot_be_read_are_named(headers):
    """A header that is cut, of no known type, or no UTF-8 makes its frame a named problem; the next one is read."""
    damaged, after = frames_of(sealed(headers, b"{}") + FRAME)
    assert damaged.problem == "the headers of frame 1 cannot be read"
    assert (after.problem, after.text(":event-type")) == (None, "messageStart")


def test_a_wrong_checksum_of_a_frame_is_named_and_reading_goes_on():
    """A flipped bit in a payload costs that frame alone: its length was proved."""
    damaged = bytearray(FRAME)
    damaged[-6] ^= 1
    first, second = frames_of(bytes(damaged) + FRAME)
    assert first.problem == "the checksum of frame 1 is wrong"
    assert (first.payload, first.headers, first.data) == (b"", {}, bytes(damaged))
    assert second.problem is None


@pytest.mark.parametrize("at", range(12))
def test_a_wrong_prelude_ends_the_reading_with_a_problem(at):
    """A flipped bit in any byte of a prelude proves no length: the rest is one frame that says so, bytes kept."""
    damaged = bytearray(FRAME + FRAME)
    damaged[len(FRAME) + at] ^= 1
    first, second = frames_of(bytes(damaged))
    assert first.problem is None
    assert "frame 2 and all after it cannot be read" in second.problem
    assert second.data == bytes(damaged[len(FRAME) :])
    assert not second.cut


def test_a_length_beyond_reason_is_a_problem_though_its_checksum_is_right():
    """A prelude that promises 2 GiB, or less than its own headers, is not waited for."""
    for length, headers in ((1 << 31, 0), (16, 4), (8, 0)):
        lengths = struct.pack(">II", length, headers)
        (frame,) = frames_of(lengths + struct.pack(">I", zlib.crc32(lengths)) + b"rest")
        assert f"its length is {length} bytes with {headers} bytes of headers" in frame.problem


def test_a_cut_frame_says_how_much_of_it_came():
    """What the end of the body leaves open comes out at the close, as cut."""
    parser = EventStreamParser()
    assert parser.feed(FRAME + FRAME[:20]) == list(frames_of(FRAME))
    (rest,) = parser.close()
    assert (rest.cut, rest.problem, rest.data) == (True, "frame 2 is cut: 20 bytes of it came", FRAME[:20])
    assert parser.close() == []


def test_another_payload_keeps_the_headers():
    """A frame written anew has the same headers, and checksums that hold."""
    (frame,) = frames_of(FRAME)
    (again,) = frames_of(with_payload(frame, b'{"role":"x"}'))
    assert (again.headers, again.payload, again.problem) == (frame.headers, b'{"role":"x"}', None)
    assert with_payload(frame, frame.payload) == FRAME


def test_the_first_bytes_tell_an_event_stream():
    """The checksum of the prelude proves it; text, nothing and a short start do not."""
    assert looks_like_event_stream(FRAME[:64])
    assert looks_like_event_stream(written_frame({}, b""))
    for start in (b"", FRAME[:11], b"data: {}\n\n", b'{"message": "no"}', bytes(12)[:-1] + b"\x01"):
        assert not looks_like_event_stream(start)

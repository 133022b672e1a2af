"""Google's and Amazon's streams: every fragment kept, any cutting the same, facts and fold one story, frames whole."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_frames import masked_frames
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.protocols import PROTOCOLS, EventStreamParser, frames_of, reduce_chunks, split_request
from otel_agent_replay.protocols.bedrock_converse_fold import EVENTS
from otel_agent_replay.protocols.event_stream import MEDIA_TYPE, written_frame
from otel_agent_replay.protocols.json_array import JsonArray
from tests.support.bedrock_bodies import chunk, converse_stream, event, text_answer
from tests.support.cloud_bodies import any_cloud_stream, converse_body

POINTS = st.lists(st.integers(0, 10**6), max_size=12)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
FRAMES = st.builds(
    written_frame, st.dictionaries(TEXT.filter(lambda name: len(name.encode()) < 256), TEXT, max_size=3), st.binary()
)
BYTES = st.lists(FRAMES | st.binary(max_size=20), max_size=5).map(b"".join)


def cut(body: bytes, points: list[int]) -> list[bytes]:
    edges = [0, *sorted(point % (len(body) + 1) for point in points), len(body)]
    return [body[start:end] for start, end in zip(edges, edges[1:], strict=False)]


@given(BYTES, POINTS)
def test_any_cutting_gives_the_same_frames(body, points):
    """Frames, damage and rests of any bytes do not depend on how the network cut them, and tile the body."""
    whole = list(frames_of(body))
    assert list(frames_of(cut(body, points))) == whole
    assert list(frames_of(body[at : at + 1] for at in range(len(body)))) == whole
    assert b"".join(frame.data for frame in whole) == body


@given(st.dictionaries(TEXT, TEXT, max_size=4), st.binary())
def test_a_frame_comes_back_as_it_was_written(headers, payload):
    """Headers and payload survive their frame."""
    (frame,) = frames_of(written_frame(headers, payload))
    assert (dict(frame.headers), frame.payload, frame.problem) == (headers, payload, None)


@given(st.lists(FRAMES, min_size=1, max_size=3), st.data())
def test_a_flipped_bit_is_always_found(frames, data):
    """Whatever bit of a stream is flipped, a frame has a problem, and no frame before it changes."""
    body = b"".join(frames)
    at, bit = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 7))
    damaged = body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :]
    found = list(frames_of(damaged))
    assert any(frame.problem for frame in found)
    number, end = 0, len(frames[0])
    while at >= end:
        number += 1
        end += len(frames[number])
    assert [frame.data for frame in found[:number]] == frames[:number]
    assert all(frame.problem is None for frame in found[:number])


@given(st.binary(max_size=60))
def test_a_closed_parser_begins_anew(body):
    """Nothing is left over of what was closed."""
    parser = EventStreamParser()
    parser.feed(body)
    parser.close()
    assert parser.close() == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(TEXT, VALUES, max_size=3), max_size=4), POINTS, st.booleans(), st.sampled_from([None, 2])
)
def test_an_array_in_any_cutting_gives_its_objects(values, points, ascii_only, indent):
    """Brackets and quotes inside of texts, escapes cut in two: the elements come out, and the end is seen."""
    body = json.dumps(values, ensure_ascii=ascii_only, indent=indent).encode()
    for chunks in (cut(body, points), [body[at : at + 1] for at in range(len(body))]):
        array = JsonArray()
        found = [value for piece in chunks for _, value in array.feed(piece)]
        assert list(array.close()) == []
        assert (found, array.done, array.problems) == (values, True, [])


@given(st.binary(max_size=80), POINTS)
def test_an_array_that_is_none_does_not_raise(body, points):
    """Any bytes after an opening bracket are objects, problems or nothing, in any cutting the same."""
    body = b"[" + body
    seen = []
    for chunks in ([body], cut(body, points)):
        array = JsonArray()
        found = [value for piece in chunks for _, value in array.feed(piece)] + [value for _, value in array.close()]
        seen.append((found, array.done, array.problems))
    assert seen[0] == seen[1]


@given(any_cloud_stream())
def test_a_fold_keeps_every_fragment(stream):
    """Text and arguments are the fragments in order, by index, whatever their mixture."""
    folded = PROTOCOLS[stream.name].fold(stream.body, stream.media_type, 200)
    assert (folded.complete, folded.text) == (True, stream.text)
    assert [call.arguments_raw for call in folded.tool_calls] == stream.arguments


@given(any_cloud_stream(), POINTS)
def test_any_cutting_of_a_stream_reduces_to_the_same(stream, points):
    """However the network cuts a body, also inside frames and characters, the answer is that of the whole body."""
    protocol = PROTOCOLS[stream.name]
    whole = protocol.fold(stream.body, stream.media_type, 200)
    assert reduce_chunks(protocol, cut(stream.body, points), stream.media_type, 200) == whole
    single = [stream.body[at : at + 1] for at in range(len(stream.body))]
    assert reduce_chunks(protocol, single, stream.media_type, 200) == whole


@given(any_cloud_stream(), st.integers(0, 10**6))
def test_a_cut_stream_is_a_beginning_that_says_so(stream, point):
    """A body cut anywhere gives a prefix of the text, and says that it was cut unless its end had come."""
    body = stream.body[: point % len(stream.body) + 1]
    folded = PROTOCOLS[stream.name].fold(body, stream.media_type, 200)
    assert stream.text.startswith(folded.text)
    if folded.finish_reason in (None, "in_progress"):
        assert (folded.complete, folded.error.type) == (False, "stream_truncated")


@given(any_cloud_stream(), st.integers(0, 10**6))
def test_facts_say_what_the_fold_says(stream, point):
    """The cheap facts of a stream, whole or cut, agree with its whole reduction."""
    body = stream.body[: point % (len(stream.body) + 1)] if point % 2 else stream.body
    protocol = PROTOCOLS[stream.name]
    folded = protocol.fold(body, stream.media_type, 200)
    found = protocol.response_facts(body, stream.media_type, 200)
    usage = folded.usage
    assert found.get(semconv.RESPONSE_ID) == folded.response_id
    assert found.get(semconv.RESPONSE_MODEL) == folded.model
    assert found.get(semconv.RESPONSE_FINISH_REASONS, (None,)) == (folded.finish_reason,)
    assert found.get(semconv.USAGE_OUTPUT_TOKENS) == (usage and usage.output_tokens)
    assert found.get(semconv.ERROR_TYPE) == (folded.error.type if folded.error else None)


KEYS = st.sampled_from(
    "candidates content parts text thought functionCall args partialArgs jsonPath stringValue willContinue index "
    "promptFeedback blockReason usageMetadata promptTokenCount message role toolUse input start delta error name "
    "reasoningContent toolResult stopReason usage inputTokens output bytes choices generation outputText results id "
    "completion generations is_finished event_type interaction status steps step summary arguments signature type "
    "contents messages prompt inputText toolConfig tools toolSpec inputSchema systemInstruction generationConfig "
    "functionDeclarations json chat_history inlineData mimeType outputs anthropic_version inferenceConfig system "
    "contentBlockIndex metadata".split()
)
WORDS = st.sampled_from(
    "text thought model user step.start step.delta interaction.completed thought_summary arguments_delta function_call "
    "completed message_start content_block_delta stream-end text-generation STOP $.a[0].b server_tool_use".split()
)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | WORDS | st.just("\ud83e"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, ODD, max_size=4)
EVENT_NAMES = st.sampled_from([*sorted(EVENTS), "chunk", "message", "other"])
CLOUDS = st.sampled_from(
    ["google.generate_content", "google.interactions", "aws.bedrock_converse", "aws.bedrock_invoke"]
)


@given(CLOUDS, st.lists(st.tuples(EVENT_NAMES, OBJECTS, st.booleans()), max_size=4), st.sampled_from([200, 500]))
def test_nothing_raises_whatever_the_objects_hold(name, events, status):
    """Odd objects in frames, packed or not, in events, in an array and alone: values that can be written as UTF-8."""
    framed = b"".join(chunk(value) if packed else event(kind, value, ascii_only=True) for kind, value, packed in events)
    values = [json.dumps(value).encode() for _, value, _ in events]
    bodies = [
        (framed, MEDIA_TYPE),
        (b"".join(b"data: " + value + b"\n\n" for value in values), "text/event-stream"),
        (b"[" + b",".join(values) + b"]", "application/json"),
        *((value, "application/json") for value in values),
    ]
    protocol = PROTOCOLS[name]
    for body, media_type in bodies:
        folded = protocol.fold(body, media_type, status)
        found = protocol.response_facts(body, media_type, status)
        json.dumps([folded.output_messages, folded.problems, folded.text], ensure_ascii=False).encode()
        json.dumps(list(found.values()), ensure_ascii=False).encode()
        protocol.request_facts(body, "http://h/model/m/converse")
        read = protocol.request_messages(body)
        json.dumps([read.system, read.messages, read.tools], ensure_ascii=False).encode()
        split_request(name, body)


RULES = Redaction.default(key=b"k" * 32)
SECRET = "AKIA" + "QYLPMN5HNM4OPXYZ"


@given(converse_body() | any_cloud_stream().filter(lambda stream: stream.media_type == MEDIA_TYPE), POINTS)
def test_frames_without_a_secret_stay_as_they_are(stream, points):
    """What holds nothing to mask comes back in the very chunks that it came in."""
    chunks = cut(stream.body, points)
    assert masked_frames(RULES, chunks) == chunks


@given(st.integers(1, len(SECRET) - 1), TEXT, TEXT, POINTS)
def test_a_secret_over_two_frames_is_masked_in_any_cutting(at, before, after, points):
    """Wherever a key is split over frames and chunks, it goes, the frames stay whole, and twice is once."""
    body = converse_stream(*text_answer(before + " ", SECRET[:at], SECRET[at:], " " + after))
    chunks = cut(body, points)
    clean = masked_frames(RULES, chunks)
    assert len(clean) == len(chunks)
    made = b"".join(clean)
    assert made == b"".join(masked_frames(RULES, [body]))
    assert [frame.problem for frame in frames_of(made)] == [None] * 8
    text = PROTOCOLS["aws.bedrock_converse"].fold(made, MEDIA_TYPE, 200).text
    assert SECRET not in text
    assert text.endswith(" " + after)
    assert masked_frames(RULES, [made]) == [made]

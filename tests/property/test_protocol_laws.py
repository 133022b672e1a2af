"""Provider protocols: folds keep every fragment, facts agree with folds, pieces tile, and nothing ever raises."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay import semconv
from otel_agent_replay.protocols import PROTOCOLS, reduce_chunks, split_request
from otel_agent_replay.protocols.json_text import parse_object
from tests.support.protocol_bodies import any_stream

NAMES = st.sampled_from(sorted(PROTOCOLS))
CONVERSATIONS = {
    "anthropic.messages": "messages",
    "cohere.chat": "messages",
    "ollama.chat": "messages",
    "openai.chat_completions": "messages",
    "openai.responses": "input",
}
KEYS = st.sampled_from(
    "type error message choices delta index id model usage content text role tool_calls function name arguments "
    "finish_reason response output status item output_index content_block partial_json stop_reason input messages "
    "tools system instructions reasoning summary call_id source thinking reasoning_details audio n stream seed stop "
    "prompt_tokens_details input_tokens_details incomplete_details reason reasoning_content refusal x_groq to "
    "event_type generation_id text tool_plan citations meta billed_units tool_calls parameters chat_history preamble "
    "response done done_reason thinking images prompt value options annotations data search_results".split()
)
WORDS = st.sampled_from(
    "message_start content_block_start content_block_delta message_delta message_stop error text_delta tool_use text "
    "input_json_delta citations_delta compaction_delta fallback thinking image document tool_result response.completed "
    "response.output_item.added response.output_item.done response.output_text.delta function_call custom_tool_call "
    "message reasoning completed failed web_search_call shell_call_output input_image image_url input_audio file "
    "response.function_call_arguments.delta response.reasoning_summary_text.delta server_tool_use refusal user "
    "message-start content-start content-delta tool-call-start tool-call-delta message-end text-generation stream-end "
    "tool-calls-chunk tool-calls-generation citation-start ERROR COMPLETE stop error".split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | WORDS | st.just("\ud83e"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(any_stream())
def test_a_fold_keeps_every_fragment(stream):
    """Text and arguments are the fragments in order, by index, whatever their mixture."""
    folded = PROTOCOLS[stream.name].fold(stream.body, stream.media_type, 200)
    assert (folded.complete, folded.text) == (True, stream.text)
    assert [call.arguments_raw for call in folded.tool_calls] == stream.arguments


@given(any_stream(), st.integers(0, 10**6))
def test_a_cut_stream_is_never_complete_text_beyond_what_came(stream, point):
    """A body cut anywhere gives a prefix of the text, and says that it was cut unless its end had come."""
    body = stream.body[: point % (len(stream.body) + 1)]
    folded = PROTOCOLS[stream.name].fold(body, stream.media_type, 200)
    assert stream.text.startswith(folded.text)
    if folded.finish_reason is None:
        assert not folded.complete
        assert folded.error.type == "stream_truncated"


@given(any_stream(), st.integers(0, 10**6))
def test_facts_say_what_the_fold_says(stream, point):
    """The cheap facts of a stream, whole or cut, agree with its whole reduction."""
    body = stream.body[: point % (len(stream.body) + 1)] if point % 2 else stream.body
    protocol = PROTOCOLS[stream.name]
    folded, facts = (
        protocol.fold(body, stream.media_type, 200),
        protocol.response_facts(body, stream.media_type, 200),
    )
    assert facts.get(semconv.RESPONSE_ID) == folded.response_id
    assert facts.get(semconv.RESPONSE_MODEL) == folded.model
    assert facts.get(semconv.RESPONSE_FINISH_REASONS, (None,)) == (folded.finish_reason,)
    assert facts.get(semconv.ERROR_TYPE) == (folded.error.type if folded.error else None)


@given(any_stream(), st.lists(st.integers(0, 10**6), max_size=12))
def test_any_cutting_of_a_stream_reduces_to_the_same(stream, points):
    """However the network cuts a body, also inside characters and marks, the answer is that of the whole body."""
    body, protocol = stream.body, PROTOCOLS[stream.name]
    edges = [0, *sorted(point % (len(body) + 1) for point in points), len(body)]
    chunks = [body[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    whole = protocol.fold(body, stream.media_type, 200)
    assert reduce_chunks(protocol, chunks, stream.media_type, 200) == whole
    single = [body[at : at + 1] for at in range(len(body))]
    assert reduce_chunks(protocol, single, stream.media_type, 200) == whole


@given(NAMES, st.lists(OBJECTS, max_size=3), st.sampled_from([200, 400, 500]))
def test_no_stream_raises(name, events, status):
    """Whatever objects a stream carries, it folds to values that can be written as UTF-8 JSON."""
    protocol = PROTOCOLS[name]
    for media_type, frame in (("text/event-stream", b"data: %s\n\n"), ("application/x-ndjson", b"%s\n")):
        body = b"".join(frame % json.dumps(event).encode() for event in events)
        folded = protocol.fold(body, media_type, status)
        json.dumps([folded.output_messages, folded.problems, folded.text], ensure_ascii=False).encode()
        facts = protocol.response_facts(body, media_type, status)
        json.dumps(list(facts.values()), ensure_ascii=False).encode()


@given(NAMES, OBJECTS | VALUES, st.sampled_from([200, 400, 500]))
def test_no_plain_body_raises(name, value, status):
    """Whatever JSON a body holds, request and answer are read without an error."""
    body = json.dumps(value).encode()
    protocol = PROTOCOLS[name]
    folded = protocol.fold(body, "application/json", status)
    json.dumps([folded.output_messages, folded.problems, folded.text], ensure_ascii=False).encode()
    protocol.response_facts(body, "application/json", status)
    protocol.request_facts(body)
    json.dumps(protocol.request_messages(body).messages, ensure_ascii=False).encode()


@given(NAMES, st.binary(max_size=200), st.sampled_from(["", "text/event-stream", "application/json", "text/html"]))
def test_no_bytes_raise(name, body, media_type):
    """Bytes that are nothing at all are named as such, not an error of ours."""
    protocol = PROTOCOLS[name]
    folded = protocol.fold(body, media_type, 200)
    assert not folded.complete or parse_object(body) is not None
    protocol.response_facts(body, media_type, 200)
    protocol.request_facts(body)
    protocol.request_messages(body)
    split_request(name, body)


CONTENTS = st.text(max_size=30) | st.sampled_from(['],"model":"x"', '"messages":[', '}],"tools":[]}', "],", '\\"'])
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"])},
        optional={
            "content": CONTENTS
            | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": CONTENTS}), max_size=2),
            "tool_calls": st.lists(st.fixed_dictionaries({"id": CONTENTS}), max_size=2),
        },
    ),
    min_size=1,
    max_size=4,
)
AROUND = {
    "model": st.sampled_from(["gpt-4o", "claude"]),
    "temperature": st.floats(0, 2),
    "tools": st.lists(st.fixed_dictionaries({"name": CONTENTS, "messages": MESSAGES}), min_size=1, max_size=2),
    "stop": st.lists(CONTENTS, max_size=2),
    "stop_sequences": st.lists(CONTENTS, max_size=2),
    "stream": st.booleans(),
    "max_tokens": st.integers(1, 9),
    "seed": st.integers(0, 9),
    "metadata": st.dictionaries(CONTENTS, CONTENTS, max_size=2),
}


@st.composite
def requests(draw):
    """A request of a protocol with its members in any order, written with or without spaces, large enough to be cut."""
    name = draw(st.sampled_from(sorted(CONVERSATIONS)))
    conversation = CONVERSATIONS[name]
    around = draw(st.fixed_dictionaries({}, optional=AROUND))
    members = [(conversation, draw(MESSAGES) + [{"role": "user", "content": "x" * 2048}]), *around.items()]
    ordered = dict(draw(st.permutations(members)))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    return name, json.dumps(ordered, ensure_ascii=draw(st.booleans()), separators=separators).encode()


@given(requests())
def test_request_facts_do_not_depend_on_how_they_are_found(request):
    """Cutting the messages out gives the same facts as parsing the whole body."""
    name, body = request
    whole = parse_object(body)
    conversation = CONVERSATIONS[name]
    small = json.dumps({**whole, conversation: []}).encode()
    padded = b" " * 5000 + small
    protocol = PROTOCOLS[name]
    assert protocol.request_facts(body) == protocol.request_facts(small if len(small) < 2048 else padded)


@given(requests())
def test_pieces_tile_the_request(request):
    """The ranges of a request, joined in order, are the request; each turn has its own."""
    name, body = request
    ranges = split_request(name, body)
    assert b"".join(body[start:end] for start, end, _ in ranges) == body
    turns = parse_object(body)[CONVERSATIONS[name]]
    roles = [role for _, _, role in ranges if role in ("user", "assistant")]
    assert roles == [turn["role"] for turn in turns]


@given(requests(), st.integers(0, 10**6))
def test_a_longer_conversation_keeps_the_pieces_of_the_shorter_one(request, _):
    """Adding a turn leaves every earlier piece as it was, so that only the new one is stored."""
    name, body = request
    conversation = CONVERSATIONS[name]
    value = parse_object(body)
    longer = {**value, conversation: [*value[conversation], {"role": "assistant", "content": "more"}]}

    def pieces(document):
        text = json.dumps(document).encode()
        return [text[start:end] for start, end, role in split_request(name, text) if role != "envelope"]

    before, after = pieces(value), pieces(longer)
    assert len(after) == len(before) + 1
    assert [piece for piece in after if b'"more"' not in piece] == before

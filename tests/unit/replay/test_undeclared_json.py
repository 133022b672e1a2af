"""A JSON body that its client did not declare as JSON is compared as JSON all the same."""

import json

import pytest

from otel_agent_replay.model import Call, HttpRequestHead, Kind, Payload, SideEffect
from otel_agent_replay.replay.matching import Recorded, Volatile, normal_form, request_differences


def call(body, media_type):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = HttpRequestHead("POST", "http://127.0.0.1/v1", (("content-type", media_type),) if media_type else ())
    return Call(Kind.HTTP, "POST", SideEffect.WRITE, Payload.of(data, media_type), head)


def differences(old, new, media_type):
    recorded = Recorded(1, ("run:a#0", "http:POST#0"), call(old, media_type), call(old, media_type).request.data, False)
    return request_differences(recorded, call(new, media_type))


@pytest.mark.parametrize("media_type", ["", "application/x-www-form-urlencoded", "application/json"])
def test_the_difference_names_the_place(media_type):
    """The changed message is named, not a byte of the body."""
    old = {"messages": [{"content": "Be short."}]}
    (line,) = differences(old, {"messages": [{"content": "Be quick."}]}, media_type)
    assert line.startswith("messages[0].content")


@pytest.mark.parametrize("media_type", ["", "text/plain"])
def test_key_order_and_volatile_paths_do_not_count(media_type):
    """What says the same has one normal form."""
    volatile = Volatile(("at",))
    old, new = call({"a": 1, "at": 2}, media_type), call({"at": 3, "a": 1}, media_type)
    assert normal_form(old, old.request.data, volatile) == normal_form(new, new.request.data, volatile)


@pytest.mark.parametrize("body", [b"[section]\nkey=1", b"{broken", b"plain"])
def test_text_that_only_begins_like_json_is_compared_byte_for_byte(body):
    """A body that does not parse is its bytes, and the difference is told by its place among them."""
    one = call(body, "")
    assert normal_form(one, body, Volatile()).endswith(body)
    (line,) = differences(body, body + b"!", "")
    assert line.startswith("body: ")

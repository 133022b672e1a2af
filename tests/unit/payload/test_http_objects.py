"""Responses that errors carry: what an error handler asks of them comes back, and no more is kept than may be."""

from __future__ import annotations

import json

import httpx
import httpx2
import pytest
import requests

from otel_agent_replay.boundary.failures import recorded_failure
from otel_agent_replay.model import CaptureLevel, FailurePhase
from otel_agent_replay.payload import KeptAsText, rebuild
from otel_agent_replay.payload.codec import decode, encode
from otel_agent_replay.payload.redaction import Redaction

URL = "http://shop.example/orders/17?api_key=k3y0123456789abcdef&q=x"
JSON = b'{"code": "taken", "email": "ann@example.org"}'
HEADERS = [("content-type", "application/json"), ("retry-after", "3"), ("set-cookie", "session=0123456789abcdef")]


def httpx_error(package, body=JSON, status=409, headers=HEADERS):
    request = package.Request("POST", URL, headers={"authorization": "Bearer abcdefghijkl"}, content=b"what was sent")
    response = package.Response(status, headers=headers, content=body, request=request)
    with pytest.raises(package.HTTPStatusError) as caught:
        response.raise_for_status()
    return caught.value


def requests_error(body=JSON, status=409, headers=HEADERS):
    response = requests.Response()
    response.status_code, response.reason, response.url, response._content = status, "Conflict", URL, body
    response._content_consumed = True
    response.headers.update(headers)
    response.request = requests.Request("POST", URL, headers={"authorization": "Bearer abcdefghijkl"}).prepare()
    with pytest.raises(requests.HTTPError) as caught:
        response.raise_for_status()
    return caught.value


MAKERS = {
    "httpx": lambda **more: httpx_error(httpx, **more),
    "httpx2": lambda **more: httpx_error(httpx2, **more),
    "requests": requests_error,
}


def recorded(error, redaction=None):
    return recorded_failure(error, FailurePhase.CALL, redaction or Redaction.default())


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_status_headers_and_body_of_an_errors_response_come_back(make):
    """Class, status, reason, headers, text, JSON, and the request's method are those of the recorded response."""
    error = make()
    again = rebuild(recorded(error))
    assert type(again) is type(error)
    response, served = error.response, again.response
    assert type(served) is type(response)
    assert served.status_code == response.status_code == 409
    assert getattr(served, "reason_phrase", None) == getattr(response, "reason_phrase", None)
    assert getattr(served, "reason", None) == getattr(response, "reason", None)
    assert (served.content, served.text, served.json()) == (response.content, response.text, response.json())
    assert served.headers["retry-after"] == "3"
    assert served.request.method == "POST"
    assert again.request.method == "POST"
    with pytest.raises(type(error)):
        served.raise_for_status()


def test_credentials_and_what_was_sent_are_not_kept(make):
    """No credential of a header or URL, and nothing of the request's headers and body, is in what is stored."""
    failure = recorded(make())
    for secret in (b"abcdefghijkl", b"0123456789abcdef", b"k3y0123456789abcdef", b"what was sent"):
        assert secret not in failure.state, secret
    assert not failure.round_trips


def test_a_rule_finds_the_fields_of_a_body(make):
    """A rule by key masks a field inside the body of an error's response."""
    rules = Redaction.from_rules([{"key": "email", "action": "mask"}])
    again = rebuild(recorded(make(), rules))
    assert "ann@" not in again.response.text
    assert again.response.json()["code"] == "taken"


def test_at_level_digest_no_body_is_kept(make):
    """Status and headers come back, the body does not."""
    failure = recorded(make(), Redaction.default(level=CaptureLevel.DIGEST))
    assert b"taken" not in failure.state
    assert rebuild(failure).response.status_code == 409


@pytest.mark.parametrize("body", [b"", b"plain text", "späte".encode(), b'{"a":1}', b'{"a": "\xc3\xa9"}', b"[1, 2.5]"])
def test_a_body_comes_back_byte_for_byte(make, body):
    """Text, and JSON in the forms that clients and servers write."""
    assert rebuild(recorded(make(body=body, headers=[]))).response.content == body


def test_json_of_another_form_comes_back_as_its_value(make):
    """JSON with line breaks comes back equal in value."""
    body = json.dumps({"a": [1, {"b": None}]}, indent=2).encode()
    assert rebuild(recorded(make(body=body))).response.json() == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("body", [b"\xff\xfe\x00binary", b"x" * 20_000])
def test_a_body_that_is_no_text_or_too_large_is_not_kept(make, body):
    """It is absent, and noted, but the status is there."""
    failure = recorded(make(body=body))
    assert len(failure.state) < 5_000
    assert rebuild(failure).response.status_code == 409


@pytest.mark.parametrize("package", [httpx, httpx2])
def test_a_body_that_nobody_read_is_asked_for_in_vain(package):
    """As in the recorded process, the client says that the body was not read."""
    response = package.Response(409, stream=package.ByteStream(b"later"), request=package.Request("GET", URL))
    again = decode(encode(response).data)
    assert again.status_code == 409
    with pytest.raises(package.ResponseNotRead):
        again.content  # noqa: B018 - it is to raise


def test_a_packed_body_is_kept_unpacked():
    """A response says that it was packed, and its body is not unpacked a second time."""
    import gzip

    error = httpx_error(httpx2, body=gzip.compress(JSON), headers=[("content-encoding", "gzip")])
    again = rebuild(recorded(error))
    assert again.response.content == JSON
    assert again.response.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("kind", ["http_response", "http_request"])
def test_only_known_classes_are_made(kind):
    """Bytes that name another class, or one that is not loaded, give a text and make nothing."""
    tag = {
        "$type": kind, "class": "subprocess:Popen", "status": 200, "reason": "", "headers": [], "encoding": None,
        "method": "GET", "url": "http://x",
    }  # fmt: skip
    assert isinstance(decode(json.dumps(tag).encode()), KeptAsText)


def test_a_response_that_cannot_be_looked_into_is_kept_as_text():
    """A response that is not finished keeps its text, and the error its class."""
    bare = requests.Response()
    bare.headers = None
    assert isinstance(decode(encode(bare).data), KeptAsText)

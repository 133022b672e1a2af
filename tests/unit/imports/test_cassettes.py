"""Recordings of other tools: every form gives the same exchange, and none of them runs code."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
import yaml

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports import is_bare, read_exchanges

URL = "https://api.openai.com/v1/chat/completions"
ASKED = '{"model":"m","messages":[],"stream":true}'
SSE = 'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"é"},"finish_reason":"stop"}]}\n\n'
PARSED = {"object": "chat.completion", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
PACKED = gzip.compress(SSE.encode())
SSE_HEAD = {"Content-Type": ["text/event-stream; charset=utf-8"]}
GZIP_HEAD = {**SSE_HEAD, "Content-Encoding": ["gzip"]}


def vcr(response: dict, request: dict | None = None) -> dict:
    asked = request or {"method": "POST", "uri": URL, "headers": {"Accept": ["*/*"]}, "body": ASKED}
    return {"interactions": [{"request": asked, "response": {"status": {"code": 200, "message": "OK"}, **response}}]}


FORMS = {
    "vcr text": ("a.yaml", yaml.safe_dump(vcr({"headers": SSE_HEAD, "body": {"string": SSE}}))),
    "vcr packed": ("a.yml", yaml.safe_dump(vcr({"headers": GZIP_HEAD, "body": {"string": PACKED}}))),
    "vcr unpacked under a gzip head": ("a.yaml", yaml.safe_dump(vcr({"headers": GZIP_HEAD, "body": {"string": SSE}}))),
    "vcr packed without a head": ("a.yaml", yaml.safe_dump(vcr({"headers": SSE_HEAD, "body": {"string": PACKED}}))),
    "vcr json": ("a.json", json.dumps(vcr({"headers": SSE_HEAD, "body": {"string": SSE}}))),
    "vcr base64": (
        "a.json",
        json.dumps(vcr({"headers": GZIP_HEAD, "body": {"base64_string": base64.b64encode(PACKED).decode()}})),
    ),
    "vcr of httpx": ("a.yaml", yaml.safe_dump(vcr({"headers": {"content-type": "text/event-stream"}, "content": SSE}))),
    "test agent": (
        "a.json",
        json.dumps(
            {
                "request": {"method": "POST", "url": URL, "headers": {}, "body": ASKED},
                "response": {"status": {"code": 200}, "headers": {"Content-Type": "text/event-stream"}, "body": SSE},
            }
        ),
    ),
    "nock text": (
        "a.json",
        json.dumps(
            [
                {
                    "scope": "https://api.openai.com",
                    "method": "POST",
                    "path": "/v1/chat/completions",
                    "body": json.loads(ASKED),
                    "status": 200,
                    "response": SSE,
                    "rawHeaders": ["Content-Type", "text/event-stream"],
                }
            ]
        ),
    ),
    "nock hex": (
        "a.json",
        json.dumps(
            [
                {
                    "scope": "https://api.openai.com",
                    "method": "POST",
                    "path": "/v1/chat/completions",
                    "body": ASKED,
                    "status": 200,
                    "response": [PACKED[:30].hex(), PACKED[30:].hex()],
                    "responseHeaders": {"content-type": "text/event-stream", "content-encoding": "gzip"},
                }
            ]
        ),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_exchange(form, tmp_path):
    """Text, base64, hex, packed or not: the same request, and the same bytes of the answer."""
    name, text = FORMS[form]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    (exchange,) = read_exchanges(path)
    assert exchange.body == SSE.encode()
    assert (exchange.request.method, exchange.request.url, exchange.request_body) == ("POST", URL, ASKED.encode())
    assert (exchange.media_type, exchange.status) == ("text/event-stream", 200)
    assert exchange.source.startswith(str(path))
    assert not is_bare(path, [exchange])


def test_a_parsed_body_is_written_anew_and_says_so(tmp_path):
    """A body that the recorder parsed comes back as JSON, with a note that its exact bytes are gone."""
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(vcr({"headers": {}, "parsed_body": PARSED})), encoding="utf-8")
    (exchange,) = read_exchanges(path)
    assert json.loads(exchange.body) == PARSED
    assert "exact bytes are gone" in exchange.notes[0]


TAGGED = """
interactions:
- request:
    method: POST
    uri: u
    headers:
      ? !!python/object/apply:multidict._multidict.istr
      - Accept
      : - '*/*'
  response: {status: {code: 200}, headers: {}, body: {string: '{}'}}
"""


def test_names_written_with_python_tags_are_text(tmp_path):
    """Header names that an old recorder wrote as Python objects are read as the text in them."""
    path = tmp_path / "a.yaml"
    path.write_text(TAGGED, encoding="utf-8")
    (exchange,) = read_exchanges(path)
    assert exchange.request.headers == (("Accept", "*/*"),)


@pytest.mark.parametrize(
    "tag",
    ["!!python/object/apply:os.mkdir [{target}]", "!!python/object/new:os.mkdir [{target}]", "!!python/name:os.mkdir"],
)
def test_a_tag_never_runs_code(tag, tmp_path):
    """A YAML file that would make a folder when it is loaded unsafely makes none."""
    target = tmp_path / "made"
    path = tmp_path / "a.yaml"
    path.write_text(f"interactions:\n- {tag.format(target=target)}\n", encoding="utf-8")
    with pytest.raises(DamagedRecording):
        read_exchanges(path)
    assert not target.exists()


def test_a_document_that_explodes_is_refused(tmp_path):
    """Aliases that make a small file endless when it is written out are refused, and in little time and memory."""
    path = tmp_path / "a.yaml"
    lines = ["a0: &a0 [xxxxxxxxxxxxxxxx]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    lines += ["interactions:", "- request: {method: POST, uri: u}", "  response: {parsed_body: *a11}"]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DamagedRecording, match="MiB"):
        read_exchanges(path)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", "interactions: [", "no YAML"),
        ("a.yaml", "just: a mapping\n", "no `interactions`"),
        ("a.yaml", "interactions: [1]\n", "is no exchange"),
        ("a.json", "   ", "is empty"),
        ("a.json", json.dumps(vcr({"status": "often", "headers": {}, "body": {"string": "x"}})), "which is no number"),
        ("a.json", json.dumps(vcr({"headers": {}, "body": {"base64_string": "%%"}})), "no base64"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(name, text, says, tmp_path):
    """What cannot be read is named with its file, and never half taken."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DamagedRecording, match=says):
        read_exchanges(path)


def test_a_broken_packing_is_damage(tmp_path):
    """A gzip body that ends early is not taken for whole."""
    path = tmp_path / "answer.sse.gz"
    path.write_bytes(PACKED[:-12])
    with pytest.raises(DamagedRecording, match="cannot be unpacked"):
        read_exchanges(path)


def test_a_packed_body_that_was_cut_is_taken_as_far_as_it_came(tmp_path):
    """A recorder that was stopped in mid-stream keeps part of a gzip body: what came is read, and it is said."""
    path = tmp_path / "a.yaml"
    cut = gzip.compress(SSE.encode() * 50)[:-20]
    path.write_text(yaml.safe_dump(vcr({"headers": GZIP_HEAD, "body": {"string": cut}})), encoding="utf-8")
    (exchange,) = read_exchanges(path)
    assert (SSE.encode() * 50).startswith(exchange.body)
    assert "ends in the middle" in exchange.notes[0]


def test_a_body_that_fills_the_memory_is_refused(tmp_path):
    """A small file that unpacks to very much is refused before it has been unpacked."""
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(80 << 20), 1))
    with pytest.raises(DamagedRecording, match="more than 64 MiB"):
        read_exchanges(path)

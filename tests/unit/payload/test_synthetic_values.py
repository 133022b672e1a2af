"""Made-up values: of the same form, the same for the same value, in every way of writing it."""

from __future__ import annotations

import json
import zlib

import pytest

from otel_agent_replay.payload.body_texts import Said, replaced_body, texts_of
from otel_agent_replay.payload.personal import PersonalData, Replacement
from otel_agent_replay.payload.synthetic import CARD, EMAIL, PHONE, TEXT, SyntheticValues, is_luhn
from otel_agent_replay.payload.synthetic_redaction import SyntheticRedaction
from otel_agent_replay.protocols.event_stream import frames_of, written_frame

KNOWN = {"ann@example.org": EMAIL, "4111 1111 1111 1111": CARD, "+49 170 1234567": PHONE, "Jürgen Öz": TEXT}
REPLACE = Replacement(KNOWN, SyntheticValues(b"key"))
MAIL = REPLACE("ann@example.org")


def found(name, text):
    return dict(PersonalData().found(Said(name, text)))


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("", "write to ann@example.org.", {"ann@example.org": "email"}),
        ("", "call +49 170 1234567 or (555) 123-4567", {"+49 170 1234567": "phone", "(555) 123-4567": "phone"}),
        ("", "card 4111-1111-1111-1111", {"4111-1111-1111-1111": "card"}),
        ("", "no card 4111-1111-1111-1112, order 20251130", {}),
        ("customer_name", "Ann Lee", {"Ann Lee": "text", "Ann": "text", "Lee": "text"}),
        ("name", "search_flights", {}),
        ("tool_name", "Refund", {}),
        ("owner_name", "functions.weather", {}),
    ],
)
def test_what_is_personal(name, text, values):
    """Mail, phone and valid card numbers are found by form, names by their field; ids and tools are none."""
    assert found(name, text) == values


def test_values_of_the_users_own_are_found():
    """A field or a pattern that the user names is found like the built-in ones."""
    data = PersonalData(["^customer_id$"], [r"\bORD-\d+\b"])
    assert dict(data.found(Said("customer_id", "c_991"))) == {"c_991": "text"}
    assert dict(data.found(Said("", "see ORD-17"))) == {"ORD-17": "text"}


def test_a_value_is_one_in_all_its_spellings():
    """Capitals and the marks between digits change nothing but themselves."""
    assert REPLACE("ANN@EXAMPLE.ORG") == MAIL.upper()
    card = REPLACE("4111 1111 1111 1111")
    assert REPLACE("4111111111111111") == card.replace(" ", "")
    assert REPLACE("4111-1111-1111-1111") == card.replace(" ", "-")
    assert is_luhn(card.replace(" ", ""))
    assert card[:2] == "41"
    assert REPLACE("00491701234567") == "00491701234567"
    assert REPLACE("+491701234567") == REPLACE("+49 170 1234567").replace(" ", "")


def test_another_key_makes_other_values_and_the_same_key_the_same():
    """Values hang on the key alone."""
    same, other = Replacement(KNOWN, SyntheticValues(b"key")), Replacement(KNOWN, SyntheticValues(b"other"))
    assert same("ann@example.org") == MAIL != other("ann@example.org")


def test_only_whole_values_are_replaced():
    """A longer word or number that holds a value is another one."""
    for text in ("joann@example.org", "ann@example.organ", "14111111111111111", "Jürgen Özdemir", "sJürgen Öz"):
        assert REPLACE(text) == text


def body(data, media_type="application/json"):
    return replaced_body(data, media_type, REPLACE)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_json_is_replaced_as_it_is_written(ascii_only):
    """In values, keys and JSON inside of texts, escaped or not; nothing else of the body changes, nor its length."""
    inner = json.dumps({"who": "Jürgen Öz", "mail": "line\nann@example.org"}, ensure_ascii=ascii_only)
    value = {"ann@example.org": [inner, "Jürgen Öz\\", "\\u00fc"], "n": 4111111111111111}
    data = json.dumps(value, ensure_ascii=ascii_only, indent=1).encode()
    made = body(data)
    assert len(made) == len(data)
    read = json.loads(made)
    assert json.loads(read[MAIL][0]) == {"who": REPLACE("Jürgen Öz"), "mail": f"line\n{MAIL}"}
    assert read[MAIL][1:] == [REPLACE("Jürgen Öz") + "\\", "\\u00fc"]
    assert str(read["n"]) == REPLACE("4111111111111111")


def test_what_a_stream_spells_is_replaced_across_its_events():
    """A value in three pieces becomes the made-up one in three pieces of the same sizes; a piece alone is no value."""
    pieces = ["I know ann@ex", "ample", ".org and ann", "@example.orga"]
    lines = [json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in pieces]
    data = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()
    made = body(data, "text/event-stream")
    assert len(made) == len(data)
    said = [json.loads(line[6:])["choices"][0]["delta"]["content"] for line in made.decode().split("\n\n")[:-2]]
    assert [len(piece) for piece in said] == [len(piece) for piece in pieces]
    assert "".join(said) == f"I know {MAIL} and ann@example.orga"


def test_a_form_a_url_and_a_header_keep_their_writing():
    """Percent escapes stay percent escapes."""
    redaction = SyntheticRedaction(REPLACE)
    made = body(b"mail=ann%40example.org&n=J%C3%BCrgen+%C3%96z", "application/x-www-form-urlencoded").decode()
    assert made.startswith(f"mail={MAIL.replace('@', '%40')}&n=")
    assert len(made) == len("mail=ann%40example.org&n=J%C3%BCrgen+%C3%96z")
    url = redaction.url("https://shop.test/users/ann%40example.org?m=ann@example.org&card=4111111111111111")
    assert url == f"https://shop.test/users/{MAIL.replace('@', '%40')}?m={MAIL}&card={REPLACE('4111111111111111')}"
    assert redaction.headers([("x-user", "ann@example.org")]) == (("x-user", MAIL),)


def test_a_value_that_is_quoted_inside_a_text_is_replaced_there():
    """A link in a JSON value keeps its percent escapes, and a percent sign alone is left alone."""
    given = {"link": "https://shop.test/u/ann%40example.org/x", "rate": "100% of J%C3%BCrgen%20%C3%96z"}
    made = json.loads(body(json.dumps(given).encode()))
    assert made["link"] == f"https://shop.test/u/{MAIL.replace('@', '%40')}/x"
    assert made["rate"].startswith("100% of ")
    assert "rgen" not in made["rate"]
    assert len(made["rate"]) == len(given["rate"])
    assert dict(PersonalData().found(Said("", "/u/ann%40example.org"))) == {"ann@example.org": "email"}


def test_frames_of_aws_get_new_checksums():
    """A value spelled over two frames is replaced, and the frames can still be read."""
    from otel_agent_replay.boundary.http_coding import masked

    heads = {":event-type": "contentBlockDelta", ":message-type": "event", ":content-type": "application/json"}
    said = [
        json.dumps({"contentBlockIndex": 0, "delta": {"text": text}}).encode() for text in ("to ann@exam", "ple.org!")
    ]
    frames = [written_frame(heads, payload) for payload in said]
    made = masked(SyntheticRedaction(REPLACE), frames, "application/vnd.amazon.eventstream", ()).chunks
    read = list(frames_of(made))
    assert [frame.problem for frame in read] == [None, None]
    assert "".join(json.loads(frame.payload)["delta"]["text"] for frame in read) == f"to {MAIL}!"
    assert zlib.crc32(made[0][:-4]) == int.from_bytes(made[0][-4:], "big")


def test_bytes_that_are_no_text_are_left_alone():
    """An image is the same object."""
    data = bytes(range(256))
    assert body(data, "image/png") is data
    assert list(texts_of(data, "image/png")) == []

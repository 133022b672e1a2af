"""The user's rules: paths, keys, patterns; and what they leave alone."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal

import pydantic
import pytest

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import CaptureLevel
from otel_agent_replay.payload import Redaction, Rule, decode, decode_call, encode_call

JSON = "application/json"


class Customer(pydantic.BaseModel):
    name: str
    email: str


@dataclasses.dataclass
class Account:
    iban: str
    balance: Decimal


def with_rules(*rules: dict) -> Redaction:
    return Redaction.from_rules(rules, key=b"secret key")


def redacted(tree, *rules: dict):
    return json.loads(with_rules(*rules).body(json.dumps(tree).encode(), JSON))


def test_a_path_names_values():
    """A path strikes what it names and nothing else."""
    tree = {"messages": [{"content": {"ssn": "1234", "n": "1234"}}, {"content": "1234"}], "ssn": "1234"}
    rule = {"action": "mask", "path": "messages[*].content.ssn"}
    assert redacted(tree, rule) == {
        "messages": [{"content": {"ssn": "****", "n": "1234"}}, {"content": "1234"}],
        "ssn": "1234",
    }


@pytest.mark.parametrize(
    ("path", "struck"),
    [
        ("**.ssn", {"a.b.ssn", "ssn"}),
        ("a.*.ssn", {"a.b.ssn"}),
        ("a.**", {"a.b.ssn"}),
        ("$.ssn", {"ssn"}),
        ("list[1].x", {"list.1"}),
        ("list[*].x", {"list.0", "list.1"}),
        ("['odd.key']", {"odd"}),
    ],
)
def test_the_language_of_paths(path, struck):
    """`*`, `**`, positions, a leading `$` and quoted names mean what the docstring says."""
    tree = {
        "a": {"b": {"ssn": "value-1"}},
        "ssn": "value-2",
        "list": [{"x": "value-3"}, {"x": "value-4"}],
        "odd.key": "value-5",
    }
    out = json.dumps(redacted(tree, {"action": "mask", "path": path}))
    places = {"a.b.ssn": "value-1", "ssn": "value-2", "list.0": "value-3", "list.1": "value-4", "odd": "value-5"}
    assert {place for place, value in places.items() if value not in out} == struck


def test_actions_on_every_kind_of_value():
    """Masks and hashes keep the length in bytes where they can, dropped values become null, null stays."""
    tree = {"x": ["text", 1234, True, None, {"a": 1}, [1, 2], 5]}
    data = json.dumps(tree).encode()
    masked = with_rules({"action": "mask", "path": "x[*]"}).body(data, JSON)
    assert len(masked) == len(data)
    assert json.loads(masked) == {"x": ["****", "**", "**", None, "******", "****", 0]}
    assert redacted(tree, {"action": "drop", "path": "x[*]"}) == {"x": [None] * 7}
    hashed = redacted(tree, {"action": "hash", "path": "x[*]"})["x"]
    assert all(value is None or value.startswith("[hash:") for value in hashed)


def test_equal_values_have_equal_hashes_under_one_key():
    """A hash is the same for the same value and key, also when the value is escaped, and another under another key."""
    rule = {"action": "hash", "key": "^who$"}
    tree = [{"who": "Müller"}, {"who": "Müller"}, {"who": "Meier"}]
    one, two, three = (entry["who"].rstrip("*") for entry in redacted(tree, rule))
    assert one == two != three
    plain = with_rules(rule).body('[{"who":"Müller"}]'.encode(), JSON)
    assert json.loads(plain)[0]["who"].rstrip("*") == one
    other = Redaction.from_rules([rule], key=b"other").body(json.dumps(tree).encode(), JSON)
    assert one.encode() not in other


def test_rules_reach_into_the_arguments_of_a_tool_call():
    """JSON inside a text of JSON is walked with the path going on, and stays JSON."""
    arguments = json.dumps({"customer": {"phone": "+49 30 1234", "name": "Ann"}})
    tree = {"tool_calls": [{"function": {"name": "call", "arguments": arguments}}]}
    for rule in ({"action": "mask", "key": "^phone$"}, {"action": "drop", "path": "**.arguments.customer.phone"}):
        out = redacted(tree, rule)["tool_calls"][0]["function"]["arguments"]
        assert json.loads(out)["customer"]["name"] == "Ann"
        assert "1234" not in out


def test_patterns_strike_texts_and_whole_numbers_not_syntax():
    """A pattern strikes inside texts and keys, and numbers that it matches wholly; JSON stays JSON."""
    tree = {"id 4711": "see 4711!", "n": 4711, "m": 47110}
    out = redacted(tree, {"action": "mask", "pattern": "4711"})
    assert out == {"id ****": "see ****!", "n": "**", "m": 47110}


def test_patterns_see_through_escapes():
    """A pattern is matched against what the text means, not against how it is escaped."""
    for ascii_only in (True, False):
        data = json.dumps({"x": "Grüße, Jürgen\n!"}, ensure_ascii=ascii_only).encode()
        out = with_rules({"action": "mask", "pattern": "Jürgen\n"}).body(data, JSON)
        assert json.loads(out)["x"].startswith("Grüße, ")
        assert "rgen" not in json.loads(out)["x"]
        assert len(out) == len(data)


def test_values_that_a_provider_checks_are_spared():
    """Ids of tool calls, signatures and encrypted reasoning are left as they are by keys and patterns."""
    tree = {
        "id": "call_4711",
        "tool_call_id": "x4711",
        "content": [
            {"type": "thinking", "thinking": "4711", "signature": "sig4711=="},
            {"type": "redacted_thinking", "data": "enc4711"},
            {"type": "text", "data": "enc4711"},
        ],
        "encrypted_content": "g4711",
        "customer": {"id": "4711"},
    }
    out = redacted(tree, {"action": "mask", "pattern": "4711"}, {"action": "mask", "key": "sig|_id"})
    assert out["id"] == "call_4711"
    assert out["tool_call_id"] == "x4711"
    assert out["content"][0] == {"type": "thinking", "thinking": "****", "signature": "sig4711=="}
    assert out["content"][1]["data"] == "enc4711"
    assert out["content"][2]["data"] == "enc****"
    assert out["encrypted_content"] == "g4711"
    assert out["customer"]["id"] == "****"
    assert redacted(tree, {"action": "mask", "path": "tool_call_id"})["tool_call_id"] == "*****"


def test_typed_values_are_read_as_what_they_stand_for():
    """Paths and keys go through models, dataclasses, tuples and dicts with odd keys; the bytes still decode."""
    customer = Customer(name="Ann", email="ann@example.org")
    call = encode_call((customer, ("a", {"email": "x@example.org"})), {"who": {"email": "y@example.org", 3: "z"}})
    by_key = with_rules({"action": "mask", "key": "^email$"})
    (one, (_, two)), kwargs = decode_call(by_key.value_bytes(call.data))
    assert one == Customer(name="Ann", email="[masked]*******")
    assert two["email"] == kwargs["who"]["email"] == "[masked]*****"
    assert kwargs["who"][3] == "z"
    by_path = with_rules({"action": "drop", "path": "args[0].email"})
    (one, (_, two)), _ = decode_call(by_path.value_bytes(call.data))
    assert one.email is None
    assert two["email"] == "x@example.org"


def test_a_masked_object_of_the_codec_is_one_mask():
    """A rule on a value that is a tag masks the whole tag: what is left decodes."""
    call = encode_call((Account("DE02120300000000202051", Decimal("10.50")),), {})
    out = with_rules({"action": "mask", "key": "balance"}).value_bytes(call.data)
    account = decode(out)["args"][0]
    assert account.balance.startswith("[masked]")
    assert account.iban == "DE02120300000000202051"


def test_a_body_that_was_cut_off_is_still_redacted():
    """Rules strike in JSON that ends in the middle, a container that never closed included."""
    data = json.dumps({"a": {"secret_note": {"x": ["one", "two"]}}}).encode()
    redaction = with_rules({"action": "mask", "path": "a.secret_note"})
    for end in range(data.index(b"one"), len(data)):
        assert b"one" not in redaction.body(data[:end], JSON)


def test_streams_are_read_event_by_event_and_along_their_pieces():
    """Rules strike in each event, and in what the events spell out together."""
    events = [{"user": {"email": "ann@example.org"}}]
    events += [{"index": 0, "delta": {"partial_json": piece}} for piece in ('{"email": "ann@', "examp", 'le.org"}')]
    body = "".join(f"event: e\ndata: {json.dumps(event)}\r\n\r\n" for event in events).encode()
    for action in ("mask", "hash", "drop"):
        out = with_rules({"action": action, "key": "^email$"}).body(body, "text/event-stream; charset=utf-8")
        lines = [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: ")]
        spelled = "".join(line["delta"]["partial_json"] for line in lines[1:])
        assert "ann" not in spelled
        assert "examp" not in spelled
        assert "ann@" not in str(lines[0])
        assert json.loads(spelled).keys() == {"email"}


def test_forms_are_read_field_by_field():
    """A rule on a key strikes the field of a form; a credential by its field's name always goes."""
    body = b"q=x&phone=%2B49+1&client_secret=abc&grant_type=password"
    out = with_rules({"action": "mask", "key": "^phone$"}).body(body, "application/x-www-form-urlencoded")
    assert out == b"q=x&phone=*******&client_secret=***&grant_type=password"


def test_rules_apply_to_headers_parameters_and_variables():
    """A key rule strikes headers, query parameters and variables of that name."""
    redaction = with_rules({"action": "drop", "key": "(?i)^x-user"}, {"action": "hash", "key": "^email$"})
    assert redaction.headers([("X-User-Id", "5"), ("Accept", "*/*")]) == (("Accept", "*/*"),)
    url = redaction.url("https://x.org/a?email=ann%40example.org&q=1")
    assert url.startswith("https://x.org/a?email=hash-")
    assert url.endswith("&q=1")
    assert redaction.url(url) == url
    assert redaction.env("email", "ann@example.org")[1]


def test_at_level_full_only_credentials_go():
    """`full` keeps what the rules name; credentials go at every level."""
    redaction = with_rules({"action": "mask", "pattern": "Ann"})
    text = "Ann has sk-abcdefghijklmnop12345678"
    assert redaction.text(text) == "*** has [masked]*******************"
    assert redaction.at(CaptureLevel.FULL).text(text) == "Ann has [masked]*******************"


def test_what_one_level_learns_all_levels_know():
    """Secrets are shared by the levels of one configuration."""
    redaction = with_rules()
    redaction.at(CaptureLevel.FULL).learn("hunter2-hunter2")
    assert "hunter2" not in redaction.text("it is hunter2-hunter2")


def test_presets_are_patterns_by_name():
    """A preset stands for a pattern of personal data."""
    text = "Call +49 30 1234567, mail ann@example.org, SSN 123-45-6789, card 4111 1111 1111 1111, at 10.0.0.1"
    rules = [{"action": "mask", "preset": name} for name in ("phone", "email", "us_ssn", "payment_card", "ip_address")]
    out = with_rules(*rules).text(text)
    for private in ("1234567", "ann@", "123-45", "4111", "10.0"):
        assert private not in out
    assert out.startswith("Call ")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": "r", "action": "mask"}, "rule 'r' needs one of path, key, pattern; it has none"),
        ({"name": "r", "action": "mask", "key": "a", "path": "b"}, "rule 'r' needs one of .* has path and key"),
        ({"name": "r", "action": "shred", "key": "a"}, "rule 'r': action 'shred' is none of drop, mask, hash"),
        ({"name": "r", "key": "a"}, "rule 'r' has no action"),
        ({"name": "r", "action": "mask", "pattern": "("}, r"rule 'r': pattern '\(' is no regular expression"),
        ({"name": "r", "action": "mask", "path": "a..b"}, "rule 'r': path 'a..b' is not understood at"),
        ({"name": "r", "action": "mask", "kee": "a", "key": "a"}, "rule 'r' has unknown keys: kee"),
        ({"name": "r", "action": "mask", "preset": "dna"}, "preset 'dna' is none of email"),
        ({"action": "mask", "key": 5}, "rule '#1': key 5 is no text"),
        ("mask", "rule 1 is no table"),
    ],
)
def test_a_wrong_rule_is_named(table, message):
    """A rule that is wrong raises ConfigurationError with its name, the value and what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        Redaction.from_rules([table])


def test_a_rule_checks_itself():
    """A Rule made in code is checked like one from a file."""
    assert Rule("r", "mask", key="a").key == "a"
    with pytest.raises(ConfigurationError):
        Rule("r", "mask")


def test_every_hash_goes_by_the_key():
    """Equal values have equal hashes under one key and others under another: of a variable, a header, a URL, a body."""

    def hashes(key):
        rules = [{"action": "hash", "key": "(?i)^x?-?customer$"}, {"action": "hash", "pattern": r"patient-\d+"}]
        redaction = Redaction.from_rules(rules, key=key)
        return [
            redaction.env("CUSTOMER", "ann")[0],
            redaction.headers([("X-Customer", "ann")])[0][1],
            redaction.named("customer", "ann"),
            redaction.url("https://h.example/patient-17?customer=ann"),
            redaction.body(b'{"customer": "ann"}', "application/json").decode(),
            redaction.text("patient-17"),
        ]

    first, again, other = hashes(b"one"), hashes(b"one"), hashes(b"two")
    assert first == again
    assert not any("ann" in text or "patient-17" in text for text in first)
    assert all(one != another for one, another in zip(first, other, strict=True))

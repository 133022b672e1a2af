"""Credentials: the built-in rules, in headers, URLs, bodies, values, variables; and learnt secrets."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse

import pytest

from otel_agent_replay.model import CaptureLevel
from otel_agent_replay.payload import Redaction, decode_call, encode_call

JSON = "application/json"
KEY = "sk-proj-Qm3Zk8vXt0LrJb5YcWn9DhPq2Gf7TaUe4SoIx1Rw6KzVy"

TOKENS = [
    KEY,
    "sk-ant-api03-" + "aB3" * 20,
    "ghp_" + "a1B2" * 9,
    "github_pat_11ABCDEFG0" + "a1B2" * 10,
    "glpat-" + "a1B2" * 6,
    "AKIAIOSFODNN7EXAMPLE",
    "AIza" + "aB3_-" * 7,
    "ya29.a0AfH6SMBx" + "aB3" * 10,
    "xoxb-123456789012-abcdefABCDEF",
    "hf_" + "aB3x" * 9,
    "gsk_" + "aB3x" * 13,
    "xai-" + "aB3x" * 20,
    "sk_live_" + "aB3x" * 6,
    "SG." + "a1B2" * 5 + "ab." + "a1B2" * 10,
    "npm_" + "a1B2" * 9,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "around", ["{}", "key: {}.", '{{"x":"a\\n{}"}}', '{{"x": "{{\\"y\\": \\"{}\\"}}"}}', "u%3D{}&b"]
)
def test_tokens_are_known_by_their_shape(token, around):
    """A token of a known kind is masked in place, length kept, at every level."""
    body = around.format(token).encode()
    for level in CaptureLevel:
        out = Redaction.default(level=level).body(body, JSON)
        assert token.encode() not in out
        assert len(out) == len(body)
        assert out.startswith(body[: body.index(token.encode())])


@pytest.mark.parametrize(
    "body",
    [
        '{"password": "hunter2"}',
        '{"db_password":"hunter2"}',
        '{"clientSecret" : "hunter2"}',
        '{"api-key": "hunter2", "x": 1}',
        '{"arguments": "{\\"api_key\\": \\"hunter2\\"}"}',
        '{"arguments": "{\\"password\\":\\"hun\\\\\\"hunter2\\"}"}',
        '{"password": "a\\"hunter2"}',
        "postgres://app:hunter2@db.internal:5432/x",
        '{"dsn": "amqp://u:hunter2@q"}',
        "GET /x?access_token=hunter2-0&y=1",
        "https://b.s3.amazonaws.com/k?X-Amz-Signature=0hunter2hunter2&X-Amz-Date=1",
        "https://a.blob.core.windows.net/c?sv=1&sig=hunter2%2Bx1234",
        "export SERVICE_TOKEN=hunter2hunter2",
        "AccountKey=hunter2hunter2/abc==;",
        "Authorization: Bearer hunter2hunter2hunter2",
        "-----BEGIN PRIVATE KEY-----\nhunter2MIIEvQ\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\\nhunter2MIIEvQ",
    ],
)
def test_secrets_are_known_by_their_name(body):
    """A value is masked where its field, parameter, scheme or frame says that it is a secret."""
    out = Redaction.default().body(body.encode(), JSON)
    assert b"hunter2" not in out
    assert len(out) == len(body.encode())
    assert body.encode()[:6] == out[:6]


@pytest.mark.parametrize(
    "body",
    [
        '{"max_tokens": 1024, "usage": {"prompt_tokens": 12345}}',
        '{"logprobs": [{"token": "Hello", "logprob": -0.1}, {"token": "a-very-long-token-word"}]}',
        '{"type": "object", "properties": {"password": {"type": "string"}, "api_key": {"type": "string"}}}',
        '{"required": ["api_key", "token", "password"]}',
        "The passenger asked about the key points; a token of our esteem. It is no secret.",
        "result = sorted(items, key=lambda item: item.value_of_that_thing)",
        "client = OpenAI(api_key=os.environ['OPENAI_API_KEY'], password=get_password_from_vault())",
        '{"id": "call_q8Zk3mQhX2Lr9JtVb0YcWn5D", "model": "claude-sonnet-4-20250514"}',
        "task-oriented-dialogue-with-many-words and risk-based-approach-to-testing",
        "https://example.org/a@b/c and mail ann@example.org",
        "basic understanding of internationalization",
        '{"signature": "EqQBCgIYAhIkZGVmYXVsdC1zaWduYXR1cmUtdmFsdWU="}',
    ],
)
def test_ordinary_text_is_left_alone(body):
    """What only looks like a secret comes back as the same object."""
    data = body.encode()
    assert Redaction.default().body(data, JSON) is data


def test_credential_headers_are_left_out_and_learnt():
    """Headers that hold credentials are not stored, and their values are masked wherever they appear later."""
    redaction = Redaction.default()
    basic = base64.b64encode(b"ann:correct-horse").decode()
    kept = redaction.headers(
        [
            ("Authorization", "Bearer abcdefgh-plain"),
            ("X-API-Key", "plain-api-key"),
            ("Proxy-Authorization", f"Basic {basic}"),
            ("Cookie", "theme=dark; session=0123456789abcdef"),
            ("Set-Cookie", "sid=fedcba9876543210; Path=/; HttpOnly"),
            ("X-Company-Auth-Token", "company-token"),
            ("Content-Type", "application/json"),
            ("anthropic-version", "2023-06-01"),
        ]
    )
    assert kept == (("Content-Type", "application/json"), ("anthropic-version", "2023-06-01"))
    secrets = [
        "abcdefgh-plain",
        "plain-api-key",
        "correct-horse",
        "0123456789abcdef",
        "fedcba9876543210",
        "company-token",
    ]
    out = redaction.text(" ".join(["dark Path", *secrets]))
    assert out.startswith("dark Path ")
    assert not any(secret in out for secret in secrets)


def test_secrets_in_other_headers_are_masked():
    """A header that is kept is looked into."""
    redaction = Redaction.default()
    kept = dict(
        redaction.headers([("Location", "https://u:p@x.org/?sig=abc"), ("X-Debug", f"key {KEY}"), ("Date", "Mon")])
    )
    assert kept["Location"] == "https://x.org/?sig=masked"
    assert KEY not in kept["X-Debug"]
    assert kept["Date"] == "Mon"


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("https://user:pw@h.org:8443/p?q=1#f", "https://h.org:8443/p?q=1#f"),
        ("https://token@h.org/", "https://h.org/"),
        ("https://h.org/?key=abc&alt=sse", "https://h.org/?key=masked&alt=sse"),
        ("https://h.org/?a=%20b&API_KEY=x&c", "https://h.org/?a=%20b&API_KEY=masked&c"),
        ("https://h.org/?X-Amz-Signature=ab12&X-Amz-Date=1", "https://h.org/?X-Amz-Signature=masked&X-Amz-Date=1"),
        ("https://h.org/?q=monkey&keyword=x&max_tokens=5", "https://h.org/?q=monkey&keyword=x&max_tokens=5"),
        ("https://h.org/cb#access_token=abc&x=1", "https://h.org/cb#access_token=masked&x=1"),
        ("https://hooks.slack.com/services/T0/B0/abcd", "https://hooks.slack.com/services/masked"),
        (f"https://h.org/{KEY}/x", "https://h.org/masked/x"),
        ("https://h.org/?email=a@b.c", "https://h.org/?email=a@b.c"),
        ("/relative?token=abc", "/relative?token=masked"),
        ("", ""),
    ],
)
def test_urls(url, stored):
    """User information and secret parameters go; everything else stays byte for byte; twice is once."""
    redaction = Redaction.default()
    assert redaction.url(url) == stored
    assert redaction.url(stored) == stored


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "GITHUB_TOKEN", "SENTRY_DSN", "my_secret", "NPM_AUTH"],
)
def test_secret_variables_are_masked_and_learnt(name):
    """A variable with a secret's name is masked and its value known from then on."""
    redaction = Redaction.default()
    stored, masked = redaction.env(name, "some-secret-value")
    assert masked
    assert "secret" not in stored
    assert "some-secret-value" not in redaction.text("it says some-secret-value.")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", "/root"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "500"),
        ("USE_AUTH", "true"),
        ("KEYBOARD", "us"),
    ],
)
def test_ordinary_variables_are_kept(name, value):
    """Variables that hold no secret, and switches with a secret's name, are stored as they are."""
    assert Redaction.default().env(name, value) == (value, False)


def test_a_password_inside_a_variable_is_masked_and_learnt():
    """A connection URL keeps its shape and loses its password, which is known from then on in any form."""
    redaction = Redaction.default()
    stored, masked = redaction.env("DATABASE_URL", "postgres://app:p%40ss-word-1@db/x")
    assert (stored, masked) == ("postgres://app:[masked]*****@db/x", True)
    assert "p@ss-word-1" not in redaction.text("connect with p@ss-word-1")


def test_a_replay_without_the_secret_has_the_same_body():
    """The stored value of a secret variable, put into a body, is what the recorded body has in its place."""
    redaction = Redaction.default()
    secret = "some-secret-value"
    stored, _ = redaction.env("APP_TOKEN", secret)
    assert redaction.text(f"token {secret}!") == redaction.text(f"token {stored}!")


FORMS = {
    "plain": lambda secret: secret,
    "json": lambda secret: json.dumps(secret, ensure_ascii=False),
    "json ascii": json.dumps,
    "json in json": lambda secret: json.dumps(json.dumps({"x": secret})),
    "json with escaped slashes": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "url": lambda secret: urllib.parse.quote(secret, safe=""),
    "url with slashes": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "url in lower case": lambda secret: re.sub(
        "%..", lambda escape: escape[0].lower(), urllib.parse.quote(secret, safe="")
    ),
    "html": html.escape,
    "hex": lambda secret: secret.encode().hex(),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 for urls": lambda secret: base64.urlsafe_b64encode(b"\xff\xfe" + secret.encode() + b"\xff").decode(),
    "base64, one before": lambda secret: base64.b64encode(b"u" + secret.encode() + b" tail").decode(),
    "base64, two before": lambda secret: base64.b64encode(b"u:" + secret.encode()).decode(),
}


@pytest.mark.parametrize(
    "secret", ['pa/ss"wörd\\+&<x>', "Tr0ub4dor&3", "0123456789abcdef0123456789abcdef", "line1\nline2 ü"]
)
@pytest.mark.parametrize("form", FORMS)
def test_learnt_secrets_are_found_in_every_form(secret, form):
    """A learnt secret is masked however a body spells it."""
    redaction = Redaction.default()
    redaction.learn(secret)
    spelled = FORMS[form](secret)
    out = redaction.body(f"before {spelled} after".encode(), "text/plain").decode()
    assert out.startswith("before ")
    assert out.endswith(" after")
    core = spelled.strip('"').rstrip("=")
    assert core not in out
    assert len(core) < 24 or core[6:-6] not in out


def test_short_secrets_are_not_learnt():
    """A secret of fewer than six characters would mask ordinary words."""
    redaction = Redaction.default()
    redaction.learn("user")
    assert redaction.text("the user") == "the user"


def test_a_secret_cut_in_two_is_found():
    """A secret that is split over two chunks at any place is in neither, and the boundaries stay where they were."""
    body = json.dumps({"text": f"it is {KEY}, keep it"}).encode()
    redaction = Redaction.default()
    for place in range(len(body) + 1):
        chunks = redaction.chunks([body[:place], body[place:]], JSON)
        assert [len(chunk) for chunk in chunks] == [place, len(body) - place]
        assert KEY.encode() not in b"".join(chunks)


def test_clean_chunks_come_back_as_they_are():
    """When nothing is masked the very same chunks come back."""
    chunks = [b'{"a": ', b"", b"1}"]
    assert all(new is old for new, old in zip(Redaction.default().chunks(chunks, JSON), chunks))


def test_typed_values_lose_their_secrets_and_decode():
    """A secret among a call's arguments is masked, in text, in bytes and under a telling name."""
    redaction = Redaction.default()
    call = encode_call((KEY, KEY.encode(), {"password": "hunter2", "n": (1,)}), {"url": f"https://x/?k={KEY}"})
    args, kwargs = decode_call(redaction.value_bytes(call.data))
    assert args[0] == args[1].decode() == "[masked]" + "*" * (len(KEY) - 8)
    assert args[2] == {"password": "*******", "n": (1,)}
    assert KEY not in kwargs["url"]


def test_binary_bodies_are_looked_into():
    """A credential inside bytes that are no text is found; the rest is untouched."""
    body = b"\xff\x00\x89PNG\x00" + KEY.encode() + b"\x00\xfe" * 50
    out = Redaction.default().body(body, "application/octet-stream")
    assert KEY.encode() not in out
    assert out[:6] == body[:6]
    assert out[-100:] == body[-100:]


def test_a_secret_learnt_later_is_found_in_a_body_that_was_clean():
    """What was found clean before a secret was learnt is looked at again."""
    redaction = Redaction.default()
    body = json.dumps({"messages": ["words " * 2_000, "the code is blue-giraffe-7"]}).encode()
    assert redaction.body(body, JSON) is body
    redaction.learn("blue-giraffe-7")
    assert b"blue-giraffe" not in redaction.body(body, JSON)

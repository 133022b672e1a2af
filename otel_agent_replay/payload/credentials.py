"""What a credential looks like: the built-in rules, always on.

Owns the shapes of keys, tokens and passwords, and the names of headers, query parameters, variables and fields
that hold them. Nearly every body is clean, so `find` first looks for what a credential cannot do without (a long
run of letters and digits, a telling word) with searches at C speed, and tries a pattern only there.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import lru_cache

from otel_agent_replay.patterns import late

HEADERS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "cookie2",
        "set-cookie2",
        "x-api-key",
        "api-key",
        "apikey",
        "x-goog-api-key",
        "x-goog-iam-authorization-token",
        "x-amz-security-token",
        "x-amz-credential",
        "x-auth-token",
        "x-access-token",
        "x-auth-key",
        "x-csrf-token",
        "x-xsrf-token",
        "x-vault-token",
        "x-figma-token",
        "x-subscription-token",
        "x-functions-key",
        "x-github-token",
        "private-token",
        "job-token",
        "ocp-apim-subscription-key",
        "openai-api-key",
        "anthropic-api-key",
        "cf-access-client-secret",
        "dd-api-key",
        "dd-application-key",
    }
)
"""Headers that are never stored, in lower case."""

_HEADER = late(
    r"(?:^|-)(?:api-?key|auth|authorization|authentication|(?<!per-)token|secret|password|signature|credential|session)\Z"
)
_QUERY = late(
    r"(?:^|[-_.])(?:api[-_]?key|apikey|key|(?:access|auth|refresh|id|session|security|bearer)?[-_]?token|sig|signature|"
    r"secret|client[-_]?secret|passw(?:or)?d|pwd|credential|auth|authorization|jwt|code[-_]verifier|assertion)\Z"
)
_VARIABLE = late(
    r"(?:^|_)(?:API_?KEY|(?:ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION|ACCOUNT|MASTER|AUTH)_?KEY(?:_ID)?|KEY|TOKEN|SECRETS?|"
    r"PASSWORD|PASSWD|PASS|PWD|PASSPHRASE|CREDENTIALS?|AUTH|AUTHORIZATION|COOKIE|SIGNATURE|SALT|DSN|CONN(?:ECTION)?_STR"
    r"(?:ING)?|SAS|WEBHOOK_URL|PAT)\Z"
)
_NOT_SECRET = frozenset({"", "0", "1", "true", "false", "yes", "no", "on", "off", "none", "null", "default", "auto"})


@lru_cache(1_024)
def is_header(name: str) -> bool:
    """Return whether a header of this name (lower case) holds a credential."""
    return name in HEADERS or _HEADER.search(name) is not None


def is_query_name(name: str) -> bool:
    """Return whether a query parameter of this name (any case) holds a credential."""
    return _QUERY.search(name.lower()) is not None


def is_secret_variable(name: str, value: str) -> bool:
    """Return whether an environment variable holds a secret, by its name; switches and the empty text are none."""
    return _VARIABLE.search(name.upper()) is not None and value.strip().lower() not in _NOT_SECRET


# --- shapes -----------------------------------------------------------------------------------------------

_SHAPES: tuple[tuple[bytes, bytes], ...] = (  # how a token begins, and how it goes on
    (rb"sk-", rb"(?=[\w-]{0,60}\d)[\w-]{16,}"),  # OpenAI, Anthropic, DeepSeek, OpenRouter, Langfuse, LiteLLM
    (rb"[rs]k_(?:live|test)_", rb"\w{16,}"),  # Stripe
    (rb"whsec_", rb"[\w+/]{16,}"),
    (rb"gh[pousr]_", rb"\w{20,}"),
    (rb"github_pat_", rb"\w{22,}"),
    (rb"gl(?:pat|dt|rt|ptt|cbt)-", rb"[\w-]{20,}"),
    (rb"(?:AKIA|ASIA|ABIA|ACCA)", rb"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    (rb"AIza", rb"[\w-]{35}"),
    (rb"ya29\.", rb"[\w-]{20,}"),
    (rb"GOCSPX-", rb"[\w-]{20,}"),
    (rb"xox[abeoprs]-", rb"[\w-]{10,}"),
    (rb"xapp-", rb"\d-[\w-]{16,}"),
    (rb"hf_", rb"[A-Za-z0-9]{30,}"),
    (rb"gsk_", rb"[A-Za-z0-9]{20,}"),
    (rb"xai-", rb"[A-Za-z0-9]{20,}"),
    (rb"pplx-", rb"[A-Za-z0-9]{20,}"),
    (rb"r8_", rb"[A-Za-z0-9]{30,}"),
    (rb"tvly-", rb"(?=[\w-]{0,60}\d)[\w-]{16,}"),
    (rb"nvapi-", rb"[\w-]{30,}"),
    (rb"lsv2_(?:pt|sk)_", rb"\w{20,}"),
    (rb"npm_", rb"[A-Za-z0-9]{30,}"),
    (rb"pypi-", rb"[\w-]{30,}"),
    (rb"SG\.", rb"[\w-]{16,}\.[\w-]{16,}"),
    (rb"do[opr]_v1_", rb"[0-9a-f]{40,}"),
    (rb"hv[sbr]\.", rb"[\w-]{20,}"),
    (rb"dapi", rb"[0-9a-f]{32}"),
    (rb"eyJ", rb"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{8,}"),  # JSON Web Token
)
# The same heads, grouped by their first letter: this runs over every long run of letters.
_HEAD = late(
    rb"[rs]k[-_]|whsec_|g(?:h[pousr]_|ithub_|l[a-z]|sk_)|A[KSBCI][IACz]|x(?:ox|a[pi])|h(?:f_|v[sbr]\.)|p(?:plx|ypi)-|n(?:vapi-|pm_)|"
    rb"d(?:o[opr]_|api)|eyJ|lsv2_|r8_|tvly-|ya29\.|SG\.|GOCSPX-"
)
# A token begins where no letter or digit stands before it, but for one of an escape (`\n`, `\u003d`, `%3D`).
_BEGIN = rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
_TOKEN = late(_BEGIN + rb"(?:" + b"|".join(head + rest for head, rest in _SHAPES) + rb")")
_HEAD_OUTSIDE = 5  # bytes of the longest head that ends in a dot, which is not part of the run
_LONG_RUN = 256
"""Bytes from which on a run is looked through for the few heads that it can hold, not tried at each byte."""
_HEADS_WITHOUT_DASH = ((b"A", (b"AKIA", b"ASIA", b"ABIA", b"ACCA", b"AIza")), (b"J", (b"eyJ",)), (b"d", (b"dapi",)))
"""By a letter of theirs: one byte is found at ten times the speed of several."""

WORD_BYTES = (string.ascii_letters + string.digits + "_-").encode()
_MARKS = bytes(ord("x") if byte in WORD_BYTES else ord(" ") for byte in range(256))
LONG = 20
"""No token is found that has a shorter unbroken run of letters, digits, dashes and underscores."""
_RUN = b"x" * LONG
_RUN_OF_TEXT = "x" * LONG

_SCHEME = late(rb"(?i)(?:bearer|basic)\Z")
_SCHEME_VALUE = late(rb"(?=[\w.~+/-]*[\d=])[\w.~+/-]{20,}=*")


def runs_of(data: bytes) -> list[tuple[int, int]]:
    """Return the ranges of at least LONG letters, digits, dashes and underscores in a row."""
    marks = data.translate(_MARKS)
    runs = []
    start = marks.find(_RUN)
    while start >= 0:
        end = marks.find(b" ", start)
        if end < 0:
            end = len(data)
        runs.append((start, end))
        start = marks.find(_RUN, end)
    return runs


def _add_tokens(data: bytes, runs: list[tuple[int, int]], found: list[tuple[int, int]]) -> None:
    """Find tokens by their own shape or their scheme (`Bearer ...`)."""
    begins = _HEAD.search
    for start, end in runs:
        first = start - _HEAD_OUTSIDE if start > _HEAD_OUTSIDE else 0
        if begins(data, first, end) if end - start < _LONG_RUN else _long_has_head(data, first, start, end):
            for head in _HEAD.finditer(data, first, end):
                token = _TOKEN.match(data, head.start())
                if token is not None:
                    found.append(token.span())
        if data[start - 1 : start] == b" " and _SCHEME.search(data, max(0, start - 7), start - 1):
            value = _SCHEME_VALUE.match(data, start)
            if value is not None:
                found.append(value.span())


def _long_has_head(data: bytes, first: int, start: int, end: int) -> bool:
    """Whether a token may begin in a long run, or at the letters from `first` on that end in a dot before it."""
    if data.find(b"_", start, end) >= 0 or data.find(b"-", start, end) >= 0:
        return _HEAD.search(data, first, end) is not None
    # All other heads hold a dash or an underscore, or end in a dot just before the run.
    return _HEAD.search(data, first, start) is not None or any(
        data.find(letter, start, end) >= 0 and any(data.find(head, start, end) >= 0 for head in heads)
        for letter, heads in _HEADS_WITHOUT_DASH
    )


# --- names that hold a credential, in text ------------------------------------------------------------------

_NEEDLES = (b"pass", b"secret", b"credential", b"authorization", b"key", b"token")
_ASSIGNED_NEEDLES = (b"signature=", b"sig=")

_NAME = late(
    rb"(?:password|passwd|passphrase|secret|credentials?|authorization|"
    rb"(?:api|access|private|secret|signing|encryption|account|shared_?access|subscription|master)[_-]?key|"
    rb"(?:access|refresh|id|auth|session|bearer|api|secret|security|csrf)[_-]?token|shared_?access_?signature)\Z"
)
_ASSIGNED_NAME = late(
    rb"(?:\A(?:x-amz-|x-goog-)?(?:signature|sig|credential))\Z|(?-i:[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD))\Z",
    re.IGNORECASE,
)
# What follows the needle: a field of JSON, one of JSON inside a text of JSON (a tool call's arguments), an assignment.
_VALUE = late(
    rb"([a-z]+)"
    rb'(?:"\s*:\s*(?:"((?:[^"\\]|\\.)+)"|(\d{3,}))'
    rb'|\\"\s*:\s*(?:\\"((?:[^"\\]|\\\\(?:\\["\\]|[^"\\]))+)\\"|(\d{3,}))'
    rb"|=(?=[^&;\s\"'\\<>(){}\[\]$,]*\d)([^&;\s\"'\\<>(){}\[\]$,=][^&;\s\"'\\<>(){}\[\]$,]{7,})"
    rb'|(\\{3,})"\s*:\s*\7"(.{1,4096}?)(?<!\\)\7")',  # JSON in a text in a text of JSON, at any depth
    re.IGNORECASE | re.DOTALL,
)
_ASSIGNED = 6  # the group of an assignment's value
_NAME_BYTES = WORD_BYTES + b"."
_LONGEST_NAME = 64
# Of a field called just `token`: models list their own tokens, which are words, under that name.
_RANDOM = late(rb"(?=.*\d)[\w.~+/=-]{20,}\Z", re.DOTALL)
_ESCAPE = late(rb"u[0-9a-fA-F]{4}|[nrtbf]")


def _add_named(data: bytes, found: list[tuple[int, int]]) -> None:
    """Find values by the name before them."""
    lowered = data.lower()
    for needle in _NEEDLES:
        if needle in lowered:
            _add_values(data, lowered, needle, found)
    if b"=" in data:
        for needle in _ASSIGNED_NEEDLES:
            _add_values(data, lowered, needle, found)


def _add_values(data: bytes, lowered: bytes, needle: bytes, found: list[tuple[int, int]]) -> None:
    at = lowered.find(needle)
    while at >= 0:
        value = _VALUE.match(data, at)
        if value is not None and _names_a_credential(data, at, value):
            found.append(value.span(value.lastindex or 0))
        at = lowered.find(needle, at + 1)


def _names_a_credential(data: bytes, at: int, value: re.Match[bytes]) -> bool:
    before = data[max(0, at - _LONGEST_NAME) : at]
    start = at - len(before) + len(before.rstrip(_NAME_BYTES))
    if data[start - 1 : start] == b"\\" and (escape := _ESCAPE.match(data, start)) is not None:
        start = escape.end()  # `\nAPI_KEY=`, `\u0026sig=`
    name = data[start : value.end(1)]
    if _NAME.search(name.lower()):
        return True
    if value.lastindex == _ASSIGNED:
        return _ASSIGNED_NAME.search(name) is not None
    found = value[value.lastindex or 0]
    return name.lower() == b"token" and _RANDOM.match(found) is not None


# --- the rest: passwords in URLs, private keys --------------------------------------------------

_PASSWORD_IN_URL = late(rb"[^\s/:@\"'\\<>?#]{0,128}:([^\s/@\"'\\<>?#]{1,256})\Z")
_LONGEST_USERINFO = 400
_PRIVATE_KEY = late(rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----((?:[A-Za-z0-9+/=\s]|\\+[nr])+)")

REACH = 1_024
"""No credential needs more bytes than this to be seen for one; it may go on for longer."""


def _passwords_in_urls(data: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(b"@")
    while at >= 0:
        begin = data.rfind(b"://", max(0, at - _LONGEST_USERINFO), at)
        if begin >= 0 and (password := _PASSWORD_IN_URL.match(data, begin + 3, at)) is not None:
            yield password.span(1)
        at = data.find(b"@", at + 1)


def is_plain(data: bytes, runs_apart: bool = False) -> bool:
    """Return whether there is nothing in `data` that a credential cannot do without. Much quicker than `find`.

    With `runs_apart` only words and signs count, by which a value or a URL tells that it is a credential: of runs as
    long as a token the caller knows. False says nothing: most telling words are innocent.
    """
    # Looking into text takes a third of the time of looking into bytes.
    if not runs_apart and _RUN_OF_TEXT in data.translate(_MARKS).decode("latin-1"):
        return False
    text = data.lower().decode("latin-1")
    if "=" in text or "@" in text or "pass" in text:
        return False
    if "ke" in text and (
        "key" in text  # also of PRIVATE KEY
        or ("token" in text and text.count("token") != text.count("tokens"))  # a count of them is no credential
    ):
        return False
    if "cre" in text and ("secret" in text or "credential" in text):
        return False
    return not ("z" in text and "authorization" in text)


def has_no_token(data: bytes) -> bool:
    """Return whether nothing in `data` has the shape of a token, nor follows a scheme like one."""
    found: list[tuple[int, int]] = []
    _add_tokens(data, runs_of(data), found)
    return not found


def find(data: bytes, runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges of credentials in `data`, in no order; they may overlap. `runs` is `runs_of(data)`.

    About 8 ns a byte of clean text.
    """
    found: list[tuple[int, int]] = []
    if runs:
        _add_tokens(data, runs, found)
    if is_plain(data, True):
        return found
    _add_named(data, found)
    if b"@" in data and b"://" in data:
        found += _passwords_in_urls(data)
    if b"PRIVATE KEY" in data:
        found += [match.span(1) for match in _PRIVATE_KEY.finditer(data)]
    return found

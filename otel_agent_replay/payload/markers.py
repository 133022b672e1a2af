"""What no credential can do without, as expressions that a fast scanner can look for in a whole request at once.

Owns the coarse question "may anything in these bytes have to be masked?", for bytes that hold many texts one after the
other, like a protobuf message. It errs on one side only: what `Redaction` would change with the built-in rules, one of
these finds (but for a query parameter whose name has escaped letters in it, `%6Bey=`, which no program writes); what
they find is mostly innocent. Written in what Python, RE2 and Hyperscan have in common. `credentials` owns the exact
rules: a shape or a name added there needs its marker here (a law in the tests says so).
"""

from __future__ import annotations

# A name is told by what may follow it: a quote, an escape or an equals sign in a text, in a protobuf message the tag of
# the value or, where the name comes last, of whatever OTLP field can follow an attribute.
_AFTER_NAME = rb'[\n\x12\x1a"\\=JPZ`jpz\x85]'
_NAMES = (
    rb"pass[a-z]{0,12}",
    rb"secrets?",
    rb"credentials?",
    rb"authorization",
    rb"authentication",
    rb"auth",
    rb"key",
    rb"token",
    rb"signature",
    rb"sig",
    rb"cookie2?",
    rb"session",
    rb"pwd",
    rb"jwt",
    rb"verifier",
    rb"assertion",
)
ANY_CASE: tuple[bytes, ...] = (
    *(rb"(?:" + name + rb")(?:" + _AFTER_NAME + rb"|$)" for name in _NAMES),
    rb"bearer [\w.~+/-]{20}",
    rb"basic [\w.~+/-]{20}",
)
"""Expressions that are to be found in whatever case."""

EXACT_CASE: tuple[bytes, ...] = (
    rb"sk-[\w-]{16}",
    rb"[rs]k_(?:live|test)_",
    rb"whsec_",
    rb"gh[pousr]_\w{16}",
    rb"github_pat_",
    rb"gl(?:pat|dt|rt|ptt|cbt)-",
    rb"A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}",
    rb"AIza[\w-]{16}",
    rb"ya29\.",
    rb"GOCSPX-",
    rb"xox[abeoprs]-[\w-]{10}",
    rb"xapp-\d",
    rb"hf_[A-Za-z0-9]{20}",
    rb"gsk_[A-Za-z0-9]{20}",
    rb"xai-[A-Za-z0-9]{20}",
    rb"pplx-[A-Za-z0-9]{20}",
    rb"r8_[A-Za-z0-9]{20}",
    rb"tvly-[\w-]{16}",
    rb"nvapi-[\w-]{16}",
    rb"lsv2_(?:pt|sk)_",
    rb"npm_[A-Za-z0-9]{20}",
    rb"pypi-[\w-]{20}",
    rb"SG\.[\w-]{16}",
    rb"do[opr]_v1_",
    rb"hv[sbr]\.[\w-]{16}",
    rb"dapi[0-9a-f]{32}",
    rb"eyJ[\w-]{10}",
    rb"PRIVATE KEY",
    rb"://[^/?# ]*@",  # who asks, in a URL; with or without a password
    rb"hooks\.slack\.com/services/",
    rb"/bot[0-9]{6}",
    rb"/api/webhooks/",
    rb"\n\x03env\x12",  # a variable that our recorder read, in its protobuf: its name tells, whatever its value is
    rb'"candidates"',  # a stream as one JSON array: a secret in it may be cut into pieces
)
"""Expressions of which the case matters."""

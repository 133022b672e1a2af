"""What stands in the place of what was taken out, and how a body is changed there.

A mask is as long as what it replaces where it can be, so that lengths and chunk boundaries hold. Masks are
recognised again: a second redaction changes nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from otel_agent_replay.patterns import late

MASK = "[masked]"
"""What is stored where no length need be kept: environment values, header values."""

URL_MASK = "masked"
"""The same inside a URL, where brackets mean something."""

_HASH_DIGITS = 16
MASKED = late(r"\[(?:masked|hash:[0-9a-f]{16})\]\**")
_ONLY_MASK = late(r"(?:\[(?:masked|hash:[0-9a-f]{16})\])?\**\Z")


def mask_of(length: int) -> str:
    """Return a mask of `length` ASCII characters."""
    return "*" * length if length < len(MASK) else MASK + "*" * (length - len(MASK))


def hash_of(value: bytes, key: bytes) -> str:
    """Return the keyed hash that stands for `value`: equal values give equal text under one key.

    HMAC-SHA256 cut to 64 bits, then filled up to the length of `value` in bytes where that is longer.
    """
    digits = hmac.new(key, value, hashlib.sha256).hexdigest()[:_HASH_DIGITS]
    return f"[hash:{digits}]".ljust(len(value), "*")


def is_mask(text: str) -> bool:
    """Return whether `text` is a mask (or nothing) already."""
    return _ONLY_MASK.match(text) is not None


class Edit(NamedTuple):
    """One replacement in a body: bytes `start` to `end` become `replacement`."""

    start: int
    end: int
    replacement: bytes


def in_order(data: bytes, edits: Iterable[Edit]) -> list[Edit]:
    """Return the edits that change `data`, in order and disjoint.

    Of two where one lies inside the other the outer is kept; two that overlap otherwise become one mask over both,
    so that no end of a secret is left standing.
    """
    merged: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if edit.end <= edit.start:
            continue
        if merged and edit.start < merged[-1].end:
            last = merged[-1]
            if edit.end > last.end:
                merged[-1] = Edit(last.start, edit.end, mask_of(edit.end - last.start).encode())
        else:
            merged.append(edit)
    return [edit for edit in merged if data[edit.start : edit.end] != edit.replacement]


def apply(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Return `data` with ordered, disjoint edits made."""
    parts: list[bytes] = []
    reached = 0
    for start, end, replacement in edits:
        parts += (data[reached:start], replacement)
        reached = end
    parts.append(data[reached:])
    return b"".join(parts)


def move_cuts(cuts: Sequence[int], edits: Sequence[Edit]) -> list[int]:
    """Return where the ordered positions `cuts` lie after ordered edits; one inside an edit stays inside it."""
    moved = []
    shift = 0
    number = 0
    for cut in cuts:
        while number < len(edits) and edits[number].end <= cut:
            shift += len(edits[number].replacement) - (edits[number].end - edits[number].start)
            number += 1
        at = cut + shift
        if number < len(edits) and edits[number].start < cut:
            at = edits[number].start + shift + min(cut - edits[number].start, len(edits[number].replacement))
        moved.append(at)
    return moved


def cuts_of(chunks: Sequence[bytes]) -> list[int]:
    """Return the end of each chunk in the concatenation."""
    return list(accumulate(map(len, chunks)))


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Return `data` in pieces that end at `cuts`."""
    return [data[start:end] for start, end in zip([0, *cuts], cuts, strict=False)]

"""Whether a redaction rule stands between two recordings: equal masks do not mean equal values. Pure.

A keyed hash (`[hash:...]`) and a made-up value differ where their values do, so only plain masks hide anything.
"""

from __future__ import annotations

import json
import re
from typing import Any

from otel_agent_replay.model import Node, RecordedRun, Run
from otel_agent_replay.payload.masks import MASK

_PLAIN = re.compile(re.escape(MASK) + r"\**")
_PLAIN_BYTES = re.compile(_PLAIN.pattern.encode())
_IN_URL = re.compile(r"=masked(?=&|#|$)")


def may_be_equal(before: Any, after: Any) -> bool:
    """Return whether two differing values may have been equal before a mask was put into one of them, or both.

    >>> may_be_equal("to [masked], today", "to ann@example.org, today")
    True
    >>> may_be_equal("to [masked], today", "to ann@example.org, tomorrow")
    False
    """
    one, other = _text(before), _text(after)
    return _fits(one, other) or _fits(other, one)


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return ""  # nothing is there on this side


def _fits(masked: str, text: str) -> bool:
    """Whether `text` is `masked` with something in the place of each mask, of which there is one at least."""
    first, *pieces = _PLAIN.split(masked)
    if not pieces or not text.startswith(first):
        return False
    at, last = len(first), pieces.pop()
    for piece in pieces:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(text) - len(last) >= at and text.endswith(last)


def masks_asked(run: RecordedRun, node: Node) -> int:
    """Return how many values of what a step asked were replaced by a mask."""
    call = node.call
    if call is None:
        return 0
    data = run.bytes_of(call.request)
    in_url = 0 if call.head is None else len(_IN_URL.findall(call.head.url))
    return in_url + (0 if data is None else len(_PLAIN_BYTES.findall(data)))


def related(a: Run, b: Run) -> bool:
    """Return whether one run replays the other, or both replay a third: then their inputs are the same ones."""
    origins = {run.origin_run_id or run.run_id for run in (a, b)}
    return len(origins) == 1

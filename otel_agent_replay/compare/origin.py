"""Where the part of a request that differs came from: an earlier answer of the same run, or outside of it. Pure.

Told by its words, since a prompt seldom carries an answer byte for byte. An answer that only looks like the source is
not told from it, so this is evidence beside a cause, not the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from otel_agent_replay.model import STREAM_TYPES, Node, RecordedRun
from otel_agent_replay.payload.difference import Difference

_WORD = re.compile(r"[^\W_]{2,}")
_LOOKED_FOR = 20  # words
_SHOWN = 3


def origin_of(run: RecordedRun, asking: Node, places: Sequence[Difference]) -> str:
    """Return in a sentence where the words that only B's request has came from; "" where there are none.

    `run` is B, `asking` its step whose request differs at `places`.
    """
    words = _new_words(places)
    if not words:
        return ""
    shown = ", ".join(repr(word) for word in words[:_SHOWN])
    earlier = [node for node in run.nodes if 0 < node.end_sequence < asking.sequence and node.kind.is_crossing]
    for node in sorted(earlier, key=lambda node: node.end_sequence):
        answer = _answer(run, node)
        if any(word.encode() in answer for word in words):
            place = f"step {node.step} · " if node.step is not None else ""
            return f"its new words ({shown}) came first with the answer of {place}{node.kind} {node.name} in B"
    if not all(_is_plain(run, node) for node in earlier):
        return ""  # a word may stand in an answer that cannot be searched
    return f"its new words ({shown}) are in no earlier answer of B: they came from outside the recorded steps"


def _is_plain(run: RecordedRun, node: Node) -> bool:
    """Whether an answer was kept and its words stand in its bytes: not packed, and not spelled out piece by piece."""
    outcome = node.outcome
    if outcome is None or outcome.result is None or not outcome.result.size:
        return True
    names = () if outcome.head is None else outcome.head.headers
    packed = any(name.lower() == "content-encoding" and value.lower() != "identity" for name, value in names)
    stream = outcome.result.media_type.partition(";")[0].strip().lower() in STREAM_TYPES
    return not packed and not stream and bool(_answer(run, node))


def _new_words(places: Sequence[Difference]) -> list[str]:
    before = {word for place in places for word in _WORD.findall(_text(place.before))}
    after = [word for place in places for word in _WORD.findall(_text(place.after))]
    return list(dict.fromkeys(word for word in after if word not in before and word.isascii()))[:_LOOKED_FOR]


def _text(value: object) -> str:
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""


def _answer(run: RecordedRun, node: Node) -> bytes:
    payload = None if node.outcome is None else node.outcome.result
    if payload is None:
        return b""
    return payload.data if payload.data is not None else run.payload(payload.digest) or b""

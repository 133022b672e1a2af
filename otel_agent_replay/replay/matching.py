"""Whether a call is the recorded one, and if not, in what it differs and which recorded step comes nearest.

Pure: calls and bytes in, an answer or a `ReplayDeparture` out. The exact digest is looked up by `tape`; this
module owns what counts as equal beyond it and every word of the explanation. What differs between two
finished runs is `compare`'s business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from otel_agent_replay.errors import Candidate, ConfigurationError, ReplayDeparture
from otel_agent_replay.model import Call, HttpRequestHead, Kind, Read
from otel_agent_replay.model.exchange import MEANINGFUL_HEADERS
from otel_agent_replay.payload.canonical import canonical_json, is_json
from otel_agent_replay.payload.difference import differences

_STEP = re.compile(r"\*\*|\[\*\]|\[\d+\]|[^.\[\]]+")
_ADDRESS = re.compile(rb"\b0x[0-9a-f]{6,16}\b")
_BOUNDARY = re.compile(r'boundary="?([^";,]+)"?', re.IGNORECASE)
_LONGEST_LINE = 160
_MOST_DIFFERENCES = 50


class Volatile:
    """JSON paths whose values may differ: `metadata.request_id`, `messages[*].created`, `**.nonce`.

    Raises ConfigurationError for a path that cannot be read.
    """

    __slots__ = ("_paths", "paths")

    def __init__(self, paths: Sequence[str] = ()) -> None:
        self.paths = tuple(paths)
        self._paths: list[list[str]] = []
        for path in self.paths:
            parts = _STEP.findall(path)
            if not parts or len("".join(parts)) + path.count(".") != len(path):
                raise ConfigurationError(f"volatile path {path!r} is not like `messages[*].created` or `**.nonce`")
            self._paths.append(parts)

    def __bool__(self) -> bool:
        return bool(self._paths)

    def blank(self, value: Any) -> None:
        """Replace, in place, every value under a volatile path in `value` (what `json.loads` gives)."""
        for parts in self._paths:
            _blank(value, parts, 0)

    def covers(self, path: str) -> bool:
        """Whether a place (`messages[0].created`) lies under a volatile path."""
        return any(_leads(parts, _STEP.findall(path)) for parts in self._paths)


def _leads(rule: list[str], place: list[str]) -> bool:
    if not rule or not place:
        return not rule
    if rule[0] == "**":
        return len(rule) == 1 or any(_leads(rule[1:], place[at:]) for at in range(len(place)))
    anything = "[*]" if place[0].startswith("[") else "*"
    return rule[0] in (anything, place[0]) and _leads(rule[1:], place[1:])


def _blank(value: Any, parts: list[str], at: int) -> None:
    part = parts[at]
    last = at == len(parts) - 1
    if part == "**":
        if not last:
            _blank(value, parts, at + 1)
        for key in _keys(value):
            if last:
                value[key] = None
            else:
                _blank(value[key], parts, at)
        return
    for key in _keys(value):
        if isinstance(value, dict) if part.startswith("[") else isinstance(value, list):
            return
        if part not in ("[*]", "*", f"[{key}]" if isinstance(key, int) else key):
            continue
        if last:
            value[key] = None
        else:
            _blank(value[key], parts, at + 1)


def _keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list) else []


def normal_form(call: Call, data: bytes | None, volatile: Volatile) -> bytes | None:
    """Return bytes that are equal for calls that say the same, or None when `data`, the request, is not kept.

    JSON ignores key order and the volatile paths; a multipart body its random boundary; arguments that could
    not be kept whole (`round_trips` False) the memory addresses inside their texts.
    """
    if data is None:
        return None
    media_type = call.request.media_type
    head = "" if call.head is None else "\n".join(_meaning(call.head))
    body = data
    if _holds_json(media_type, data):
        try:
            value = json.loads(data)
            volatile.blank(value)
            body = canonical_json(value)
        except (ValueError, RecursionError):
            body = data
    elif media_type.lower().startswith("multipart/"):
        boundary = _BOUNDARY.search(media_type)
        if boundary is not None:
            body = data.replace(boundary.group(1).encode("latin-1", "replace"), b"boundary")
    if not call.round_trips:
        body = _ADDRESS.sub(b"0x", body)
    return head.encode("utf-8", "surrogatepass") + b"\0" + body


def _holds_json(media_type: str, data: bytes) -> bool:
    """Whether a body is declared as JSON or, where a bare client declares something else or nothing, begins as JSON."""
    return is_json(media_type) or data[:1] in (b"{", b"[")


def _meaning(head: HttpRequestHead) -> list[str]:
    headers = sorted(f"{name.lower()}: {value}" for name, value in head.headers if name.lower() in MEANINGFUL_HEADERS)
    return [f"{head.method.upper()} {head.url}", *headers]


def describe(call: Call) -> str:
    """Return one line that says what was asked."""
    label = f"{call.kind.value} {call.name}"
    if call.head is not None:
        model = call.attributes.get("gen_ai.request.model")
        extra = f" ({model})" if isinstance(model, str) else ""
        return _line(f"{label}: {call.head.method.upper()} {call.head.url}{extra}, body of {call.request.size} bytes")
    data = call.request.data
    return label if data is None else _line(f"{label}({data.decode('utf-8', 'replace')})")


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 3] + "..."


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded call as a candidate. `data` is its request (None: not kept); `served`: the replay had it already."""

    step: int | None
    path: tuple[str, ...]
    call: Call
    data: bytes | None
    served: bool

    @property
    def occurrence(self) -> str:
        """Its number among its like, as text."""
        return self.path[-1].rpartition("#")[2]


def request_differences(recorded: Recorded, call: Call) -> list[str]:
    """Return where `call` differs from the recorded call, one line a place: `messages[3].content: 'a' -> 'b'`."""
    found: list[str] = []
    if recorded.call.head is not None and call.head is not None:
        found += _head_differences(recorded.call.head, call.head)
    if recorded.call.request.digest == call.request.digest:
        return found
    old, new = recorded.data, call.request.data
    if old is None or new is None:
        return [*found, "body: differs (its recorded bytes are not kept)"]
    if _holds_json(recorded.call.request.media_type, old) and _holds_json(call.request.media_type, new):
        structural = _json_differences(old, new)
        if structural is not None:
            return found + structural
    at = next((n for n, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))  # noqa: B905
    return [*found, f"body: {old[at : at + 40]!r} -> {new[at : at + 40]!r} at byte {at} of {len(old)} -> {len(new)}"]


def _head_differences(old: HttpRequestHead, new: HttpRequestHead) -> list[str]:
    found = []
    if old.method.upper() != new.method.upper():
        found.append(f"method: {old.method!r} -> {new.method!r}")
    if old.url != new.url:
        found.append(f"url: {old.url!r} -> {new.url!r}")
    was, now = (
        {name.lower(): value for name, value in head.headers if name.lower() in MEANINGFUL_HEADERS}
        for head in (old, new)
    )
    found += [
        f"headers.{name}: {was.get(name)!r} -> {now.get(name)!r}"
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]
    return found


def explain(
    call: Call,
    path: tuple[str, ...],
    occurrence: int,
    *,
    here: Sequence[Recorded],
    same_request: Sequence[Recorded],
    others: Sequence[Recorded],
    expected: Recorded | None,
    steps: int,
) -> ReplayDeparture:
    """Return the departure of `call`, made at `path` as number `occurrence` of its like.

    `here` are the steps of this place, kind and name that nobody asked for yet; `same_request` those anywhere
    that asked exactly this; `others` more of the same kind; `expected` the next step recorded at this place,
    or anywhere; `steps` is how many the tape has.
    """
    scored = sorted(
        ((request_differences(one, call), one) for one in here),
        key=lambda pair: (len(pair[0]), pair[1].occurrence != str(occurrence)),
    )
    parent = path[:-1]
    candidates = [_elsewhere(one, parent) for one in same_request]
    candidates += [
        Candidate(one.step, one.path, ("same place, kind and name", _differs(found))) for found, one in scored
    ]
    mentioned = {candidate.path for candidate in candidates}
    candidates += [_other(one, call, parent) for one in others if one.path not in mentioned]
    if scored:
        differences, nearest = scored[0]
        return ReplayDeparture(
            step=nearest.step,
            path=path,
            expected=_with_body(nearest),
            came=describe(call),
            candidates=candidates,
            differences=differences[:_MOST_DIFFERENCES],
        )
    return ReplayDeparture(
        step=None if expected is None else expected.step,
        path=path,
        expected=f"nothing more: all {steps} recorded steps were asked for"
        if expected is None
        else _with_body(expected),
        came=describe(call),
        candidates=candidates,
    )


def _with_body(recorded: Recorded) -> str:
    call = recorded.call
    if call.head is None and call.request.data is None and recorded.data is not None:
        return _line(f"{call.kind.value} {call.name}({recorded.data.decode('utf-8', 'replace')})")
    return describe(call)


def _differs(found: Sequence[str]) -> str:
    if not found:
        return "request is the same"
    place = found[0].split(":", 1)[0]
    return f"request differs at {place}" + (f" and {len(found) - 1} more places" if len(found) > 1 else "")


def _elsewhere(one: Recorded, parent: tuple[str, ...]) -> Candidate:
    if one.served:
        reason = f"this is recorded as step {one.step}, which this replay has already asked for"
    elif one.path[:-1] != parent:
        reason = f"this is recorded as step {one.step}, under another parent ({'/'.join(one.path[:-1])})"
    else:
        reason = f"this is recorded as step {one.step}"
    return Candidate(one.step, one.path, (reason,))


def _other(one: Recorded, call: Call, parent: tuple[str, ...]) -> Candidate:
    reasons = []
    if one.path[:-1] != parent:
        reasons.append(f"another parent ({'/'.join(one.path[:-1])})")
    if one.call.name != call.name:
        reasons.append(f"{one.call.kind.value} {one.call.name!r}, not {call.name!r}")
    reasons.append(_differs(request_differences(one, call)))
    return Candidate(one.step, one.path, tuple(reasons))


def explain_read(
    kind: Kind, name: str, path: tuple[str, ...], step: int | None, left: Sequence[Read]
) -> ReplayDeparture:
    """Return the departure of a bulk read `name` at `path`; `left` are the recorded reads there not yet made."""
    if left:
        expected = f"{left[0].kind.value} {left[0].name} next, of {len(left)} recorded reads left here"
    else:
        expected = "no more reads here"
    return ReplayDeparture(step=step, path=path, expected=expected, came=f"{kind.value} {name}")


def value_differences(old: bytes, new: bytes) -> list[str]:
    """Return where two typed values differ, one line a place."""
    return (_json_differences(old, new) or [])[:_MOST_DIFFERENCES]


def without_addresses(text: str) -> str:
    """Return the text with memory addresses made equal."""
    return _ADDRESS.sub(b"0x", text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def _json_differences(old: bytes, new: bytes) -> list[str] | None:
    """Return the structural differences, or None when one of the two is not JSON after all."""
    try:
        return [str(one) for one in differences(json.loads(old), json.loads(new))]
    except (ValueError, RecursionError):
        return None

"""Where rules strike in a text: JSON by path, key and pattern, anything else by pattern.

Positions are those of the text that was asked about; a text inside a text (a tool call's arguments) is walked
too, and its positions are carried outwards. Values that a provider checks when they are sent back (ids of tool
calls, signatures of thinking, encrypted reasoning) are spared by keys and patterns, not by paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from otel_agent_replay.patterns import late
from otel_agent_replay.payload.json_text import Found, Path, places, unescaped, walk
from otel_agent_replay.payload.masks import MASKED, hash_of, is_mask, mask_of
from otel_agent_replay.payload.rules import Rule, Steps, fits, path_steps

_DEEPEST = 4  # JSON inside text inside JSON ...
_LONG = 200  # characters from which a text is worth remembering
_MOST_NAMES = 2_048
_MOST_KNOWN = 1024 * 1024  # characters that are remembered


class Hit(NamedTuple):
    """A range of a text that a rule strikes. `whole` is the kind of value it is all of; empty: a part of a text.

    `value` is what a hash is made of. `depth` counts how many texts inside texts it lies in.
    """

    start: int
    end: int
    action: str
    value: str
    whole: str = ""
    depth: int = 0


class RuleSet:
    """Rules, compiled."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.paths: list[tuple[Steps, str]] = []
        self.keys: list[tuple[re.Pattern[str], str]] = []
        self.patterns: list[tuple[re.Pattern[str], str]] = []
        self._known: dict[str, tuple[Hit, ...]] = {}
        self._known_size = 0
        self._names: dict[str, str | None] = {}
        for rule in rules:
            if rule.path is not None:
                self.paths.append((path_steps(rule.path), rule.action))
            elif rule.key is not None:
                self.keys.append((re.compile(rule.key), rule.action))
            elif rule.pattern is not None:
                self.patterns.append((re.compile(rule.pattern), rule.action))

    def __bool__(self) -> bool:
        return bool(self.paths or self.keys or self.patterns)

    def key_action(self, name: str) -> str | None:
        """Return what a rule does to the value of a field, header, parameter or variable of this name, or None."""
        if not self.keys:
            return None
        if name not in self._names:
            if len(self._names) >= _MOST_NAMES:
                self._names = {}
            self._names[name] = next((action for pattern, action in self.keys if pattern.search(name)), None)
        return self._names.get(name)

    def in_text(self, text: str) -> Sequence[Hit]:
        """Return where patterns strike in plain text. Masks are left as they are.

        Long texts are remembered: a conversation sends each message again and again.
        """
        if len(text) < _LONG:
            return self._search(text)
        hits = self._known.get(text)
        if hits is None:
            hits = tuple(self._search(text))
            self._known_size += len(text)
            if self._known_size > _MOST_KNOWN:
                self._known = {}
                self._known_size = len(text)
            self._known[text] = hits
        return hits

    def _search(self, text: str) -> list[Hit]:
        hits: list[Hit] = []
        for pattern, action in self.patterns:
            masks: list[tuple[int, int]] | None = None
            for match in pattern.finditer(text):
                start, end = match.span()
                if start == end:
                    continue
                if masks is None:
                    masks = [mask.span() for mask in MASKED.finditer(text)]
                if not any(low <= start and end <= high for low, high in masks):
                    hits.append(Hit(start, end, action, match[0]))
        return hits

    def in_json(self, text: str, *, typed: bool = False, leaves_only: bool = False) -> list[Hit]:
        """Return where rules strike in the text of JSON, or of a beginning of JSON.

        `typed` reads the typed codec's tags as the values they stand for. `leaves_only` strikes every value inside a
        container instead of the container.
        """
        return list(_JsonWalk(self, typed=typed, leaves_only=leaves_only).hits(text, (), 0))


class _JsonWalk:
    def __init__(self, rules: RuleSet, *, typed: bool, leaves_only: bool) -> None:
        self._rules = rules
        self._tags = _Tags() if typed else None
        self._leaves_only = leaves_only
        self._types: dict[Path, str] = {}  # what each object says its `type` is

    def hits(self, text: str, base: Path, depth: int) -> Iterator[Hit]:
        for found in walk(text):
            path = base + found.path
            is_key = False
            if self._tags is not None:
                self._tags.see(path, found, text)
                if self._tags.is_syntax(path, found):
                    continue
                is_key = self._tags.is_pair_key(path)
                path = self._tags.logical(path)
            if found.kind == "key" or is_key:
                yield from self._in_text(text, found, depth)
                continue
            if found.kind == "text" and path and path[-1] == "type":
                self._types[path[:-1]] = text[found.start : found.end]
            action = self._action(path, text, found)
            if action is not None:
                yield from _whole(text, found, action, depth, quotes=not self._leaves_only)
            elif found.kind == "text":
                yield from self._inside(text, found, path, depth)
            elif found.kind == "bare":
                yield from self._bare(text, found, depth)

    def _action(self, path: Path, text: str, found: Found) -> str | None:
        if self._leaves_only:
            if found.kind == "container":
                return None
            prefixes = [path[:length] for length in range(1, len(path) + 1)]
        else:
            prefixes = [path]
        for prefix in prefixes:
            for steps, action in self._rules.paths:
                # The last step decides nearly always, and costs one comparison.
                if (not prefix or not isinstance(steps[-1], str) or steps[-1] == prefix[-1]) and fits(steps, prefix):
                    return action
            if prefix and isinstance(prefix[-1], str) and self._rules.keys:
                named = self._rules.key_action(prefix[-1])
                if named is not None and not self._is_protocol(path, text, found):
                    return named
        return None

    def _is_protocol(self, path: Path, text: str, found: Found) -> bool:
        """Whether a provider wants this value back as it was."""
        name = path[-1] if path else None
        if name in _PROTOCOL_NAMES:
            return True
        if name in ("id", "item_id", "response_id"):
            return _PROTOCOL_ID.match(text, found.start, found.end) is not None
        return name == "data" and self._types.get(path[:-1]) == "redacted_thinking"

    def _inside(self, text: str, found: Found, path: Path, depth: int) -> Iterator[Hit]:
        raw = text[found.start : found.end]
        if not raw or self._is_protocol(path, text, found):
            return
        meaning = unescaped(raw)
        if depth < _DEEPEST and meaning.lstrip()[:1] in ("{", "[") and _parses(meaning):
            place = places(raw)
            for hit in self.hits(meaning, path, depth + 1):
                yield hit._replace(start=found.start + place(hit.start), end=found.start + place(hit.end))
            return
        yield from self._in_text(text, found, depth, meaning)

    def _in_text(self, text: str, found: Found, depth: int, meaning: str | None = None) -> Iterator[Hit]:
        if not self._rules.patterns:
            return
        raw = text[found.start : found.end]
        hits = self._rules.in_text(unescaped(raw) if meaning is None else meaning)
        if hits:
            place = places(raw)
            for hit in hits:
                yield hit._replace(start=found.start + place(hit.start), end=found.start + place(hit.end), depth=depth)

    def _bare(self, text: str, found: Found, depth: int) -> Iterator[Hit]:
        word = text[found.start : found.end]
        for pattern, action in self._rules.patterns:
            if pattern.fullmatch(word):
                yield from _whole(text, found, action, depth)
                return


def _whole(text: str, found: Found, action: str, depth: int, *, quotes: bool = True) -> Iterator[Hit]:
    """Yield the hit of a whole value, unless a mask stands there already. `quotes`: a dropped text loses its own."""
    raw = text[found.start : found.end]
    if found.kind == "bare" and raw == "null":
        return
    if found.kind == "text":
        if action != "drop" and is_mask(raw):
            return
        value = unescaped(raw)
        if action == "drop" and quotes:
            end = found.end + (text[found.end : found.end + 1] == '"')
            yield Hit(found.start - 1, end, action, value, "text", depth)
            return
    else:
        value = raw
    yield Hit(found.start, found.end, action, value, found.kind, depth)


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_PROTOCOL_NAMES = frozenset(
    {
        "tool_call_id",
        "tool_use_id",
        "call_id",
        "signature",
        "thought_signature",
        "thoughtSignature",
        "encrypted_content",
        "previous_response_id",
    }
)
_PROTOCOL_ID = late(
    r"(?:call|toolu|srvtoolu|chatcmpl|msg|resp|rs|fc|ws|fs|ci|ig|mcp\w*|gen|req|run|asst|thread|batch|file)[-_][\w-]+\Z"
)


class _Tags:
    """Reads the typed codec's tags while the walk passes: paths as the user means them."""

    _TRANSPARENT = frozenset({"fields", "items", "dict", "extra", "private"})
    _DICTS = frozenset({"dict", "defaultdict", "ordered_dict"})
    _SYNTAX = frozenset({"$type", "class", "base", "given", "shape", "dtype", "maxlen", "name", "fold"})

    def __init__(self) -> None:
        self._tags: dict[Path, str] = {}
        self._keys: dict[Path, str] = {}  # the key of each [key, value] pair

    def see(self, path: Path, found: Found, text: str) -> None:
        if found.kind != "text" or not path:
            return
        if path[-1] == "$type":
            self._tags[path[:-1]] = text[found.start : found.end]
        elif self.is_pair_key(path):
            self._keys[path[:-1]] = unescaped(text[found.start : found.end])

    def _is_pair(self, path: Path) -> bool:
        return path[-2] == "items" and self._tags.get(path[:-2]) in self._DICTS

    def is_pair_key(self, path: Path) -> bool:
        """Whether it is the key of a `[key, value]` pair."""
        return len(path) >= 3 and path[-1] == 0 and self._is_pair(path[:-1])

    def is_syntax(self, path: Path, found: Found) -> bool:
        """Whether it is part of a tag and not of a value."""
        inside = bool(path) and path[:-1] in self._tags
        return inside and (found.kind == "key" or path[-1] in self._SYNTAX)

    def logical(self, path: Path) -> Path:
        """Return the path without what only the tags added."""
        if not self._tags:
            return path
        steps: list[str | int] = []
        position = 0
        while position < len(path):
            here = path[:position]
            if here in self._tags and path[position] in self._TRANSPARENT:
                if self._tags[here] in self._DICTS and position + 2 < len(path):
                    pair = path[: position + 2]
                    steps.append(self._keys.get(pair, path[position + 1]))
                    position += 3
                    continue
            elif not (here in self._tags and path[position] == "value" and self._tags[here] == "subclass"):
                steps.append(path[position])
            position += 1
        return tuple(steps)


# --- what stands there afterwards -----------------------------------------------------------------------------


def replacement(hit: Hit, raw: str, key: bytes) -> str:
    """Return what to write over `raw`, the struck text: of the same length in bytes where that can be."""
    length = _size(raw)
    if not hit.whole or (hit.whole == "text" and hit.action != "drop"):
        if hit.action == "drop":
            return ""
        return _filled(hit, length, key)
    if hit.action == "drop":
        return "null".ljust(length)
    quote = '"'
    for _ in range(hit.depth):
        quote = json.dumps(quote)[1:-1]
    room = length - 2 * len(quote)
    if room < 0 and hit.action == "mask":
        return "0" * length
    return quote + _filled(hit, max(0, room), key) + quote


def _filled(hit: Hit, length: int, key: bytes) -> str:
    if hit.action == "mask":
        return mask_of(length)
    return hash_of(hit.value.encode("utf-8", "surrogatepass"), key).ljust(length, "*")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))

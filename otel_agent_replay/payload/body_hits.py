"""Rules on bodies: which way a body is read, by its media type, and the edits that follow.

JSON is read by its values, an event stream event by event and then along the texts that the events spell out, a
form by its fields, any other text as text. Other bytes are left to the search for credentials.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterator, Sequence

from otel_agent_replay.model import STREAM_TYPES
from otel_agent_replay.payload import stream_text
from otel_agent_replay.payload.credentials import is_query_name
from otel_agent_replay.payload.masks import Edit, hash_of, is_mask, mask_of
from otel_agent_replay.payload.rule_hits import Hit, RuleSet, replacement

Find = Callable[[bytes], list[tuple[int, int]]]

_FORM = "application/x-www-form-urlencoded"
_TEXTS = ("text/", "xml", "javascript", "yaml", "graphql")
_FIELD = re.compile(r"([^=&]+)=([^&]*)")
_READ = (*STREAM_TYPES, _FORM)

_Change = tuple[int, int, str]  # a range of the text, and what to write there


class BodyRules:
    """A rule set applied to bodies. `key` is the key of hashes."""

    def __init__(self, rules: RuleSet, key: bytes) -> None:
        self._rules = rules
        self._key = key

    @staticmethod
    def needs_reading(media_type: str, data: bytes) -> bool:
        """Return whether such a body needs more than the search for credentials, rules apart: a form or a stream."""
        return media_type.startswith(_READ) or stream_text.is_array_stream(data)

    def edits(self, data: bytes, media_type: str, find: Find, *, typed: bool) -> list[Edit]:
        """Return the edits of one pass; `find` gives the ranges of credentials in any bytes."""
        essence = media_type.partition(";")[0].strip().lower()
        if essence in STREAM_TYPES:
            needed = bool(self._rules) or any(find(text) for text in stream_text.rough(data))
            return _edits(data, self._in_stream, find) if needed else []
        if essence == _FORM:
            return _edits(data, self._in_form, find)
        is_array = stream_text.is_array_stream(data)
        if is_array and (self._rules or any(find(text) for text in stream_text.rough(data))):
            return _edits(data, self._in_array, find)
        if not self._rules:
            return []
        if essence.endswith(("/json", "+json")):
            return _edits(data, lambda text, _find: self._in_json(text, typed=typed), find)
        if not essence or any(part in essence for part in _TEXTS):
            return _edits(data, lambda text, _find: self._written(text, self._rules.in_text(text)), find)
        return []

    def _written(self, text: str, hits: Sequence[Hit], at: int = 0) -> Iterator[_Change]:
        for hit in hits:
            yield at + hit.start, at + hit.end, replacement(hit, text[hit.start : hit.end], self._key)

    def _in_json(self, text: str, *, typed: bool = False) -> Iterator[_Change]:
        return self._written(text, self._rules.in_json(text, typed=typed))

    def _in_form(self, text: str, _find: Find) -> Iterator[_Change]:
        for field in _FIELD.finditer(text):
            name, value = urllib.parse.unquote_plus(field[1]), field[2]
            action = "mask" if is_query_name(name) else self._rules.key_action(name)
            if action is None:
                meaning = urllib.parse.unquote_plus(value)
                action = next((hit.action for hit in self._rules.in_text(meaning)), None)
            if action is not None and value and (action == "drop" or not is_mask(value)):
                yield field.start(2), field.end(2), self._filled(action, value)

    def _filled(self, action: str, value: str) -> str:
        if action == "hash":
            return hash_of(value.encode("utf-8", "surrogateescape"), self._key)
        return mask_of(len(value.encode("utf-8", "surrogateescape"))) if action == "mask" else ""

    # --- streams --------------------------------------------------------------------------------------------

    def _in_stream(self, text: str, find: Find) -> Iterator[_Change]:
        if self._rules:
            changed = False
            for start, end in stream_text.data_lines(text):
                line = text[start:end]
                hits = self._rules.in_json(line) if line[0] in "{[" else self._rules.in_text(line)
                for change in self._written(line, hits, start):
                    changed = changed or text[change[0] : change[1]] != change[2]
                    yield change
            if changed:
                return  # what the events spell out is looked at in the next pass, with these changes made
        for spelled in stream_text.spelled(text):
            yield from self._in_spelled(spelled, text, find)

    def _in_array(self, text: str, find: Find) -> Iterator[_Change]:
        """Return what is to change in a stream that is one JSON array: in its values, else in what they spell out."""
        changed = False
        for change in self._in_json(text):
            changed = changed or text[change[0] : change[1]] != change[2]
            yield change
        if not changed:
            for spelled in stream_text.spelled(text, stream_text.array_elements(text)):
                yield from self._in_spelled(spelled, text, find)

    def _in_spelled(self, spelled: stream_text.Spelled, text: str, find: Find) -> Iterator[_Change]:
        meaning = spelled.meaning
        hits = [Hit(low, high, "mask", "") for low, high in _in_characters(meaning, find)]
        if self._rules:
            is_json = meaning.lstrip()[:1] in ("{", "[")
            hits += self._rules.in_json(meaning, leaves_only=True) if is_json else list(self._rules.in_text(meaning))
        for hit in hits:
            ranges = spelled.ranges(hit.start, hit.end)
            for number, (low, high) in enumerate(ranges):
                size = len(text[low:high].encode("utf-8", "surrogateescape"))
                if hit.whole == "bare":
                    written = "1" * size  # a number may not become a text here: its quotes would be pieces too
                elif hit.action == "mask":
                    written = "*" * size
                elif hit.action == "hash" and number == 0:
                    written = hash_of(hit.value.encode("utf-8", "surrogatepass"), self._key)
                else:
                    written = ""
                yield low, high, written


def _in_characters(text: str, find: Find) -> list[tuple[int, int]]:
    data = text.encode("utf-8", "surrogatepass")
    spans = find(data)
    if len(data) == len(text):
        return spans
    return [(_characters(data[:low]), _characters(data[:high])) for low, high in spans]


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "surrogatepass"))


def _edits(data: bytes, changes: Callable[[str, Find], Iterator[_Change]], find: Find) -> list[Edit]:
    """Read `data` as text (what is no UTF-8 is carried along), and return the changes as edits of the bytes."""
    text = data.decode("utf-8", "surrogateescape")
    found = list(changes(text, find))
    if not found:
        return []
    if len(text) == len(data):
        return [Edit(low, high, written.encode("utf-8", "surrogateescape")) for low, high, written in found]
    at = {0: 0}
    reached, size = 0, 0
    for position in sorted({place for low, high, _ in found for place in (low, high)}):
        size += len(text[reached:position].encode("utf-8", "surrogateescape"))
        reached = position
        at[position] = size
    return [Edit(at[low], at[high], written.encode("utf-8", "surrogateescape")) for low, high, written in found]

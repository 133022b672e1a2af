"""Personal data as it is found in texts: by its form (mail addresses, numbers), or by the name of its field.

Owns which values of a recording are made synthetic. Pure; whoever wants more names fields and patterns of their own.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.payload.body_texts import Said, rewritten_url
from otel_agent_replay.payload.rules import PRESETS
from otel_agent_replay.payload.synthetic import CARD, EMAIL, NUMBER, PHONE, TEXT, SyntheticValues, is_luhn

_LOCAL_PHONE = r"(?<![\w.+-])(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])"
_FORMS: Sequence[tuple[str, re.Pattern[str]]] = (
    (EMAIL, re.compile(PRESETS["email"])),
    (PHONE, re.compile(f"{PRESETS['phone']}|{_LOCAL_PHONE}")),
    (CARD, re.compile(PRESETS["payment_card"])),
    (NUMBER, re.compile(f"{PRESETS['iban']}|{PRESETS['us_ssn']}")),
)
NAME_FIELDS = (
    r"(?i)^(?:first|last|full|given|family|middle|sur|maiden|customer|client|user|passenger|guest|patient|contact|"
    r"sender|owner|card_?holder|account_?holder)[_ -]?names?$"
)
"""Fields whose value is the name of a person."""

_IDENTIFIER = re.compile(r"[\w-]*[\d_.:/][\w.:/-]*")
"""What stands in fields of names and is none of a person: functions.weather, tool_7."""

_QUOTED = re.compile(r"[\w.~+-]*%[0-9A-Fa-f]{2}(?:[\w.~+-]|%[0-9A-Fa-f]{2})*")
_SHORTEST = 3
_SEPARATORS = r"[ ./()\-]{0,3}"
_WORD = re.compile(r"[^\W\d_]{3,}")


class PersonalData:
    """Finds personal data: values with their sort. `fields` and `patterns` are regular expressions of the user's own.

    Raises ConfigurationError for an expression that is wrong.
    """

    def __init__(self, fields: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._fields = [_compiled(text, "field") for text in fields]
        self._patterns = [*_FORMS, *((TEXT, _compiled(text, "pattern")) for text in patterns)]

    def found(self, said: Said) -> Iterator[tuple[str, str]]:
        """Yield what a text holds: values, each with its sort."""
        text = said.text
        if _QUOTED.search(text):
            yield from self.found(Said(said.name, urllib.parse.unquote(text, errors="replace").replace("%", " ")))
        for sort, pattern in self._patterns:
            for match in pattern.finditer(text):
                if match[0] and (sort != CARD or is_luhn("".join(filter(str.isdigit, match[0])))):
                    yield match[0], sort
        if not said.name or len(text) < _SHORTEST:
            return
        is_name = re.search(NAME_FIELDS, said.name) is not None and _IDENTIFIER.fullmatch(text) is None
        if is_name or any(field.search(said.name) for field in self._fields):
            yield text.strip(), TEXT
        for word in _WORD.findall(text) if is_name else ():
            if word[:1].isupper():
                yield word, TEXT


class Replacement:
    """Replaces known values, however they are spelled, by made-up ones of the same length.

    `values` are those to replace, by value, with their sort.
    """

    def __init__(self, values: Mapping[str, str], made: SyntheticValues) -> None:
        self._made = made
        by_sort: dict[str, list[str]] = {}
        for value in sorted(values, key=len, reverse=True):
            by_sort.setdefault(values[value], []).append(_written(value, values[value]))
        order = [sort for sort in (EMAIL, CARD, NUMBER, PHONE, TEXT) if sort in by_sort]
        named = (f"(?P<{sort}>{'|'.join(dict.fromkeys(by_sort[sort]))})" for sort in order)
        self._pattern = re.compile("|".join(named) or r"(?!)")

    def __call__(self, text: str) -> str:
        """Return the text with every known value replaced, also where it is quoted for a URL."""
        made = self._plainly(text)
        return _QUOTED.sub(lambda match: self._quoted(match[0]), made) if "%" in made else made

    def _plainly(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._made.of(match[0], str(match.lastgroup)), text)

    def _quoted(self, part: str) -> str:
        try:
            meaning = urllib.parse.unquote(part, errors="strict")
        except UnicodeDecodeError:  # percent signs that quote nothing
            return part
        replaced = self._plainly(meaning)
        return part if replaced == meaning else rewritten_url(part, meaning, replaced)


def _written(value: str, sort: str) -> str:
    """Return an expression for the value in every spelling that means the same."""
    if sort in (PHONE, CARD, NUMBER):
        digits = _SEPARATORS.join(map(re.escape, filter(str.isalnum, value)))
        return rf"(?<![\w]){digits}(?!\w)"
    if sort == EMAIL:
        return rf"(?<![\w.+-])(?i:{re.escape(value)})(?![\w@-])"
    if _WORD.fullmatch(value):  # as a name is written: a common word in small letters is none
        return rf"(?<!\w)(?:{re.escape(value)}|{re.escape(value.upper())})(?!\w)"
    return rf"(?<!\w)(?i:{re.escape(value)})(?!\w)"


def _compiled(text: str, what: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigurationError(f"the {what} {text!r} is no regular expression: {error}") from error

"""Two texts compared by what they say: numbers, dates, ids, sources, and what they deny. Pure; no model is needed.

Wording is no fact: two texts with the same facts may share no sentence. What is found is what patterns find, so a claim
without any of these is not seen; who wants more hands a judge to the comparison (`judged`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from otel_agent_replay.model import Word

COMPARED = 50_000
"""Characters of a text that are looked at; of a longer one the beginning."""
_SENTENCES = 200
_ALIKE = 70.0  # rapidfuzz' 0 to 100: from here on two sentences speak of the same thing


class FactKind(Word):
    """What kind of fact a text states."""

    NUMBER = "number"  # with its unit, percent or currency sign
    DATE = "date"
    ID = "id"  # order numbers, tickets, UUIDs
    SOURCE = "source"  # addresses, mail addresses, citation marks
    NEGATION = "negation"  # one denies what the other says


@dataclass(frozen=True, slots=True)
class FactDifference:
    """One fact that differs; "" on the side that does not state it."""

    kind: FactKind
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.kind} {self.before or '(nothing)'} -> {self.after or '(nothing)'}"


@dataclass(frozen=True, slots=True)
class TextComparison:
    """`differences` in facts, `whole` False when a text was too long to be looked at to its end."""

    differences: Sequence[FactDifference]
    whole: bool = True

    def __str__(self) -> str:
        if not self.differences:
            return "other words, the same facts" + ("" if self.whole else " as far as was looked")
        shown = "; ".join(map(str, self.differences[:5]))
        return shown + (f"; and {len(self.differences) - 5} more facts" if len(self.differences) > 5 else "")


_MONTH_NAMES = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split("|"), 1)}
_MONTH = rf"(?:{_MONTH_NAMES})[a-z]*\.?"
_SOURCE = re.compile(r"https?://[^\s<>\"')\]]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\[\d{1,3}\]")
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?({_MONTH})(?:,?\s+(\d{{4}}))?\b", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\s+(\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(\d{{4}}))?\b", re.IGNORECASE)
_ID = re.compile(
    r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)+\b|#\w*\d\w*|\b(?=\w*\d)(?=\w*[A-Z])[A-Z0-9]{5,}\b"
)
_NUMBER = re.compile(r"([$€£¥]\s?)?([-−]?\d+(?:[,' ]\d{3})*(?:\.\d+)?)(\s?%|\s?[A-Za-z€°]+)?")
_UNIT_NAMES = (
    "% usd eur gbp € ms s sec seconds min minutes h hours days day weeks kg g mg km m cm mm mb gb kb tokens "
    "percent °c °f k million billion"
)
_UNITS = frozenset(_UNIT_NAMES.split())
_CURRENCIES = {"$": "usd", "€": "eur", "£": "gbp", "¥": "jpy"}
_SAME_UNIT = {"percent": "%", "seconds": "s", "sec": "s", "minutes": "min", "hours": "h", "day": "days"}
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|cannot|without|neither|nor|unable|refuse[sd]?|denied|declined|ineligible|unavailable)\b|n['’]t\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def compare_texts(before: str, after: str) -> TextComparison:
    """Return the facts in which two texts differ."""
    whole = max(len(before), len(after)) <= COMPARED
    before, after = before[:COMPARED], after[:COMPARED]
    stated, restated = Counter(_facts(before)), Counter(_facts(after))
    found = _paired(_missing(stated, restated), _missing(restated, stated))
    found += _denied(before, after)
    return TextComparison(found, whole)


def _missing(one: Counter[tuple[FactKind, str]], other: Counter[tuple[FactKind, str]]) -> list[tuple[FactKind, str]]:
    """Return what one states and the other does not at all: saying it twice is no other fact."""
    return [fact for fact in one if fact not in other]


def _paired(gone: list[tuple[FactKind, str]], new: list[tuple[FactKind, str]]) -> list[FactDifference]:
    """Put facts of a kind that went beside those that came, in the order in which they stand."""
    found = []
    for kind in FactKind:
        before, after = ([text for one, text in side if one is kind] for side in (gone, new))
        for place in range(max(len(before), len(after))):
            left = before[place] if place < len(before) else ""
            found.append(FactDifference(kind, left, after[place] if place < len(after) else ""))
    return found


def _facts(text: str) -> Iterator[tuple[FactKind, str]]:
    """Yield the facts, each part of the text read as one kind only."""
    for match in _SOURCE.finditer(text):
        yield FactKind.SOURCE, match[0].rstrip(".,;:")
    text = _SOURCE.sub(" ", text)
    for match in _UUID.finditer(text):
        yield FactKind.ID, match[0].lower()
    text = _UUID.sub(" ", text)
    for match in _ISO.finditer(text):
        yield FactKind.DATE, match[0]
    text = _ISO.sub(" ", text)
    for pattern, places in ((_DAY_FIRST, (3, 2, 1)), (_MONTH_FIRST, (3, 1, 2))):
        for match in pattern.finditer(text):
            year, month, day = (match[place] for place in places)
            yield FactKind.DATE, f"{year or '????'}-{_MONTHS[month[:3].lower()]:02}-{int(day):02}"
        text = pattern.sub(" ", text)
    for match in _ID.finditer(text):
        yield FactKind.ID, match[0]
    for match in _NUMBER.finditer(_ID.sub(" ", text)):
        number = _number(match)
        if number:
            yield FactKind.NUMBER, number


def _number(match: re.Match[str]) -> str:
    try:
        value = Decimal(re.sub(r"[,' ]", "", match[2]).replace("−", "-")).normalize()
    except InvalidOperation:
        return ""
    unit = (match[3] or "").strip().lower()
    unit = _SAME_UNIT.get(unit, unit) if unit in _UNITS else ""
    currency = _CURRENCIES.get((match[1] or "").strip(), "")
    return " ".join(part for part in (f"{value:f}", currency or unit) if part)


def _denied(before: str, after: str) -> list[FactDifference]:
    """Return sentences that speak of the same thing, one of them denying it."""
    from rapidfuzz import fuzz, process

    one, other = _sentences(before), _sentences(after)
    same = set(one) & set(other)
    one, other = [text for text in one if text not in same], [text for text in other if text not in same]
    bare = [_NEGATION.sub(" ", text) for text in other]
    found = []
    for sentence in one:
        best = process.extractOne(_NEGATION.sub(" ", sentence), bare, scorer=fuzz.token_set_ratio, score_cutoff=_ALIKE)
        if best is not None and _denies(sentence) != _denies(other[best[2]]):
            found.append(FactDifference(FactKind.NEGATION, sentence, other[best[2]]))
    return found


def _denies(sentence: str) -> bool:
    """Whether a sentence denies: two denials in one make none."""
    return len(_NEGATION.findall(sentence)) % 2 == 1


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()][:_SENTENCES]

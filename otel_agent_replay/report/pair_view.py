"""A comparison's JSON document as what `web/` draws: columns with interned names, differences laid out. Pure.

Owns the form of the data in an HTML report, whose version is `html_page.DATA_FORMAT`. Everything that a recording said
is made visible here (`safe_text`), and everything that is compared is compared here, never in the browser.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from otel_agent_replay.compare import Field
from otel_agent_replay.report import amounts
from otel_agent_replay.report.safe_text import visible
from otel_agent_replay.report.word_diff import word_diff

_ORIGINS = {
    "live": "live",
    "tape": "replayed",
    "ledger": "from the ledger",
    "pool": "replayed from another run",
    "fixture": "fixture",
    "dry_run": "dry run",
    "edited": "edited",
    "instant": "no time passed",
    "seeded": "seeded",
    "virtual": "virtual clock",
    "wait": "a person",
    "refused": "refused",
}
"""What a report calls an answer source."""
_MICROSECOND = 1_000
_LONG = 400  # characters


def pair_view(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of one pair's page, of what `json_report.comparison_json` gives.

    `columns` hold one entry a row; `details` are by row (as text) what differs there.
    """
    nodes = _Nodes(document)
    names, kinds, rules, origins = _Interned(), _Interned(), _Interned(), _Interned()
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    row_of_change: dict[int, int] = {}
    for number, row in enumerate(document["rows"]):
        a, b, measures = nodes.of(row)
        end = a or b
        other = b["name"] if a and b and a["name"] != b["name"] else None
        values = (
            row["depth"],
            kinds.number(visible(end["kind"])),
            names.number(visible(end["name"])),
            -1 if other is None else names.number(visible(other)),
            *(-1 if one is None or one["step"] is None else one["step"] for one in (a, b)),
            -1 if row["rule"] is None else rules.number((row["rule"], row["strength"])),
            origins.number(_origin(a, b)),
            *_numbers(measures),
        )
        for name, value in zip(_COLUMNS, values, strict=True):
            columns[name].append(value)
        if row["change"] is not None:
            row_of_change.setdefault(row["change"], number)
    return {
        **_head(document),
        "departure": _departure(document, row_of_change),
        "kinds": kinds.items,
        "names": names.items,
        "rules": rules.items,
        "origins": origins.items,
        "columns": {**columns, "mark": "".join(row["mark"] for row in document["rows"])},
        "details": {str(row): detail for row, detail in _details(document, nodes, row_of_change)},
        "left_out": {"values": 0, "told": ""},
    }


_COLUMNS = (
    *("depth", "kind", "name", "other", "step_a", "step_b", "rule", "origin"),
    *("us_a", "us_b", "tokens_a", "tokens_b"),
)


class _Interned:
    """Things by number, each kept once."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, item: Any) -> int:
        """Return the number of `item`."""
        if item not in self._numbers:
            self._numbers[item] = len(self.items)
            self.items.append(item)
        return self._numbers[item]


class _Nodes:
    """The nodes of both runs by their place in preorder, with their numbers."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._a: dict[int, Any] = {}
        self._b: dict[int, Any] = {}
        self._measures: dict[tuple[int | None, int | None], Any] = {}
        for node in document["nodes"]:
            a, b = node["a"], node["b"]
            if a is not None:
                self._a[a["index"]] = a
            if b is not None:
                self._b[b["index"]] = b
            self._measures[None if a is None else a["index"], None if b is None else b["index"]] = node
        for side, nodes in (("a", self._a), ("b", self._b)):
            run = document[side]
            nodes.setdefault(0, {"kind": "run", "name": run["agent"], "step": None, "source": None, "span_id": ""})
        self._measures.setdefault((0, 0), document["totals"])

    def of(self, row: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return the nodes and the numbers of a row; None on a side that has none."""
        a = None if row["a"] is None else self._a[row["a"]]
        b = None if row["b"] is None else self._b[row["b"]]
        return a, b, self._measures.get((row["a"], row["b"]))


def _origin(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> str:
    """Return where the answers came from: live, replayed, edited, missing."""
    one, other = (
        "missing" if end is None else (_ORIGINS.get(end["source"], end["source"]) if end["source"] else "")
        for end in (a, b)
    )
    if one == other:
        return one
    return ", ".join(f"{side} {word}" for side, word in (("A", one), ("B", other)) if word)


def _numbers(measures: Mapping[str, Any] | None) -> Iterator[int]:
    """Yield microseconds and tokens of A and B, -1 where they are not known."""
    for sides in (
        None if measures is None else [_scaled(measures["latency_ns"][side]) for side in ("before", "after")],
        None if measures is None else [_tokens(measures, side) for side in ("before", "after")],
    ):
        yield from sides or (-1, -1)


def _scaled(nanoseconds: float | None) -> int:
    return -1 if nanoseconds is None else round(nanoseconds / _MICROSECOND)


def _tokens(measures: Mapping[str, Any], side: str) -> int:
    known = [measures[name][side] for name in ("input_tokens", "output_tokens") if measures[name][side] is not None]
    return round(sum(known)) if known else -1


def _head(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sentence": visible(document["sentence"]),
        "verdict": document["verdict"],
        "runs": [document[side]["run_id"] for side in ("a", "b")],
        "questions": [
            {"asked": one["asked"], "reply": one["reply"], "told": question_text(one)} for one in document["questions"]
        ],
        "totals": list(totals(document["totals"])),
    }


def question_text(question: Mapping[str, Any]) -> str:
    """Return how much was compared for a question and what else is said of it."""
    counted = f"{question['compared']} compared, {question['differing']} differ" if question["compared"] else ""
    return visible("; ".join(part for part in (counted, question["detail"]) if part))


def totals(measures: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield name, A's and B's number as text for each total that one of them has."""
    for name, key, text in (
        ("latency", "latency_ns", amounts.duration),
        ("input tokens", "input_tokens", amounts.count),
        ("output tokens", "output_tokens", amounts.count),
        ("cost", "cost_usd", amounts.money),
    ):
        before, after = measures[key]["before"], measures[key]["after"]
        if before is not None or after is not None:
            yield {
                "name": name,
                "before": "unknown" if before is None else text(before),
                "after": "unknown" if after is None else text(after),
            }


def _departure(document: Mapping[str, Any], row_of_change: Mapping[int, int]) -> dict[str, Any] | None:
    departure = document["departure"]
    if departure is None:
        return None
    number = departure["change_number"]
    return {
        "row": None if number is None else row_of_change.get(number),
        "cause": departure["cause"],
        "cause_row": _cause_row(document, number, row_of_change),
        "comparable": departure["comparable"],
        "evidence": [visible(sentence) for sentence in departure["evidence"]],
    }


def _cause_row(document: Mapping[str, Any], number: int | None, row_of_change: Mapping[int, int]) -> int | None:
    """Return the row where the way back from the departure ends; the departure's own where there is no way."""
    way = [] if number is None else _ways(document).get(number, [])
    found: int | None = way[-1]["row"] if way else None
    return found if found is not None or number is None else row_of_change.get(number)


def _details(
    document: Mapping[str, Any], nodes: _Nodes, row_of_change: Mapping[int, int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    consequences = {}
    if document["departure"] is not None:
        consequences = {one["change_number"]: one for one in document["departure"]["consequences"]}
    risks = {one["change_number"]: one for one in document.get("risk", ())}
    ways = _ways(document)
    for number, row in sorted(row_of_change.items()):
        change = document["changes"][number]
        consequence = consequences.get(number)
        _, _, measures = nodes.of(document["rows"][row])
        yield (
            row,
            {
                "change": number,
                "spans": [change[side]["span_id"] if side in change else "" for side in ("a", "b")],
                "phrase": change_phrase(change),
                "basis": "" if consequence is None else consequence["basis"],
                "words": [] if consequence is None else [visible(word) for word in consequence["words"]],
                "unexplained": consequence is not None and consequence["edge"] != "recorded",
                "cost": "" if measures is None else _cost(measures["cost_usd"]),
                "told": [*_told(change), *([risk_text(risks[number])] if number in risks else ())],
                "way": ways.get(number, []),
                "fields": [_field(field) for field in change.get("fields", ())],
            },
        )


def _ways(document: Mapping[str, Any]) -> dict[int, list[dict[str, Any]]]:
    """Return the walks by the number of their change: for each sentence its text and the row that it leads to."""
    rows = {
        (side.upper(), row[side]): number
        for number, row in enumerate(document["rows"])
        for side in ("a", "b")
        if row[side] is not None
    }
    ways = {}
    for walk in document.get("walks", ()):
        places = [*(hop["source"] for hop in walk["hops"]), walk["at"]]
        told = walk["sentences"]
        if len(told) != len(places):  # the middle of a long way is left out of its words
            places = [*places[: len(told) - 2], None, places[-1]]
        ways[walk["change_number"]] = [
            {"told": visible(sentence), "row": rows.get((walk["side"], place))}
            for sentence, place in zip(told, places, strict=True)
        ]
    return ways


def risk_text(ranked: Mapping[str, Any]) -> str:
    """Return how a change ranks and why; an improvement has no rank."""
    rank = "Takes risk or work away" if ranked["improvement"] else f"Risk {ranked['risk']} of 100"
    return visible(f"{rank}: {'; '.join(ranked['reasons'])}")


def change_phrase(change: Mapping[str, Any]) -> str:
    """Return what changed in a few words: the fields, or on which side alone it is."""
    if change["kind"] == "changed":
        return ", ".join(field["field"] for field in change["fields"])
    return {"added": "only in B", "removed": "only in A"}.get(change["kind"], "moved")


def _cost(measure: Mapping[str, Any]) -> str:
    absolute = measure["absolute"]
    return "" if not absolute else f"{'+' if absolute > 0 else '−'}{amounts.money(abs(absolute))}"


def _told(change: Mapping[str, Any]) -> Iterator[str]:
    if change["kind"] in ("added", "removed"):
        side = "B" if change["kind"] == "added" else "A"
        more = f", with {change['below']} below it" if change["below"] else ""
        yield f"Only {side} has it{more}."
        if change["wraps"]:
            yield "It is a level put in between: what it holds is in both runs."
    if change["kind"] == "moved":
        yield from (f"{side.upper()}: {visible('/'.join(change[side]['path']))}" for side in ("a", "b"))


def _field(field: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "field": field["field"],
        "asks": Field(field["field"]).is_request,
        "complete": field["complete"],
        "by_digest": field["by_digest"],
        "places": [_place(place) for place in field["differences"]],
    }


def _place(place: Mapping[str, Any]) -> dict[str, Any]:
    missing = "a" if "before" not in place else ("b" if "after" not in place else None)
    before, after = (_text(place[name]) if name in place else "" for name in ("before", "after"))
    diff = word_diff(before, after)
    notes = [] if diff.complete else ["too long for a comparison by words: both are shown whole"]
    number = None if missing else _number_note(place["before"], place["after"])
    return {
        "path": visible(place["path"]),
        "missing": missing,
        "parts": [list(part) for part in diff.parts],
        "note": "; ".join([*notes, *([number] if number else ())]),
    }


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=repr)
    return visible(text, keep_lines=True)


def _number_note(before: Any, after: Any) -> str | None:
    numbers = [one for one in (before, after) if isinstance(one, (int, float)) and not isinstance(one, bool)]
    if len(numbers) != 2 or not all(abs(one) < 1e300 for one in numbers):
        return None
    share = f", {(after - before) / before:+.1%} of A" if before else ""
    return f"{after - before:+g}{share}"


def is_long(place: Mapping[str, Any]) -> bool:
    """Return whether leaving the values of a place out saves anything: a digest takes room too."""
    return sum(len(text) for _, text in place["parts"]) > _LONG


def left_out_place(place: Mapping[str, Any]) -> dict[str, Any]:
    """Return a place without its values: digest and size of each side's text."""
    sides = {}
    for side, sign in (("a", "-"), ("b", "+")):
        if place["missing"] != side:
            text = "".join(part for mark, part in place["parts"] if mark in ("=", sign)).encode()
            sides[side] = {"sha256": sha256(text).hexdigest(), "size": len(text)}
    return {"path": place["path"], "missing": place["missing"], "note": place["note"], "left_out": sides}


def places_of(view: Mapping[str, Any]) -> Iterator[tuple[list[Any], int]]:
    """Yield the lists of places of a view and a number in each: the departure's first, then as it happened."""
    first = None if view["departure"] is None else view["departure"]["row"]
    details = view["details"]
    rows = sorted(details, key=lambda row: (int(row) != first, details[row]["change"]))
    for row in rows:
        for field in details[row]["fields"]:
            yield from ((field["places"], number) for number in range(len(field["places"])))

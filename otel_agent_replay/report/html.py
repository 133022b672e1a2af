"""A comparison as one HTML file: read without a script, without a network, and for good.

JSON documents in, text out. The part for everyone (verdict, counts, the first differences as a table) is plain HTML;
the rest is data that `web/` draws. `html_page` owns the file's form, `pair_view` that of the data.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from otel_agent_replay.report import html_page
from otel_agent_replay.report.pair_view import (
    change_phrase,
    is_long,
    left_out_place,
    pair_view,
    places_of,
    question_text,
    risk_text,
    totals,
)
from otel_agent_replay.report.safe_text import value_text, visible

SIZE_LIMIT = 10_000_000
"""Bytes of a file. Values that do not fit are left out and listed by digest and size."""
DIFFERENCES_SHOWN = 50
"""In the part without script."""
_RISKS_SHOWN = 10
_REMARKS = 600  # bytes kept free for what is said about cases and values left out


def comparison_html(document: Mapping[str, Any], *, limit: int = SIZE_LIMIT) -> str:
    """Return the report of a pair, of what `json_report.comparison_json` gives, in `limit` bytes where it can be.

    The departure's values are kept first. Rows are never left out.
    """
    view = pair_view(document)
    title = visible(f"{document['verdict']}: {document['a']['agent']}")
    head, plain = pair_head(document), pair_plain(document)
    frame = len(html_page.page(title, head, plain, "").encode())
    data = fit_values([view], limit - frame, lambda: html_page.packed({"kind": "comparison", "pair": view}))
    if view["left_out"]["values"]:
        plain += f"\n<p>{text(view['left_out']['told'])}</p>"
    return html_page.page(title, head, plain, data)


def fit_values(views: Sequence[dict[str, Any]], room: int, pack: Callable[[], str]) -> str:
    """Leave values out of `views`, the last first, until what `pack` makes of them takes at most `room` characters.

    Returns what `pack` made; it takes more than `room` when no long value is left.
    """
    packed = pack()
    if len(packed) <= room:
        return packed
    every = [(view, found, number) for view in views for found, number in places_of(view)]
    places = [(view, found, number) for view, found, number in every if is_long(found[number])]
    kept = len(places)
    while kept and len(packed) > room:
        fewer = min(kept - 1, int(kept / min(len(packed) / max(room, 1), 2.0)))
        for view, found, number in places[fewer:kept]:
            found[number] = left_out_place(found[number])
            view["left_out"]["values"] += 1
        kept = fewer
        for view in views:
            view["left_out"]["told"] = _left_out_text(view["left_out"]["values"])
        packed = pack()
    return packed


def fit_cases(
    views: Mapping[str, dict[str, Any]], room: int, cases: Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]
) -> tuple[dict[str, dict[str, Any]], str]:
    """Return the views that a page of cases has room for, and its data, packed: at most `room` characters.

    `cases` gives the rows of its table, each of which opens its view. Values are left out first, then the last views.
    """

    def packed(shown: Mapping[str, Any]) -> str:
        return html_page.packed({"kind": "cohort", "cases": cases(shown), "pairs": shown})

    kept = dict(views)
    data = fit_values(list(kept.values()), room - _REMARKS, lambda: packed(kept))
    while kept and len(data) > room - _REMARKS:
        kept = dict(list(kept.items())[: len(kept) * 2 // 3])
        data = packed(kept)
    return kept, data


def _left_out_text(count: int) -> str:
    noun = "value is" if count == 1 else "values are"
    told = f"{count} {noun} left out of this file for its size: each shows its digest and size where it was."
    return told if count else ""


def pair_head(document: Mapping[str, Any]) -> str:
    """Return the head of a pair's page: verdict first after what was lost, counts, the two runs."""
    losses = [one for one in document["notices"] if one["code"] != "not_covered"]
    counted = (
        f"{len(document['changes'])} differences, {len(document['rows'])} aligned rows, "
        f"{document['trust']['similarity']:.0%} of the nodes paired"
    )
    aside = _not_counted(document)
    relation = f"\n<p>{text(document['relation'])}</p>" if document["relation"] else ""
    return "\n".join(
        [
            f"<h1>{text(document['a']['agent'])}: two runs compared</h1>",
            *(f"<p>note, {text(one['run'])}: {text(one['text'])}</p>" for one in losses),
            f'<p class="verdict">{text(document["sentence"])}</p>{relation}',
            f'<p class="facts">{text(counted)}</p>',
            *([f'<p class="facts">{text(aside)}</p>'] if aside else []),
            *(f'<p class="facts">{side.upper()} {text(_run_text(document[side]))}</p>' for side in ("a", "b")),
        ]
    )


def _not_counted(document: Mapping[str, Any]) -> str:
    """Return what differs and is no difference, with how often; "" where nothing does."""
    parts = [f"{name} {count}" for name, count in document.get("volatile", {}).items()]
    parts += [f"other durations {len(document['timing'])}"] if document.get("timing") else []
    parts += [f"other order among concurrent steps {len(document['reordered'])}"] if document.get("reordered") else []
    return f"Not counted as differences: {', '.join(parts)}" if parts else ""


def _run_text(run: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in run["versions"].items())
    return " · ".join(part for part in (run["run_id"], run["mode"], run["status"], versions) if part)


def pair_plain(document: Mapping[str, Any]) -> str:
    """Return what is read without script: the departure, the first differences, questions and totals as tables."""
    standing = [one for one in document["notices"] if one["code"] == "not_covered"]
    notes = [f"<p>note, {text(one['run'])}: {text(one['text'])}</p>" for one in standing]
    parts = (_departure(document["departure"]), _risks(document), _differences(document), _tables(document))
    return "\n".join([*(line for part in parts for line in part), *notes])


def _departure(departure: Mapping[str, Any] | None) -> Iterator[str]:
    if departure is None:
        return
    yield f"<h2>Departure: {text(_title(departure['at']))}</h2>"
    yield f"<p>Cause: <strong>{text(departure['cause'])}</strong></p>"
    evidence = "".join(f"<li>{text(sentence)}</li>" for sentence in departure["evidence"])
    yield f"<ul>{evidence}</ul>" if evidence else ""


def _risks(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the riskiest changes, where the document ranks them."""
    ranked = document.get("risk", ())
    if not ranked:
        return
    changes = document["changes"]
    ends = [
        changes[one["change_number"]].get("a") or changes[one["change_number"]]["b"] for one in ranked[:_RISKS_SHOWN]
    ]
    rows = [(_title(end), risk_text(one)) for end, one in zip(ends, ranked, strict=False)]
    caption = "By risk" if len(rows) == len(ranked) else f"The {len(rows)} riskiest of {len(ranked)} changes"
    yield table(caption, ("Step", "Why it ranks there"), rows)


def _differences(document: Mapping[str, Any]) -> Iterator[str]:
    changes = document["changes"]
    if not changes:
        return
    shown = min(len(changes), DIFFERENCES_SHOWN)
    counted = f"The first {shown} of {len(changes)} differences" if shown < len(changes) else "All differences"
    rows = []
    for change in changes[:shown]:
        end = change.get("a") or change["b"]
        field = next((one for one in change.get("fields", ()) if one["differences"]), None)
        place = field["differences"][0] if field else {}
        before, after = (value_text(place[name], 160) if name in place else "" for name in ("before", "after"))
        rows.append((_title(end), change_phrase(change), place.get("path", ""), before, after))
    yield table(counted, ("Step", "What changed", "Where first", "A", "B"), rows)


def _tables(document: Mapping[str, Any]) -> Iterator[str]:
    rows = [(one["asked"], one["reply"], question_text(one)) for one in document["questions"]]
    yield table("Questions", ("Did it change?", "Answer", "Compared"), rows)
    yield table(
        "Totals", ("", "A", "B"), [(one["name"], one["before"], one["after"]) for one in totals(document["totals"])]
    )


def _title(node: Mapping[str, Any]) -> str:
    what = f"{node['kind']} {node['name']}"
    return what if node["step"] is None else f"step {node['step']} · {what}"


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first cell of a row is its head. Everything is escaped here."""
    top = "".join(f'<th scope="col">{text(head)}</th>' if head else "<td></td>" for head in heads)
    body = "\n".join(
        f'<tr><th scope="row">{text(row[0])}</th>{"".join(f"<td>{text(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return (
        f"<table><caption>{text(caption)}</caption>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    )


def text(value: object) -> str:
    """Return recorded text as HTML that shows it as it is."""
    return html.escape(visible(str(value)))

"""A comparison of cohorts as one HTML file: verdict, metrics and charts without script, and every case's pair.

JSON documents in, text out. `html_page` owns the file's form, `html` the part that a pair and a cohort share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.report import amounts, html_page
from otel_agent_replay.report.charts import Bars, bar_chart, histogram
from otel_agent_replay.report.html import SIZE_LIMIT, fit_cases, table, text
from otel_agent_replay.report.pair_view import pair_view
from otel_agent_replay.report.safe_text import visible

CASES_SHOWN = 50
"""In the part without script, those that differ first."""
_PATHS_SHOWN = 12


def cohort_html(
    document: Mapping[str, Any], pairs: Mapping[str, Mapping[str, Any]] | None = None, *, limit: int = SIZE_LIMIT
) -> str:
    """Return the report of what `cohort_json.cohort_json` gives, in `limit` bytes where it can be.

    `pairs` are comparisons (`json_report.comparison_json`) by the key of their case, the most telling first: each case
    opens its own. Of pairs that do not fit the last are left out; the report says how many are there.
    """
    views = {visible(key): pair_view(one) for key, one in (pairs or {}).items()}
    head, plain = _head(document), _plain(document)
    title = visible(f"{document['verdict']}: {document['lanes']['a']} and {document['lanes']['b']}")
    room = limit - len(html_page.page(title, head, plain, "").encode())
    kept, packed = fit_cases(views, room, lambda shown: [_case(case, shown) for case in document["cases"]])
    differing = sum(case["differs"] for case in document["cases"])
    told = [f"{len(kept)} of the {differing} cases that differ open their aligned pair in this file."]
    values = sum(view["left_out"]["values"] for view in kept.values())
    if values:
        told.append(f"{values} values are left out for its size: each shows its digest and size where it was.")
    plain += "".join(f"\n<p>{text(sentence)}</p>" for sentence in told)
    head += "".join(f'\n<p class="facts">{text(sentence)}</p>' for sentence in told)
    return html_page.page(title, head, plain, packed)


def _case(case: Mapping[str, Any], views: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case as the table shows it: by its first pair that differs."""
    pair = next((one for one in case["pairs"] if one["verdict"] not in ("identical", "reordered")), None)
    key = visible(case["key"])
    return {
        "key": key,
        "verdict": case["pairs"][0]["verdict"] if pair is None else pair["verdict"],
        "changes": "" if pair is None else str(pair["changes"]),
        "cause": "" if pair is None else (pair["cause"] or ""),
        "sentence": "" if pair is None else visible(pair["sentence"]),
        "differs": case["differs"],
        "pair": key if key in views else None,
    }


def _head(document: Mapping[str, Any]) -> str:
    lanes = document["lanes"]
    pairs = document["pairs"]["verdicts"]
    counted = ", ".join(f"{count:,} {verdict}" for verdict, count in pairs.items())
    names = [("A", lanes["a"]), ("B", lanes["b"]), *([("Baseline", lanes["baseline"])] if lanes["baseline"] else [])]
    return "\n".join(
        [
            "<h1>Two cohorts compared</h1>",
            *(f"<p>note: {text(note)}</p>" for note in document["notes"]),
            f'<p class="verdict">{text(document["sentence"])}</p>',
            f'<p class="facts">{len(document["cases"]):,} cases. Pairs: {text(counted)}</p>',
            *(f'<p class="facts">{side}: {text(name)}</p>' for side, name in names),
            '<div id="overview">',
            f'<div class="wide" tabindex="0" role="region" aria-label="Metrics">{_metrics(document)}</div>',
            "<details><summary>Charts</summary>",
            *_charts(document),
            "</details>",
            "</div>",
        ]
    )


def _metrics(document: Mapping[str, Any]) -> str:
    rows = []
    for one in document["metrics"]:
        unit = one["unit"]
        interval = "" if one["low"] is None else f"{_number(one['low'], unit)} to {_number(one['high'], unit)}"
        p = "" if one["p_adjusted"] is None else f"{one['p_adjusted']:.3g}"
        numbers = [_number(one[name], unit) for name in ("a", "b", "baseline", "difference")]
        name = one["name"] if unit == "ns" else f"{one['name']} ({unit})"
        rows.append((name, *numbers, interval, p, str(one["cases"]), one["judgement"]))
    heads = ("Metric", "A", "B", "Baseline", "Difference", "Interval", "p, corrected", "Cases", "Judgement")
    return table("Metrics", heads, rows)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return amounts.duration(value) if unit == "ns" else f"{value:.4g}"


def _charts(document: Mapping[str, Any]) -> Iterator[str]:
    has_baseline = document["lanes"]["baseline"] is not None
    paths = document["tool_paths"]
    yield bar_chart("Tool paths", [_share(one, has_baseline=has_baseline) for one in paths[:_PATHS_SHOWN]])
    if len(paths) > _PATHS_SHOWN:
        yield f"<p>{len(paths) - _PATHS_SHOWN} rarer paths are not drawn; the JSON has them.</p>"
    causes = document["pairs"]["causes"]
    if causes:
        yield table("Causes of departures", ("Cause", "Pairs"), [(name, str(count)) for name, count in causes.items()])
    for title, key, show in (
        ("Latency", "latency_ns", amounts.duration),
        ("Cost", "cost_usd", amounts.money),
        ("Steps", "steps", None),
    ):
        yield histogram(f"{title} of runs", _values(document, "a", key), _values(document, "b", key), show)


def _share(one: Mapping[str, Any], *, has_baseline: bool) -> Bars:
    sides = [(one[f"share_{side}"], f"{one[f'share_{side}']:.0%} ({one[side]})") for side in ("a", "b", "baseline")]
    (a, a_text), (b, b_text), (base, base_text) = sides
    return Bars(one["name"], a, b, a_text, b_text, base if has_baseline else None, base_text)


def _values(document: Mapping[str, Any], side: str, key: str) -> list[float]:
    return [run[key] for case in document["cases"] for run in case[side] if run[key] is not None]


def _plain(document: Mapping[str, Any]) -> str:
    cases = sorted((_case(case, {}) for case in document["cases"]), key=lambda case: not case["differs"])
    shown = cases[:CASES_SHOWN]
    caption = (
        "All cases" if len(shown) == len(cases) else f"{len(shown)} of {len(cases):,} cases, those that differ first"
    )
    rows = [(one["key"], one["verdict"], one["changes"], one["cause"], one["sentence"]) for one in shown]
    return table(caption, ("Case", "Verdict", "Changes", "Cause", "What"), rows)

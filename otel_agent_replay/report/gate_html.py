"""A gate as one HTML file: the verdict and every case without script, and each case's aligned diff.

The JSON document (`gate_json`) in, text out. `html_page` owns the file's form; the page of cases is that of a cohort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_agent_replay.report import html_page
from otel_agent_replay.report.html import SIZE_LIMIT, fit_cases, table, text
from otel_agent_replay.report.pair_view import pair_view
from otel_agent_replay.report.safe_text import value_text, visible

CASES_SHOWN = 500
"""In the part without script, those that did not pass first."""
_EVIDENCE = 3  # of an invariant
_VALUE = 200  # characters
_STANDINGS = ("failed", "unknown", "passed")


def gate_html(document: Mapping[str, Any], *, limit: int = SIZE_LIMIT) -> str:
    """Return the report of what `gate_json.gate_json` gives, in `limit` bytes where it can be.

    Diffs of cases that did not pass are kept first; those that do not fit are left out, and counted.
    """
    cases = sorted(document["cases"], key=lambda case: _STANDINGS.index(case["standing"]))
    compared = [(visible(case["case"]), _comparison(case)) for case in cases]
    views = {key: pair_view(one) for key, one in compared if one is not None}
    head, plain = _head(document), "\n".join(_plain(cases))
    title = visible(f"gate {document['standing']}: {document['sentence']}")
    room = limit - len(html_page.page(title, head, plain, "").encode())
    kept, packed = fit_cases(views, room, lambda shown: [_case(case, shown) for case in document["cases"]])
    left_out = sum(view["left_out"]["values"] for view in kept.values())
    told = [
        *([f"{len(views) - len(kept)} diffs do not fit into this file."] if len(kept) < len(views) else []),
        *([f"{left_out} values are left out for its size: each shows its digest and size."] if left_out else []),
    ]
    plain += "".join(f"\n<p>{text(sentence)}</p>" for sentence in told)
    return html_page.page(title, head, plain, packed)


def _comparison(case: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the comparison of the trial that tells most: one that did not pass, else the first."""
    trials = sorted(case["trials"], key=lambda one: _STANDINGS.index(one["standing"]))
    return next((one["comparison"] for one in trials if one["comparison"] is not None), None)


def _case(case: Mapping[str, Any], views: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case as the page's table shows it."""
    key, compared = visible(case["case"]), _comparison(case)
    told = case["detail"] or ("" if compared is None else compared["sentence"])
    judged = list(dict.fromkeys(one["judged"] for one in case["trials"] if one["judged"]))
    return {
        "key": key,
        "verdict": case["standing"],
        "changes": "" if compared is None else str(len(compared["changes"])),
        "cause": visible(case["told"]),
        "sentence": visible("; ".join([*([told] if told else []), *judged])),
        "differs": case["standing"] != "passed",
        "pair": key if key in views else None,
    }


def _head(document: Mapping[str, Any]) -> str:
    count = {one: sum(case["standing"] == one for case in document["cases"]) for one in _STANDINGS}
    counted = ", ".join(f"{number} {standing}" for standing, number in count.items() if number) or "no case"
    spent = f", ${document['spent_usd']:.4f} spent" if document["spent_usd"] else ""
    return "\n".join(
        [
            "<h1>Gate</h1>",
            f'<p class="verdict">{text(document["sentence"])}</p>',
            f'<p class="facts">{text(counted + spent)}; of several trials {document["min_pass"]:.0%} must pass</p>',
            '<div id="overview">',
            *_broken(document["cases"]),
            "</div>",
        ]
    )


def _broken(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what was mended and what is broken, an invariant a row."""
    rows = []
    for case in cases:
        rows += [(case["case"], name, "mended", "") for name in case["mended"]]
        trials = sorted(case["trials"], key=lambda one: _STANDINGS.index(one["standing"]))
        for one in trials[0]["invariants"] if trials else ():
            if one["state"] != "held":
                state = f"{one['state']}, and was not before" if one["name"] in case["newly_broken"] else one["state"]
                rows.append((case["case"], one["name"], state, _evidence(one["evidence"])))
    if rows:
        made = table("Invariants that changed or do not hold", ("Case", "Invariant", "State", "What shows it"), rows)
        yield f'<div class="wide" tabindex="0" role="region" aria-label="Invariants">{made}</div>'


def _evidence(found: Sequence[Mapping[str, Any]]) -> str:
    told = []
    for one in found[:_EVIDENCE]:
        where = "" if one["step"] is None else f"step {one['step']}: "
        values = [
            f"{name} {value_text(one[key], _VALUE)}"
            for name, key in (("expected", "expected"), ("came", "actual"))
            if one[key] is not None
        ]
        told.append(where + one["told"] + (f" ({', '.join(values)})" if values else ""))
    return "; ".join(told) + (f"; and {len(found) - _EVIDENCE} more" if len(found) > _EVIDENCE else "")


def _plain(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    shown = cases[:CASES_SHOWN]
    more = len(shown) < len(cases)
    caption = f"{len(shown)} of {len(cases):,} cases, those that did not pass first" if more else "All cases"
    rows = [
        (
            one["case"],
            one["role"],
            one["standing"],
            one["told"] + (f": {one['detail']}" if one["detail"] else ""),
            f"{one['passed']} of {one['trials_made']}",
            str((_comparison(one) or {"sentence": ""})["sentence"]),
        )
        for one in shown
    ]
    yield table(caption, ("Case", "Role", "Standing", "Why", "Trials passed", "What changed"), rows)

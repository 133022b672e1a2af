"""A comparison of cohorts as a comment on a pull request: Markdown that no recorded text can break out of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_agent_replay.compare.cohort import CohortComparison, Judgement
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.report.cohort_text import cut, metric_head, metric_rows, worst_cases
from otel_agent_replay.report.safe_text import markdown, markdown_code

_CASES = 50
_PATHS = 20


def cohort_markdown(comparison: CohortComparison) -> str:
    """Return the comment: the verdict, what limits it, the metrics; paths, arguments and cases folded."""
    parts = [
        f"**{markdown(comparison.sentence)}**",
        "",
        f"A: {markdown(comparison.a)} · B: {markdown(comparison.b)}"
        + (f" · baseline: {markdown(comparison.baseline)}" if comparison.baseline else ""),
        "",
        *(f"> {markdown(note)}  " for note in comparison.notes),
        "",
        *_metrics(comparison),
        "",
        *_causes(comparison),
        *_paths(comparison),
        *_arguments(comparison),
        *_cases(comparison),
    ]
    return "\n".join(parts) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _metrics(comparison: CohortComparison) -> Iterator[str]:
    head = metric_head(comparison)
    yield _row(head)
    yield _row(["---", *["---:"] * (len(head) - 2), "---"])
    for metric, cells in metric_rows(comparison):
        shown = [markdown(cell) for cell in cells]
        if metric.judgement is Judgement.DIFFERENT:
            shown = [f"**{shown[0]}**", *shown[1:-1], f"**{shown[-1]}**"]
        yield _row(shown)
    yield ""
    yield f"p after correction for all metrics tested; alpha {comparison.alpha:g}; intervals over cases"


def _causes(comparison: CohortComparison) -> Iterator[str]:
    if comparison.causes:
        yield "Causes of departures: " + ", ".join(
            f"{count} x {markdown(cause)}" for cause, count in comparison.causes.items()
        )
        yield ""


def _folded(title: str, rows: Sequence[str]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from rows
    yield ""
    yield "</details>"
    yield ""


def _paths(comparison: CohortComparison) -> Iterator[str]:
    if not comparison.tool_paths:
        return
    rows = [
        "| Tool path | A | B |",
        "| --- | ---: | ---: |",
        *(
            _row([markdown_code(cut(one.name)), f"{one.a} ({one.share_a:.1%})", f"{one.b} ({one.share_b:.1%})"])
            for one in comparison.tool_paths[:_PATHS]
        ),
    ]
    yield from _folded(f"{len(comparison.tool_paths)} tool paths", rows)


def _arguments(comparison: CohortComparison) -> Iterator[str]:
    if not comparison.arguments:
        return
    rows = [
        "| Tool | Calls in A | Other arguments in B | in the baseline lane |",
        "| --- | ---: | ---: | ---: |",
        *(
            _row([markdown_code(one.tool), str(one.calls), str(one.changed), str(one.baseline_changed)])
            for one in comparison.arguments
        ),
    ]
    yield from _folded(f"arguments of {len(comparison.arguments)} tools changed", rows)


def _cases(comparison: CohortComparison) -> Iterator[str]:
    found = worst_cases(comparison)
    if not found:
        return
    rows = ["| A | B | Departure |", "| --- | --- | --- |"]
    for case in found[:_CASES]:
        place = next(place for place, pair in enumerate(case.pairs) if not pair.is_same)
        ids = [markdown_code(run.run_id.hex()) for run in (case.a[0], case.b[place])]
        rows.append(_row([*ids, markdown(case.pairs[place].sentence)]))
    if len(found) > _CASES:
        rows += ["", f"and {len(found) - _CASES} more: `agent-replay compare --json` lists them"]
    yield from _folded(f"{len(found)} of {counted(len(comparison.cases), 'case')} differ", rows)

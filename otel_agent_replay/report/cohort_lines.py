"""A comparison of cohorts for the terminal: the verdict, what limits it, the metrics, paths, causes and the cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from otel_agent_replay.compare.cohort import CohortComparison, CohortVerdict, Judgement, ShareOf
from otel_agent_replay.compare.matrix import Cell, Matrix, Steadiness
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.report.cohort_text import cut, metric_head, metric_rows, worst_cases
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_SHOWN = 10
_STYLES = {CohortVerdict.SAME: GOOD, CohortVerdict.DIFFERENT: BAD, CohortVerdict.CANNOT_JUDGE: STRONG}
_CELLS = {Cell.SAME: "=", Cell.CHANGED: "~", Cell.MISSING: "-"}


def cohort_lines(comparison: CohortComparison, matrix: Matrix | None = None) -> Iterator[Text]:
    """Yield the lines."""
    yield line((comparison.sentence, _STYLES[comparison.verdict]))
    yield line(("A: ", STRONG), comparison.a)
    if comparison.baseline:
        yield line(("baseline: ", STRONG), comparison.baseline)
    yield line(("B: ", STRONG), comparison.b)
    for note in comparison.notes:
        yield line((f"note: {note}", QUIET))
    yield line()
    yield from _metrics(comparison)
    yield line(
        (f"  p after correction for all metrics tested; alpha {comparison.alpha:g}; intervals over cases", QUIET)
    )
    yield from _counts("pairs", comparison.verdicts)
    yield from _counts("baseline pairs", comparison.baseline_verdicts)
    yield from _counts("cause of the departure", comparison.causes)
    yield from _shares("tool path", comparison.tool_paths, comparison)
    yield from _arguments(comparison)
    yield from _shares("answered by", comparison.answer_sources, comparison)
    yield from _shares("write or external effect", comparison.effects, comparison)
    yield from _cases(comparison)
    if matrix is not None:
        yield from _matrix(matrix)


def _metrics(comparison: CohortComparison) -> Iterator[Text]:
    rows = [(metric.judgement, cells) for metric, cells in metric_rows(comparison)]
    styles = {Judgement.DIFFERENT: BAD, Judgement.DESCRIBED: QUIET}
    yield from _table(
        [metric_head(comparison), *(cells for _, cells in rows)], [styles.get(one, "") for one, _ in rows]
    )


def _table(cells: Sequence[Sequence[str]], styles: Sequence[str]) -> Iterator[Text]:
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    for number, row in enumerate(cells):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield line(("  " + "  ".join(padded).rstrip(), QUIET if number == 0 else styles[number - 1]))


def _counts(title: str, counts: object) -> Iterator[Text]:
    if isinstance(counts, dict) and counts:
        yield line()
        yield line((f"  {title}: ", QUIET), ", ".join(f"{count:,} {name}" for name, count in counts.items()))


def _shares(title: str, shares: Sequence[ShareOf], comparison: CohortComparison) -> Iterator[Text]:
    if not shares:
        return
    head = [title, "A", *(["baseline"] if comparison.baseline else []), "B"]
    rows = [
        [
            cut(one.name),
            f"{one.a:,} ({one.share_a:.1%})",
            *([f"{one.baseline:,} ({one.share_baseline:.1%})"] if comparison.baseline else []),
            f"{one.b:,} ({one.share_b:.1%})",
        ]
        for one in shares[:_SHOWN]
    ]
    yield line()
    yield from _table([head, *rows], [""] * len(rows))
    yield from _more(len(shares))


def _more(count: int) -> Iterator[Text]:
    if count > _SHOWN:
        yield line((f"  and {count - _SHOWN:,} more; --json lists them", QUIET))


def _arguments(comparison: CohortComparison) -> Iterator[Text]:
    if not comparison.arguments:
        return
    rows = [
        [
            one.tool,
            f"{one.calls:,}",
            *([f"{one.baseline_changed:,}"] if comparison.baseline else []),
            f"{one.changed:,}",
        ]
        for one in comparison.arguments[:_SHOWN]
    ]
    head = ["tool", "calls in A", *(["other arguments in baseline"] if comparison.baseline else []), "in B"]
    yield line()
    yield from _table([head, *rows], [""] * len(rows))
    yield from _more(len(comparison.arguments))


def _cases(comparison: CohortComparison) -> Iterator[Text]:
    found = worst_cases(comparison)
    if not found:
        return
    yield line()
    yield line((f"  {len(found):,} of {counted(len(comparison.cases), 'case')} differ", STRONG))
    for case in found[:_SHOWN]:
        pair = next(pair for pair in case.pairs if not pair.is_same)
        yield line("  ", case.a[0].run_id.hex(), " ", case.b[case.pairs.index(pair)].run_id.hex(), "  ", pair.sentence)
    yield from _more(len(found))


def _matrix(matrix: Matrix) -> Iterator[Text]:
    of_b = len(matrix.columns) - matrix.of_a
    yield line()
    yield line(
        (f"  steps of {matrix.reference.hex()} in {matrix.of_a} more runs of A | {of_b} of B", STRONG),
        "   = same  ~ changed  - missing",
    )
    for row in matrix.rows:
        if row.steadiness is Steadiness.STEADY:
            continue
        shown = "".join(_CELLS[cell] for cell in row.cells)
        rate = f"changed in {row.changed_b} of {of_b}"
        if matrix.of_a:
            rate += f", A's own {row.changed_a} of {matrix.of_a}, p {row.p_adjusted:.3f}"
        yield line(
            f"  step {row.step} {row.title}  {shown[: matrix.of_a]}|{shown[matrix.of_a :]}  {rate}: ",
            (row.steadiness.value, BAD if row.steadiness is Steadiness.SYSTEMATIC else STRONG),
        )
    steady = sum(row.steadiness is Steadiness.STEADY for row in matrix.rows)
    yield line((f"  {steady} of {counted(len(matrix.rows), 'step')} are the same in every run", QUIET))

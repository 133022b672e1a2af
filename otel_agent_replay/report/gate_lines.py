"""A gate on the terminal: the verdict, then each case with what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Standing
from otel_agent_replay.report.comparison_tree import departure_lines
from otel_agent_replay.report.gate_words import case_lines, means_told, row_sentence
from otel_agent_replay.report.terminal import BAD, CHANGED, GOOD, QUIET, STRONG, line

_STYLES = {Standing.PASSED: GOOD, Standing.FAILED: BAD, Standing.UNKNOWN: CHANGED}


def gate_lines(verdict: GateVerdict) -> list[Text]:
    """Return the cases, those that did not pass in full, and the verdict as the last line."""
    lines = [text for row in verdict.cases for text in _case(row)]
    if verdict.usd:
        lines.append(line(f"spent: ${verdict.usd:.4f}"))
    return [*lines, line((verdict.sentence, _STYLES[verdict.standing]))]


def _case(row: CaseVerdict) -> Iterator[Text]:
    means = means_told(row)
    style = _STYLES[row.standing]
    yield line((row.name, STRONG), " ", (row_sentence(row), style), (f"  [{means}]" if means else "", QUIET))
    if row.standing is not Standing.PASSED and row.about:
        yield line((f"  {row.about}", QUIET))
    for text in case_lines(row):
        yield line(f"  {text}")
    shown = row.shown
    if row.standing is Standing.PASSED or shown is None or shown.comparison is None:
        return
    if shown.comparison.departure is not None:
        for drawn in departure_lines(shown.comparison.departure):
            yield Text("  ").append_text(drawn)

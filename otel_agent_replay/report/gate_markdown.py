"""A gate as a comment on a pull request: Markdown that no recorded text can break out of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Standing
from otel_agent_replay.report.gate_words import case_lines, means_told
from otel_agent_replay.report.markdown import LIMIT
from otel_agent_replay.report.safe_text import markdown, markdown_code

_SIGNS = {Standing.PASSED: "✅", Standing.FAILED: "❌", Standing.UNKNOWN: "❔"}
_TABLE = LIMIT // 2  # characters of the table; the rest is for what is wrong
_TAIL = 200  # characters kept for what was left out


def gate_markdown(verdict: GateVerdict) -> str:
    """Return the comment: verdict, a row a case, then what is wrong, each folded; at most LIMIT characters."""
    head = [f"## {_SIGNS[verdict.standing]} {markdown(verdict.sentence)}", ""]
    if verdict.cases:
        head += ["| | Case | | Why | How |", "| --- | --- | --- | --- | --- |"]
        worst = {Standing.FAILED: 0, Standing.UNKNOWN: 1, Standing.PASSED: 2}
        rows = sorted(verdict.cases, key=lambda row: worst[row.standing])
        head += _table([_row(row) for row in rows])
    if verdict.usd:
        head += ["", f"Spent: ${verdict.usd:.4f}"]
    text = "\n".join([*head, ""])
    open_rows = [row for row in verdict.cases if row.standing is not Standing.PASSED]
    for number, row in enumerate(open_rows):
        block = "\n".join(_details(row))
        if len(text) + len(block) > LIMIT - _TAIL:
            return text + f"\nand {len(open_rows) - number} more: `agent-replay gate --json` lists them\n"
        text += "\n" + block + "\n"
    return text


def _table(rows: Sequence[str]) -> Iterator[str]:
    used = 0
    for number, text in enumerate(rows):
        used += len(text) + 1
        if used > _TABLE:
            yield f"| | and {len(rows) - number} more | | | |"
            return
        yield text


def _row(row: CaseVerdict) -> str:
    why = f"{markdown(row.reason.value)}{': ' + markdown(row.detail[:300]) if row.detail else ''}"
    return f"| {_SIGNS[row.standing]} | {markdown_code(row.name)} | {row.role} | {why} | {markdown(means_told(row))} |"


def _details(row: CaseVerdict) -> Iterator[str]:
    yield f"<details><summary>{_SIGNS[row.standing]} {markdown_code(row.name)}</summary>"
    yield ""
    if row.about:
        yield markdown(row.about)
        yield ""
    yield from (f"- {markdown(text)}" for text in case_lines(row))
    yield ""
    yield "</details>"

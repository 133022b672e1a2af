"""The changes of a comparison by their risk, for eyes and machines: each says why it stands where it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from otel_agent_replay.compare import Added, RankedChange, Removed
from otel_agent_replay.report.safe_text import markdown
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_SHOWN = 10
_HIGH = 60


def risk_json(ranked: Sequence[RankedChange]) -> list[dict[str, Any]]:
    """Return the ranks, riskiest first; `change_number` is a place in the document's `changes`."""
    return [
        {
            "change_number": item.number,
            "risk": item.risk,
            "improvement": item.is_improvement,
            "reasons": list(item.reasons),
        }
        for item in ranked
    ]


def risk_lines(ranked: Sequence[RankedChange]) -> list[Text]:
    """Return the section of the riskiest changes, empty where there is none."""
    if not ranked:
        return []
    lines = [line(""), line(("By risk (0 to 100):", STRONG))]
    for item in ranked[:_SHOWN]:
        style = GOOD if item.is_improvement else BAD if item.risk >= _HIGH else ""
        lines.append(
            line("  ", (f"{_rank(item):>6}", style), f"  {_mark(item)} {_title(item)}: {'; '.join(item.reasons)}")
        )
    if len(ranked) > _SHOWN:
        lines.append(line((f"  and {len(ranked) - _SHOWN} more, none over {ranked[_SHOWN].risk}", QUIET)))
    return lines


def risk_markdown(ranked: Sequence[RankedChange]) -> str:
    """Return the same as a Markdown table, empty where there is none."""
    if not ranked:
        return ""
    rows = [
        f"| {_rank(item)} | {_mark(item)} {markdown(_title(item))} | {markdown('; '.join(item.reasons))} |"
        for item in ranked[:_SHOWN]
    ]
    more = [f"\n{len(ranked) - _SHOWN} more, none over {ranked[_SHOWN].risk}."] if len(ranked) > _SHOWN else []
    return "\n".join(["", "### By risk", "", "| risk | step | why |", "|---|---|---|", *rows, *more, ""])


def _rank(item: RankedChange) -> str:
    return "better" if item.is_improvement else str(item.risk)


def _title(item: RankedChange) -> str:
    change = item.change
    return change.b.title if isinstance(change, Added) else change.a.title


def _mark(item: RankedChange) -> str:
    return "+" if isinstance(item.change, Added) else "-" if isinstance(item.change, Removed) else "~"

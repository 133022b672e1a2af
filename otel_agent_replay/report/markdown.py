"""A comparison as a comment on a pull request: Markdown that no recorded text can break out of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_agent_replay.compare import (
    Added,
    Change,
    Changed,
    Comparison,
    Consequence,
    Departure,
    FieldChange,
    Removed,
    Reply,
    Verdict,
    Walk,
)
from otel_agent_replay.report import amounts
from otel_agent_replay.report.kinship import relation_sentence
from otel_agent_replay.report.safe_text import markdown, markdown_code, value_text

LIMIT = 60_000
"""Characters of a comment; GitHub takes 65,536. What does not fit is counted at the end."""
_PLACES = 5
_VALUE = 600


def comparison_markdown(comparison: Comparison, final: Walk | None = None) -> str:
    """Return the comment: verdict, what was lost, questions, the departure; consequences folded.

    `final` is the way back from the runs' own results.
    """
    relation = relation_sentence(comparison.a, comparison.b)
    sentence = markdown(comparison.sentence)
    if comparison.verdict is Verdict.IDENTICAL:
        losses = [notice for notice in comparison.notices if not notice.is_standing]
        told = [
            *([relation, ""] if relation else ()),
            *(f"> **{item.run}**: {markdown(item.text)}\n" for item in losses),
        ]
        return "\n".join([*told, sentence, ""])
    parts = [
        *([relation, ""] if relation else ()),
        *(f"> **{item.run}**: {markdown(item.text)}  " for item in comparison.notices if not item.is_standing),
        "",
        f"**{sentence}**",
        "",
        *_table(comparison),
        "",
    ]
    if comparison.departure is not None:
        parts += [*_departure(comparison.departure), ""]
    if final is not None:
        parts += ["Why the final answer differs:", "", *(f"1. {markdown(said)}" for said in final.told(_PLACES)), ""]
    parts += [*_totals(comparison), ""]
    text = "\n".join(parts)
    if comparison.departure is not None and comparison.departure.consequences:
        text += "\n" + _folded(comparison.departure.consequences, LIMIT - len(text))
    text += "".join(f"\n> **{item.run}**: {markdown(item.text)}\n" for item in comparison.notices if item.is_standing)
    return text + f"\nA {markdown_code(comparison.a.run_id.hex())} · B {markdown_code(comparison.b.run_id.hex())}\n"


def _table(comparison: Comparison) -> Iterator[str]:
    yield "| Did it change? | | Compared | First |"
    yield "| --- | --- | ---: | --- |"
    for question in comparison.questions:
        reply = f"**{question.reply.value}**" if question.reply in (Reply.YES, Reply.UNKNOWN) else question.reply.value
        first = "" if question.first is None else markdown_code(question.first.title)
        detail = f" {markdown(question.detail)}" if question.detail else ""
        yield f"| {question.asked.value} | {reply} | {question.compared or ''} | {first}{detail} |"


def _departure(departure: Departure) -> Iterator[str]:
    yield f"#### First departure: {markdown_code(departure.at.title)}"
    yield ""
    yield f"Cause: **{departure.cause.value}**"
    yield ""
    yield from (f"- {markdown(sentence)}" for sentence in departure.evidence)
    yield ""
    for change in (departure.change, departure.counterpart):
        if change is not None:
            yield from _change(change)


def _change(change: Change) -> Iterator[str]:
    if isinstance(change, (Added, Removed)):
        side, end = ("B", change.b) if isinstance(change, Added) else ("A", change.a)
        more = f", with {change.below} below it" if change.below else ""
        yield f"Only in {side}: {markdown_code(end.title)}{more}"
    elif isinstance(change, Changed):
        yield "| Where | A | B |"
        yield "| --- | --- | --- |"
        for field in change.fields:
            yield from _field(field)
    else:
        yield f"A: {markdown_code('/'.join(change.a.path))} · B: {markdown_code('/'.join(change.b.path))}"
    yield ""


def _field(change: FieldChange) -> Iterator[str]:
    for place in change.differences[:_PLACES]:
        path = f" {markdown_code(place.path)}" if place.path else ""
        before, after = (markdown_code(value_text(side, _VALUE)) for side in (place.before, place.after))
        yield f"| {change.field.value}{path} | {before} | {after} |"
    more = len(change.differences) - _PLACES
    if more > 0 or not change.complete:
        counted = str(more) if change.complete else f"at least {max(more, 1)}"
        yield f"| {change.field.value} | and {counted} more places | |"


def _totals(comparison: Comparison) -> Iterator[str]:
    totals = comparison.totals
    for name, text in (
        ("Latency", amounts.change(totals.latency_ns, amounts.duration)),
        ("Input tokens", amounts.change(totals.input_tokens)),
        ("Output tokens", amounts.change(totals.output_tokens)),
        ("Cost", amounts.change(totals.cost_usd, amounts.money)),
    ):
        if text:
            yield f"- {name}: {text}"


def _folded(consequences: Sequence[Consequence], room: int) -> str:
    head = f"<details><summary>{len(consequences)} later differences</summary>\n\n"
    lines: list[str] = []
    used = len(head) + 200
    for number, item in enumerate(consequences):
        change = item.change
        end = change.b if isinstance(change, Added) else change.a
        text = f"- {markdown_code(end.title)} {_what(change)}: {item.basis.value}"
        used += len(text) + 1
        if used > room:
            lines.append(f"- and {len(consequences) - number} more: `agent-replay diff --json` lists them")
            break
        lines.append(text)
    return head + "\n".join(lines) + "\n\n</details>\n"


def _what(change: Change) -> str:
    if isinstance(change, Changed):
        return ", ".join(str(item.field) for item in change.fields)
    return {Added: "only in B", Removed: "only in A"}.get(type(change), "moved")

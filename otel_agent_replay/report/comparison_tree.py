"""A comparison on the terminal: verdict, questions, departure, and the two trees as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from otel_agent_replay.compare import (
    Added,
    Change,
    Changed,
    Comparison,
    Departure,
    FieldChange,
    Mark,
    Removed,
    Reply,
    Row,
    Verdict,
    Walk,
)
from otel_agent_replay.report import amounts
from otel_agent_replay.report.kinship import relation_sentence
from otel_agent_replay.report.safe_text import value_text
from otel_agent_replay.report.terminal import BAD, CHANGED, GOOD, QUIET, SIDE_A, SIDE_B, STRONG, line

PLACES_SHOWN = 5
SENTENCES = 8
_CONTEXT = 2
_STYLES = {
    Mark.SAME: QUIET,
    Mark.CHANGED: CHANGED,
    Mark.REMOVED: SIDE_A,
    Mark.ADDED: SIDE_B,
    Mark.REORDERED: QUIET,
    Mark.MOVED: CHANGED,
    Mark.UNOBSERVED: QUIET,
}


def comparison_lines(comparison: Comparison, final: Walk | None = None) -> list[Text]:
    """Return the comparison: how the runs hang together, what was lost, the verdict; identical runs in one line.

    `final` is the way back from the runs' own results.
    """
    losses = [notice for notice in comparison.notices if not notice.is_standing]
    same = comparison.verdict is Verdict.IDENTICAL
    relation = relation_sentence(comparison.a, comparison.b)
    lines = [line((relation, QUIET))] if relation else []
    lines += [line((f"note, {notice.run}: {notice.text}", BAD)) for notice in losses]
    lines.append(line((comparison.sentence, GOOD if same else STRONG)))
    if same:
        return lines
    lines.append(line((f"A {comparison.a.run_id.hex()} {comparison.a.agent}", SIDE_A)))
    lines.append(line((f"B {comparison.b.run_id.hex()} {comparison.b.agent}", SIDE_B)))
    if comparison.departure is not None:
        lines += [Text(), *departure_lines(comparison.departure)]
    if final is not None:
        lines += [Text(), line(("Why the final answer differs:", STRONG))]
        lines += [line((f"  {sentence}", QUIET)) for sentence in final.told(SENTENCES)]
    lines += [Text(), *_questions(comparison), Text(), *_totals(comparison), Text(), *_tree(comparison)]
    standing = [notice for notice in comparison.notices if notice.is_standing]
    return [*lines, *(line((f"note, {notice.run}: {notice.text}", QUIET)) for notice in standing)]


def departure_lines(departure: Departure) -> list[Text]:
    """Return the departure: where, why, with both values."""
    lines = [
        line(("★ ", STRONG), (departure.at.title, STRONG)),
        line(f"  cause: {departure.cause}"),
        *(line((f"  - {sentence}", QUIET)) for sentence in departure.evidence),
    ]
    lines += change_lines(departure.change)
    if departure.counterpart is not None:
        lines += change_lines(departure.counterpart)
    return lines


def change_lines(change: Change) -> list[Text]:
    """Return what differs in one change, a few places of each field."""
    if isinstance(change, (Added, Removed)):
        side, style, end = ("B", SIDE_B, change.b) if isinstance(change, Added) else ("A", SIDE_A, change.a)
        more = f", with {change.below} below it" if change.below else ""
        return [line((f"  only in {side}: {end.title}{more}", style))]
    if isinstance(change, Changed):
        return [item for field in change.fields for item in _field(field)]
    return [line((f"  A: {'/'.join(change.a.path)}", SIDE_A)), line((f"  B: {'/'.join(change.b.path)}", SIDE_B))]


def _field(change: FieldChange) -> Iterator[Text]:
    if change.by_digest:
        yield line(f"  {change.field}: differs; the content was not kept")
    for place in change.differences[:PLACES_SHOWN]:
        yield line((f"  {change.field}{': ' + place.path if place.path else ''}", CHANGED))
        yield line("    A ", (value_text(place.before), SIDE_A))
        yield line("    B ", (value_text(place.after), SIDE_B))
    more = len(change.differences) - PLACES_SHOWN
    if more > 0 or not change.complete:
        counted = f"{max(more, 0)}" if change.complete else f"at least {max(more, 1)}"
        yield line((f"  and {counted} more places: --json lists them", QUIET))


def _questions(comparison: Comparison) -> list[Text]:
    styles = {Reply.YES: CHANGED, Reply.UNKNOWN: BAD}
    lines = []
    for question in comparison.questions:
        where = "" if question.first is None else f", first at {question.first.title}"
        detail = f" ({question.detail})" if question.detail else ""
        counted = f"{question.compared} compared" if question.compared else ""
        lines.append(
            line(
                question.asked.value.ljust(18),
                (question.reply.value.ljust(18), styles.get(question.reply, QUIET)),
                (f"{counted}{where}{detail}", QUIET),
            )
        )
    return lines


def _totals(comparison: Comparison) -> list[Text]:
    totals = comparison.totals
    shown = (
        ("latency", amounts.change(totals.latency_ns, amounts.duration)),
        ("input tokens", amounts.change(totals.input_tokens)),
        ("output tokens", amounts.change(totals.output_tokens)),
        ("cost", amounts.change(totals.cost_usd, amounts.money)),
    )
    return [line(name.ljust(18), text) for name, text in shown if text]


def _tree(comparison: Comparison) -> Iterator[Text]:
    rows = comparison.rows
    shown = _near_changes(rows)
    departed = None if comparison.departure is None else comparison.departure.change
    folded = 0
    for number, row in enumerate(rows):
        if number not in shown:
            folded += 1
            continue
        if folded:
            yield line((f"      … {folded} equal {'row' if folded == 1 else 'rows'}", QUIET))
            folded = 0
        yield _row(row, departed)
    if folded:
        yield line((f"      … {folded} equal {'row' if folded == 1 else 'rows'}", QUIET))
    yield line(("= same  ~ changed  − only A  + only B  ↕ other order  ⇄ moved  · not run  ★ departure", QUIET))


def _near_changes(rows: Sequence[Row]) -> set[int]:
    """Return the rows to show: those that differ, a few around each, and all above them."""
    shown: set[int] = set()
    line_above: list[int] = []  # the rows that hold this one, outermost first
    for number, row in enumerate(rows):
        del line_above[row.depth :]
        if row.mark not in (Mark.SAME, Mark.UNOBSERVED):
            shown.update(range(max(0, number - _CONTEXT), min(len(rows), number + _CONTEXT + 1)))
            shown.update(line_above)
        line_above.append(number)
    return shown


def _row(row: Row, departed: Change | None) -> Text:
    star = "★" if departed is not None and row.change is departed else " "
    end = row.a or row.b
    if end is None:
        raise AssertionError("a row has a node of at least one run")
    steps = f"{_step(row.a.step if row.a else None)} {_step(row.b.step if row.b else None)}"
    what = ""
    if isinstance(row.change, Changed):
        what = "  " + ", ".join(str(field.field) for field in row.change.fields)
    name = f"{end.kind} {end.name}"
    style = _STYLES[row.mark]
    return line(f"{star}", (row.mark.value, style), f" {steps}  {'  ' * row.depth}", (name, style), (what, CHANGED))


def _step(step: int | None) -> str:
    return ("" if step is None else str(step)).rjust(4)

"""A screening for eyes: what agrees, where it does not and with what at stake, what it cost, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from otel_agent_replay.compare.screening import RISKS, Disagreement, LaneReport, Measured, ScreeningReport, Tally
from otel_agent_replay.report import amounts
from otel_agent_replay.report.asked import action_text, comparison_text
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_SHOWN = 100  # characters of an action in the list of disagreements
_HEAD = ("steps", "agree", "other words", "differ", "no answer", "agreement")


def screening_lines(
    report: ScreeningReport,
    names: dict[str, str],
    *,
    firsts: Sequence[Disagreement],
    more_firsts: int,
    in_doubt: int,
    missing: int,
    stopped: str,
) -> Iterator[Text]:
    """Yield the lines. `names` says what each lane asked; `firsts` are the first disagreements that are shown."""
    judged, *others = report.lanes
    lane = report.lanes[judged]
    yield line(
        (names[judged], STRONG),
        f" against the recording: {amounts.counted(lane.runs, 'run')}, {amounts.counted(report.steps, 'step')}",
    )
    yield from _table("", {"every step in sight": lane.tally}, {})
    if lane.worded:
        yield line((f"  other words: likeness {lane.likeness / lane.worded:.2f} on average, of letters only", QUIET))
    if lane.beyond.steps:
        more = f"{amounts.counted(lane.beyond.steps, 'step')} more, {lane.beyond.differ} of which differ"
        yield line((f"  beyond a run's first disagreement: {more}; nothing is claimed of them", QUIET))
    unknown = lane.runs - lane.runs_whole - lane.runs_differing
    yield line(
        "  runs: ", (f"{lane.runs_whole} agree throughout", GOOD), ", ",
        (f"{lane.runs_differing} disagree", BAD if lane.runs_differing else ""),
        f", of {unknown} it is not known" if unknown else "",
    )  # fmt: skip
    for other in others:
        yield from _baseline(names[other], report.lanes[other], report.noise)
    base = report.lanes[others[0]] if others else None
    yield line()
    risks = {risk: lane.by_risk[risk] for risk in RISKS if risk in lane.by_risk}
    yield from _table("at stake", risks, {} if base is None else base.by_risk)
    yield line()
    tools = dict(sorted(lane.by_tool.items(), key=lambda item: (-item[1].differ, -item[1].steps, item[0])))
    yield from _table("recorded tool", tools, {} if base is None else base.by_tool)
    yield from _disagreements(firsts, more_firsts)
    yield line()
    yield from _measures(report, names)
    yield from _unknown(report, in_doubt=in_doubt, missing=missing, stopped=stopped)


def _baseline(name: str, lane: LaneReport, noise: int) -> Iterator[Text]:
    yield line(
        (f"  {name}: ", STRONG), f"{lane.tally.differ} of "
        f"{amounts.counted(lane.tally.steps, 'step')} in its sight differ, in "
        f"{lane.runs_differing} of {amounts.counted(lane.runs, 'run')}: the noise floor",
    )  # fmt: skip
    yield line((f"  first disagreements where it differs too: {noise}", QUIET))


def _table(title: str, rows: dict[str, Tally], base: dict[str, Tally]) -> Iterator[Text]:
    head = [title, *_HEAD, *(["baseline"] if base else [])]
    cells = [head]
    for name, tally in rows.items():
        counts = map(str, (tally.steps, tally.agree, tally.other_words, tally.differ, tally.no_answer))
        told = [_share(base[name]) if name in base else ""] if base else []
        cells.append([name, *counts, _share(tally), *told])
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    for number, row in enumerate(cells):
        shown = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield line(("  " + "  ".join(shown).rstrip(), QUIET if number == 0 else ""))


def _share(tally: Tally) -> str:
    return "" if tally.agreement is None else f"{tally.agreement:.1%}"


def _disagreements(firsts: Sequence[Disagreement], more: int) -> Iterator[Text]:
    if firsts:
        yield line()
        yield line(("first disagreement of each run, the riskiest first", STRONG))
    for found in firsts:
        judged = found.judged
        often = (
            f", {judged.answers - judged.agreeing} of {amounts.counted(judged.answers, 'answer')}"
            if judged.answers > 1
            else ""
        )
        noise = ", the baseline differs too" if found.noise else ""
        yield line(f"  {found.run_id.hex()} step {found.step}  ", (f"{judged.risk}{often}{noise}", BAD))
        yield line(f"    recorded  {action_text(found.recorded, _SHOWN)}")
        if judged.typical is not None and judged.comparison is not None:
            yield line(
                f"    asked     {action_text(judged.typical, _SHOWN)}  ",
                (f"[{comparison_text(judged.comparison)}]", BAD),
            )
    if more:
        yield line((f"  … and {amounts.counted(more, 'run')} more (--show, --disagreeing FILE, --json)", QUIET))


def _measures(report: ScreeningReport, names: dict[str, str]) -> Iterator[Text]:
    lanes = [("recorded", report.recorded), *((names[name], lane.measured) for name, lane in report.lanes.items())]
    for name, measured in lanes:
        yield line((f"{name}: ", STRONG), measures_text(measured))


def measures_text(measured: Measured) -> str:
    """Return tokens, cost and latency of answers, and of how many the price is not known."""
    latency = amounts.duration(measured.latency_ns / measured.timed) if measured.timed else "unknown"
    unpriced = measured.answers - measured.priced
    cost = f"${measured.cost_usd:.4f}" if measured.priced else "cost unknown"
    return (
        f"{amounts.counted(measured.answers, 'answer')}, {amounts.count(measured.input_tokens)} tokens in, "
        f"{amounts.count(measured.output_tokens)} out, {cost}"
        + (f" (of {amounts.counted(unpriced, 'answer')} no price is known)" if unpriced and measured.priced else "")
        + f", {latency} an answer"
    )


def _unknown(report: ScreeningReport, *, in_doubt: int, missing: int, stopped: str) -> Iterator[Text]:
    for reason, count in report.skipped.most_common():
        yield line((f"left out: {amounts.counted(count, 'step')}: {reason}", QUIET))
    for reason, count in report.unanswered.most_common(10):
        yield line((f"no answer: {amounts.counted(count, 'question')}: {reason}", BAD))
    for what, count in report.lost.most_common(10):
        yield line(
            (
                (
                    f"not asked for: {amounts.counted(count, 'question')}: {what}, "
                    "for which the candidate's protocol has no word"
                ),
                BAD,
            )
        )
    if in_doubt:
        told = f"in doubt: {amounts.counted(in_doubt, 'question')} may have been answered and paid for"
        yield line((f"{told}; they are not asked again unless you say --again", BAD))
    if missing:
        yield line((f"not in the lake: {amounts.counted(missing, 'run')} of the cohort", BAD))
    if stopped:
        yield line((f"stopped early: {stopped}; the same command goes on from here", BAD))

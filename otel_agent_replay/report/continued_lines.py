"""How a resumed run or a fork went, on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from otel_agent_replay.replay.continued_report import JUMP, ContinuedReport, ContinuedStatus
from otel_agent_replay.replay.told_steps import How
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_MOST_REFUSED = 10
_MOST_RANGES = 20  # of steps that are told in one line
_WORDS = {
    ContinuedStatus.FINISHED: "Finished",
    ContinuedStatus.FAILED: "The agent failed",
    ContinuedStatus.DEPARTED: "Departed before the recording ended",
    ContinuedStatus.STOPPED: "Stopped",
    ContinuedStatus.WAITING: "Not now",
    ContinuedStatus.NOT_BEGUN: "Could not go on",
}


def continued_lines(report: ContinuedReport) -> list[Text]:
    """Return the outcome in words: what was shared, what was new, and what to do next."""
    return list(_lines(report))


def continued_sentence(report: ContinuedReport) -> str:
    """Return the outcome in one line."""
    steps = (
        f"{report.steps_shared} of {counted(report.steps_recorded, 'step')} from the recording, {report.steps_live} new"
    )
    return f"{_WORDS[report.status]}: {steps}."


def _lines(report: ContinuedReport) -> Iterator[Text]:
    style = GOOD if report.status is ContinuedStatus.FINISHED else BAD
    yield line((continued_sentence(report), STRONG if report.status is ContinuedStatus.WAITING else style))
    for text in report.reason.splitlines():
        yield line(f"  {text}")
    if report.mode == "fork" and report.run_id != report.origin_run_id:
        for change in report.changes:
            yield line(f"  changed: {change}")
        yield line((f"  {_entrance(report)}", QUIET))
        yield from _steps(report)
        yield line((f"  fork {report.run_id} of run {report.origin_run_id}", QUIET))
        yield line((f"  compare them: agent-replay diff {report.origin_run_id} {report.run_id}", QUIET))
    else:  # resumed, or a fork that never was
        yield line((f"  run {report.run_id}", QUIET))
    for attempt in report.refusals[:_MOST_REFUSED]:
        yield line((f"  refused: {attempt}", QUIET))
    if len(report.refusals) > _MOST_REFUSED:
        yield line((f"  ... and {len(report.refusals) - _MOST_REFUSED} more", QUIET))
    if report.fences:
        yield line((f"  fences: {', '.join(report.fences)}", QUIET))


def _entrance(report: ContinuedReport) -> str:
    if report.entered == JUMP:
        named = f" ({report.entered_id})" if report.entered_id else ""
        return f"entered at checkpoint {report.entered_name!r}{named}, step {report.entered_step}"
    return f"replayed from the beginning: {report.not_jumped}" if report.not_jumped else "replayed from the beginning"


def _steps(report: ContinuedReport) -> Iterator[Text]:
    """Yield a line for each way in which steps came about, with the steps."""
    for how in How:
        numbers = [one.step for one in report.steps if one.how is how]
        if numbers:
            changed = [one.step for one in report.steps if one.how is how and one.request_edited]
            note = f", the request of {_ranges(changed)} edited" if changed else ""
            yield line((f"  {how.value.replace('_', ' ')}: {_ranges(numbers)}{note}", QUIET))


def _ranges(numbers: Iterable[int]) -> str:
    """Return rising numbers as ranges: `1-4, 7`; many of them cut short."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    told = [f"{first}-{last}" if first != last else str(first) for first, last in found]
    return ", ".join(told[:_MOST_RANGES]) + (f", ... ({len(told)} ranges)" if len(told) > _MOST_RANGES else "")

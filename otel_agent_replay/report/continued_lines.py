"""How a resumed run or a fork went, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from otel_agent_replay.replay.continued_report import ContinuedReport, ContinuedStatus
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

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
    steps = f"{report.steps_shared} of {report.steps_recorded} steps from the recording, {report.steps_live} new"
    return f"{_WORDS[report.status]}: {steps}."


def _lines(report: ContinuedReport) -> Iterator[Text]:
    style = GOOD if report.status is ContinuedStatus.FINISHED else BAD
    yield line((continued_sentence(report), STRONG if report.status is ContinuedStatus.WAITING else style))
    for text in report.reason.splitlines():
        yield line(f"  {text}")
    if report.mode == "fork":
        for change in report.changes:
            yield line(f"  changed: {change}")
        yield line((f"  entered by {report.entered}", QUIET))
        yield line((f"  fork {report.run_id} of run {report.origin_run_id}", QUIET))
        yield line((f"  compare them: agent-replay diff {report.origin_run_id} {report.run_id}", QUIET))
    else:
        yield line((f"  run {report.run_id}", QUIET))
    if report.fences:
        yield line((f"  fences: {', '.join(report.fences)}", QUIET))

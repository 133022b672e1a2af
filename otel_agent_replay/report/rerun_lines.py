"""How re-runs went, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from otel_agent_replay.replay.rerun.outcome import RerunResult
from otel_agent_replay.replay.rerun.plan import OBSERVED
from otel_agent_replay.replay.rerun.report import RerunStatus
from otel_agent_replay.replay.rerun.totals import LaneTotals
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_MOST_SHOWN = 20
_SHORT = 12  # digits of a run id


def rerun_lines(totals: Sequence[LaneTotals], results: Sequence[RerunResult], lake: Path, into: Path) -> list[Text]:
    """Return the lanes, then each re-run that is not like the observed one."""
    return list(_lines(totals, results, lake, into))


def rerun_sentence(result: RerunResult) -> str:
    """Return one re-run in one line."""
    report = result.report
    words = "finished alike" if result.alike else report.status.value
    if report.status is RerunStatus.FINISHED and result.parted is not None:
        words = f"finished, parted: {result.parted.came}"
    elif report.reason:
        words = f"{words}: {report.reason.splitlines()[0]}"
    return f"{report.origin_run_id[:_SHORT]} {result.lane} {result.repeat}: {words}"


def _lines(totals: Sequence[LaneTotals], results: Sequence[RerunResult], lake: Path, into: Path) -> Iterator[Text]:
    for lane in totals:
        yield line((_lane(lane), STRONG if lane.lane == OBSERVED else GOOD if lane.alike == lane.runs else BAD))
        if lane.answers:
            sources = ", ".join(f"{name} {count}" for name, count in lane.answers)
            yield line(f"  answered by: {sources} ({(lane.off_tape or 0):.0%} off tape)")
        if lane.drifted_reads:
            yield line(f"  external data drifted: {lane.drifted_reads} live reads, no doing of the model")
    again = [one for one in results if one.lane != OBSERVED]
    differing = [one for one in again if not one.alike]
    for one in differing[:_MOST_SHOWN]:
        yield from _one(one)
    if len(differing) > _MOST_SHOWN:
        yield line(f"... and {len(differing) - _MOST_SHOWN} more (--json has all)")
    for text in dict.fromkeys(text for one in again for text in one.unfrozen):
        yield line(f"  not as it was: {text}")
    fences = dict.fromkeys(", ".join(one.report.fences) for one in again if one.report.fences)
    for text in fences:
        yield line((f"  fences: {text}", QUIET))
    shown = next((one.report for one in (*differing, *again) if one.report.run_id), None)
    if shown is not None:
        yield line((f"  re-runs are in {into}", QUIET))
        ids = f"{shown.origin_run_id} {shown.run_id}"
        yield line((f"  compare them: agent-replay diff --lake {lake} --lake-b {into} {ids}", QUIET))


def _lane(lane: LaneTotals) -> str:
    parts = [f"{lane.lane}: {lane.runs} run{'s' if lane.runs != 1 else ''}"]
    parts += [f"{count} {status}" for status, count in lane.statuses]
    if lane.lane != OBSERVED:
        parts.append(f"{lane.alike} alike")
    if lane.tokens is not None:
        parts.append(f"{lane.tokens} tokens")
    if lane.cost_usd is not None:
        parts.append(f"{lane.cost_usd:.6g} USD")
    return ", ".join(parts)


def _one(result: RerunResult) -> Iterator[Text]:
    report, parted = result.report, result.parted
    yield line((rerun_sentence(result), BAD))
    for text in report.reason.splitlines()[1:]:
        yield line(f"  {text}")
    if parted is not None:
        where = "at its end" if parted.observed_step is None else f"at step {parted.observed_step}"
        yield line(f"  parted {where}: {parted.observed}")
        yield line(f"    now: {parted.came}" + ("" if parted.step is None else f" (step {parted.step})"))
    for what in report.refused:
        yield line(f"  refused: {what}{_advice(what)}")
    for drift in report.drifted:
        note = ", recorded after other writes" if drift.other_writes else ""
        yield line(f"  drifted: {drift.name} (step {drift.step}, on record step {drift.recorded_step}{note})")
    if report.run_id:
        yield line((f"  re-run {report.run_id}", QUIET))


def _advice(refused: str) -> str:
    """Return what one can do about it, "" for nothing that is sure to be right."""
    words = refused.split()
    if words[:1] == ["http"] and words[1:2] in (["GET"], ["HEAD"]):
        return f" (if it may be asked live: --live '{' '.join(words[1:3])}')"
    return " (a dry_run= of the tool would be rehearsed)" if words[:1] == ["tool"] else ""

"""A screening for machines: the JSON document `agent-replay/steps`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from otel_agent_replay.compare.screening import RISKS, LaneReport, Measured, ScreeningReport, Tally


def screening_document(
    report: ScreeningReport,
    names: Mapping[str, str],
    *,
    disagreements: Sequence[Mapping[str, Any]],
    cut: bool,
    in_doubt: int,
    missing: Sequence[str],
    stopped: str,
) -> dict[str, Any]:
    """Return the document. `disagreements` are those of the judged lane, `cut` when there are more than are given."""
    return {
        "schema": "agent-replay/steps",
        "schema_version": 1,
        "steps": report.steps,
        "stopped": stopped,
        "in_doubt": in_doubt,
        "missing_runs": list(missing),
        "skipped": dict(report.skipped),
        "unanswered": dict(report.unanswered),
        "lost_in_translation": dict(report.lost),
        "recorded": _measured(report.recorded),
        "noise": report.noise,
        "lanes": {name: _lane(lane, names[name]) for name, lane in report.lanes.items()},
        "disagreements": list(disagreements),
        "disagreements_cut": cut,
    }


def _lane(lane: LaneReport, name: str) -> dict[str, Any]:
    return {
        "asked": name,
        "runs": lane.runs,
        "runs_agreeing": lane.runs_whole,
        "runs_differing": lane.runs_differing,
        "in_sight": _tally(lane.tally),
        "beyond": _tally(lane.beyond),
        "by_risk": {risk: _tally(lane.by_risk[risk]) for risk in RISKS if risk in lane.by_risk},
        "by_tool": {name: _tally(tally) for name, tally in sorted(lane.by_tool.items())},
        "matches": {str(match): count for match, count in lane.matches.most_common()},
        "text_likeness": lane.likeness / lane.worded if lane.worded else None,
        "measured": _measured(lane.measured),
    }


def _tally(tally: Tally) -> dict[str, Any]:
    return {**asdict(tally), "agreement": tally.agreement}


def _measured(measured: Measured) -> dict[str, Any]:
    return {
        "answers": measured.answers,
        "input_tokens": measured.input_tokens,
        "output_tokens": measured.output_tokens,
        "cost_usd": measured.cost_usd if measured.priced else None,
        "priced_answers": measured.priced,
        "latency_ns": measured.latency_ns / measured.timed if measured.timed else None,
    }

"""A gate as a JSON document, `agent-replay/gate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_agent_replay.gate import InvariantResult
from otel_agent_replay.gate.verdict import CaseVerdict, GateVerdict, Trial
from otel_agent_replay.report.json_report import comparison_json

SCHEMA, SCHEMA_VERSION = "agent-replay/gate", 1


def gate_json(verdict: GateVerdict) -> dict[str, Any]:
    """Return the verdict as what JSON holds; a trial's `comparison` is a document of `agent-replay diff --json`."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "standing": verdict.standing.value,
        "exit_code": verdict.exit_code,
        "sentence": verdict.sentence,
        "min_pass": verdict.min_pass,
        "spent_usd": verdict.usd,
        "cases": [case_json(row) for row in verdict.cases],
    }


def case_json(row: CaseVerdict) -> dict[str, Any]:
    """Return one case."""
    low, high = row.rate.interval
    return {
        "case": row.name,
        "folder": str(row.folder),
        "role": row.role.value,
        "standing": row.standing.value,
        "reason": row.reason.name.lower(),
        "told": row.reason.value,
        "detail": row.detail,
        "about": row.about,
        "baseline": row.baseline,
        "mended": row.mended,
        "newly_broken": row.newly_broken,
        "passed": row.rate.passed,
        "trials_made": row.rate.tried,
        "interval": [low, high],
        "recorded": [_invariant(one) for one in row.recorded],
        "trials": [_trial(one) for one in row.trials],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "means": trial.means.value,
        "standing": trial.standing.value,
        "reason": trial.reason.name.lower(),
        "detail": trial.detail,
        "step": trial.step,
        "run": trial.run,
        "spent_usd": trial.usd,
        "told": list(trial.told),
        "judged": trial.judged or None,
        "invariants": [_invariant(one) for one in trial.results],
        "comparison": None if trial.comparison is None else comparison_json(trial.comparison),
    }


def _invariant(result: InvariantResult) -> Mapping[str, Any]:
    return {
        "name": result.invariant.name,
        "rule": result.invariant.rule.value,
        "state": result.state.value,
        "evidence": [
            {
                "told": one.told,
                "step": one.step,
                "path": one.path,
                "expected": one.expected,
                "actual": one.actual,
            }
            for one in result.evidence
        ],
    }

"""Comparisons of cohorts as JSON: `cohort.schema.json` beside this file describes every field.

Ids are hexadecimal, times nanoseconds, money US dollars, shares 0 to 1. What is not known is null.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from otel_agent_replay.compare.cohort import CaseRow, CohortComparison, LaneRun, PairSummary
from otel_agent_replay.compare.matrix import Matrix

SCHEMA_VERSION = 1


def cohort_json(comparison: CohortComparison, matrix: Matrix | None = None) -> dict[str, Any]:
    """Return a comparison of cohorts as a JSON document, `schema` "agent-replay/cohort"."""
    return {
        "schema": "agent-replay/cohort",
        "schema_version": SCHEMA_VERSION,
        "verdict": comparison.verdict.value,
        "exit_code": comparison.verdict.exit_code,
        "sentence": comparison.sentence,
        "lanes": {"a": comparison.a, "b": comparison.b, "baseline": comparison.baseline or None},
        "notes": list(comparison.notes),
        "alpha": comparison.alpha,
        "seed": comparison.seed,
        "drawn": dict(comparison.drawn) or None,
        "unpaired": asdict(comparison.unpaired),
        "pairs": {
            "verdicts": dict(comparison.verdicts),
            "baseline_verdicts": dict(comparison.baseline_verdicts),
            "causes": dict(comparison.causes),
            "by_digest": comparison.by_digest,
        },
        "metrics": [{**asdict(metric), "judgement": metric.judgement.value} for metric in comparison.metrics],
        "tool_paths": [asdict(one) for one in comparison.tool_paths],
        "arguments": [asdict(one) for one in comparison.arguments],
        "answer_sources": [asdict(one) for one in comparison.answer_sources],
        "effects": [asdict(one) for one in comparison.effects],
        "cases": [_case(case) for case in comparison.cases],
        "matrix": None if matrix is None else matrix_json(matrix),
    }


def matrix_json(matrix: Matrix) -> dict[str, Any]:
    """Return the matrix of one case."""
    return {
        "reference": matrix.reference.hex(),
        "columns": [run.hex() for run in matrix.columns],
        "of_a": matrix.of_a,
        "alpha": matrix.alpha,
        "rows": [
            {
                "step": row.step,
                "title": row.title,
                "cells": [cell.value for cell in row.cells],
                "changed_a": row.changed_a,
                "changed_b": row.changed_b,
                "p": row.p,
                "p_adjusted": row.p_adjusted,
                "steadiness": row.steadiness.value,
            }
            for row in matrix.rows
        ],
    }


def _case(case: CaseRow) -> dict[str, Any]:
    return {
        "key": case.key,
        "weight": case.weight,
        "differs": case.differs,
        "a": [_run(run) for run in case.a],
        "b": [_run(run) for run in case.b],
        "baseline": [_run(run) for run in case.baseline],
        "pairs": [_pair(pair) for pair in case.pairs],
        "baseline_pairs": [_pair(pair) for pair in case.baseline_pairs],
        "a_pairs": [_pair(pair) for pair in case.a_pairs],
    }


def _run(run: LaneRun) -> dict[str, Any]:
    return {
        "run": run.run_id.hex(),
        "status": run.status,
        "tool_path": list(run.tool_path),
        "steps": run.steps,
        "model_calls": run.model_calls,
        "refusals": run.refusals,
        "errors": run.errors,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "cost_usd": run.cost_usd,
        "latency_ns": run.latency_ns,
        "answers": dict(run.answers),
        "off_tape": run.off_tape,
        "effects": dict(run.effects),
        "invariants": dict(run.invariants),
    }


def _pair(pair: PairSummary) -> dict[str, Any]:
    return {
        "verdict": pair.verdict.value,
        "sentence": pair.sentence,
        "cause": None if pair.cause is None else pair.cause.value,
        "departure_step": pair.departure_step,
        "departure_at": pair.departure_at,
        "changes": pair.changes,
        "added": pair.added,
        "similarity": round(pair.similarity, 6),
        "by_digest": pair.by_digest,
        "tool_path_changed": pair.tool_path_changed,
        "argument_changes": dict(pair.argument_changes),
        "changed_steps": [{"step": step, "missing": missing} for step, missing in pair.changed_steps],
        "judged": pair.judged,
        "judge_said": pair.judge_said,
    }

"""Which runs are compared with which: two conditions over a lake, or the lanes of a cohort. Loads DuckDB.

Owns how cases are keyed and what becomes of runs without a counterpart. Run ids only, never loaded runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.compare.cohort import Unpaired
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.lake.conditions import rows_of_condition
from otel_agent_replay.replay.cohort import CohortRun

SAME_INPUT = "the same input"
_LANE = f"map_extract(spans.attributes, '{semconv.RUN_LANE}')[1].text"


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """A case before it is compared: run ids of each lane. A case without a run on one side is unpaired."""

    key: str
    a: tuple[bytes, ...]
    b: tuple[bytes, ...]
    baseline: tuple[bytes, ...] = ()
    weight: float = 1.0


def pair_conditions(
    lake: Path, condition_a: str, condition_b: str, *, by: str | None = None, lake_b: Path | None = None
) -> list[PlannedCase]:
    """Return the cases of two conditions over the view `runs`, keyed by the runs' input or by a column or expression.

    Raises ConfigurationError for SQL that is wrong. A run for which both conditions hold is on both sides.
    """
    side_a = _keyed(lake, condition_a, by, "--a")
    side_b = _keyed(lake_b or lake, condition_b, by, "--b")
    return [PlannedCase(key, tuple(side_a.get(key, ())), tuple(side_b.get(key, ()))) for key in _keys(side_a, side_b)]


def _keys(*sides: Mapping[str, Any]) -> list[str]:
    return sorted({key for side in sides for key in side})


def _keyed(lake: Path, condition: str, by: str | None, option: str) -> dict[str, list[bytes]]:
    """Return the runs of a side by their case, oldest first; a run without a key is a case of its own."""
    key = "input.request_digest" if by is None else f"CAST(({by}) AS VARCHAR)"
    query = (
        f"WITH input AS (SELECT run_id, any_value(request_digest) AS request_digest FROM spans WHERE root GROUP BY 1) "  # noqa: S608 - theirs
        f"SELECT runs.run_id, {key} FROM runs LEFT JOIN input USING (run_id) "
        f"WHERE runs.run_id IS NOT NULL AND (\n{condition}\n) ORDER BY runs.run_id"
    )
    found: dict[str, list[bytes]] = defaultdict(list)
    named = f"{option} {condition!r}" + (f" with --pair-by {by!r}" if by else "")
    for run_id, value in rows_of_condition(lake, query, named):
        found[f"run {run_id}" if value is None else str(value)].append(bytes.fromhex(run_id))
    return found


def pair_lanes(cohort: Sequence[CohortRun], replays: Path) -> list[PlannedCase]:
    """Return the cases of a cohort: the observed run, its re-runs in lane candidate (B), those in lane baseline.

    `replays` is the lake of the re-runs; each names the run that it repeats. Without any candidate the baseline's
    re-runs are side B: what the old version does when it runs again.
    """
    query = (
        f"SELECT runs.run_id, runs.origin_run_id, coalesce({_LANE}, 'candidate') "  # noqa: S608 - our own names
        "FROM runs JOIN spans ON spans.run_id = runs.run_id AND spans.root "
        "WHERE runs.origin_run_id IS NOT NULL AND runs.origin_run_id != '' ORDER BY runs.run_id"
    )
    lanes: dict[tuple[str, str], list[bytes]] = defaultdict(list)
    for run_id, origin, lane in rows_of_condition(replays, query, f"--replays {replays}"):
        run = bytes.fromhex(run_id)
        if run not in lanes[origin, lane]:
            lanes[origin, lane].append(run)
    planned = []
    for one in cohort:
        key = one.run_id.hex()
        weight = one.notes.get("weight", 1.0)
        if not isinstance(weight, (int, float)) or isinstance(weight, bool) or not weight > 0:
            raise ConfigurationError(f"run {key} of the cohort has weight {weight!r}; a weight is a number above 0")
        candidate, baseline = lanes.get((key, "candidate"), []), lanes.get((key, "baseline"), [])
        planned.append(PlannedCase(key, (one.run_id,), tuple(candidate), tuple(baseline), float(weight)))
    if not any(case.b for case in planned):
        planned = [replace(case, b=case.baseline, baseline=()) for case in planned]
    return planned


def left_over(planned: Sequence[PlannedCase], compared: Container[str]) -> Unpaired:
    """Return how many runs are in no case that was compared; `compared` are the keys of those."""
    alone = [case for case in planned if case.key not in compared]
    return Unpaired(
        sum(len(case.a) for case in alone),
        sum(len(case.b) for case in alone),
        sum(len(case.baseline) for case in alone),
    )

"""Drawing a cohort: so many runs of those that a condition holds for, stratum by stratum, each with its weight.

Every run has a chance above zero, and a run's weight is how many it stands for: weights add up to the population. The
same seed draws the same runs of the same lake, whatever order they are stored in. Loads DuckDB.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.payload.language import UNKNOWN, language_of
from otel_agent_replay.replay.cohort import CohortRun

TOGETHER = "(rare, together)"
"""The stratum of all that are too rare for one each."""
NO_TOOL = "no tool"
_NOTHING = "(none)"


@dataclass(frozen=True, slots=True)
class Stratum:
    """Runs that are alike in what the sample is stratified by: how many there are, how many were drawn."""

    name: str
    runs: int
    drawn: int

    @property
    def weight(self) -> float:
        """How many runs each drawn one stands for."""
        return self.runs / self.drawn


@dataclass(frozen=True, slots=True)
class Sample:
    """A drawn cohort: its runs in order, each with `stratum` and `weight` in its notes, and how it was drawn."""

    runs: Sequence[CohortRun]
    strata: Sequence[Stratum]
    condition: str
    stratified_by: Sequence[str]
    seed: str

    @property
    def population(self) -> int:
        """How many runs it stands for."""
        return sum(stratum.runs for stratum in self.strata)

    def drawn(self) -> dict[str, Any]:
        """Return how it was drawn, for the first line of its file."""
        return {
            "where": self.condition,
            "population": self.population,
            "drawn": len(self.runs),
            "stratify": list(self.stratified_by),
            "seed": self.seed,
            "strata": [
                {"stratum": one.name, "runs": one.runs, "drawn": one.drawn, "weight": round(one.weight, 6)}
                for one in self.strata
            ],
        }


def draw_sample(lake: Path, condition: str, size: int, stratify: Sequence[str], seed: str) -> Sample:
    """Draw `size` runs (all where there are fewer) of those for which `condition` holds.

    `stratify` are columns or SQL expressions over the view `runs`, and `tool_path` (the names of the tools called, in
    order) and `language` (guessed from the run's input). Raises ConfigurationError for SQL that is wrong and for a
    condition that no run meets.
    """
    strata = _strata(lake, condition, stratify)
    if not strata:
        raise ConfigurationError(f"no run of {lake} meets --where {condition!r}: there is nothing to draw from")
    strata = _rare_together(strata, size)
    counts = allocation({name: len(runs) for name, runs in strata.items()}, size)
    chosen = {}
    for name, runs in strata.items():
        draw = random.Random(f"{seed} {name}")  # noqa: S311 - a sample that can be drawn again, no secret
        for run in draw.sample(sorted(runs), counts[name]):
            chosen[run] = {"stratum": name, "weight": round(len(runs) / counts[name], 6)}
    return Sample(
        [CohortRun(bytes.fromhex(run), chosen[run]) for run in sorted(chosen)],
        [Stratum(name, len(strata[name]), counts[name]) for name in sorted(strata, key=lambda n: (-len(strata[n]), n))],
        condition,
        tuple(stratify),
        seed,
    )


def allocation(sizes: Mapping[str, int], wanted: int) -> dict[str, int]:
    """Return how many to draw of each stratum: one each, the rest by size (largest remainders), no more than there are.

    There must not be more strata than are wanted.
    """
    wanted = min(wanted, sum(sizes.values()))
    counts = dict.fromkeys(sizes, 1)
    while (left := wanted - sum(counts.values())) > 0:
        open_strata = {name: size for name, size in sizes.items() if counts[name] < size}
        total = sum(sizes[name] for name in open_strata)
        shares = {name: left * size / total for name, size in open_strata.items()}
        given = {name: min(int(share), sizes[name] - counts[name]) for name, share in shares.items()}
        if not any(given.values()):
            order = sorted(shares, key=lambda name: (int(shares[name]) - shares[name], name))
            given = dict.fromkeys(order[:left], 1)
        for name, count in given.items():
            counts[name] += count
    return counts


def _rare_together(strata: Mapping[str, list[str]], size: int) -> dict[str, list[str]]:
    """Where there are more strata than runs wanted, put those together that are too small for one run of their own."""
    if len(strata) <= size:
        return dict(strata)
    population = sum(len(runs) for runs in strata.values())
    kept = {name: runs for name, runs in strata.items() if len(runs) * size >= population}
    rare = [run for name, runs in strata.items() if name not in kept for run in runs]
    return {**kept, TOGETHER: rare} if rare else kept


def _strata(lake: Path, condition: str, stratify: Sequence[str]) -> dict[str, list[str]]:
    """Return the run ids of each stratum."""
    from otel_agent_replay.lake.conditions import rows_of_condition

    known = {"tool_path": "tools.tool_path", "language": "input.said"}
    columns = [known.get(name, f"CAST(({name}) AS VARCHAR)") for name in stratify]
    query = (
        f"WITH tools AS ({_TOOL_PATHS}), input AS ({_INPUTS if 'language' in stratify else _NO_INPUTS}) "  # noqa: S608 - theirs
        f"SELECT runs.run_id, {', '.join(columns) or 'NULL'} FROM runs LEFT JOIN tools USING (run_id) "
        f"LEFT JOIN input USING (run_id) WHERE runs.run_id IS NOT NULL AND (\n{condition}\n)"
    )
    given = f"--where {condition!r} with --stratify {','.join(stratify)!r}"
    wanted = (
        "cannot be asked: --where is what stands behind WHERE, --stratify names columns of the view `runs`, tool_path "
        "or language"
    )
    strata: dict[str, list[str]] = defaultdict(list)
    for run_id, *values in rows_of_condition(lake, query, given, wanted=wanted):
        named = (_named(name, value) for name, value in zip(stratify, values, strict=False))
        strata[", ".join(named) or "all"].append(run_id)
    return dict(strata)


_TOOL_PATHS = (
    "SELECT run_id, string_agg(name, ' > ' ORDER BY step, started_at) AS tool_path FROM steps WHERE kind = 'tool' "
    "GROUP BY run_id"
)
_INPUTS = (
    "SELECT lower(hex(run_id)) AS run_id, payload_text(any_value(pack), any_value(request_payload)) AS said "
    "FROM lake_spans WHERE root AND request_payload IS NOT NULL GROUP BY run_id"
)
_NO_INPUTS = "SELECT NULL::VARCHAR AS run_id, NULL::VARCHAR AS said"


def _named(column: str, value: Any) -> str:
    if column == "tool_path":
        return f"tool_path={value or NO_TOOL}"
    if column == "language":
        return f"language={UNKNOWN if value is None else language_of(value)}"
    return f"{column}={_NOTHING if value is None else value}"

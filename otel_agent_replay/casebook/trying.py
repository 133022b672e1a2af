"""A case tried on its own runs and on mutants of them. Writes nothing but a passing lake for SQL over a mutant."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from otel_agent_replay.casebook.folder import OpenCase
from otel_agent_replay.casebook.queries import rows_of
from otel_agent_replay.gate import Case, InvariantResult, Rule, State, check
from otel_agent_replay.gate.manifest import added
from otel_agent_replay.gate.worth import CaseWorth, Held, Worth, is_bad, try_mutants, worth_of
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import RecordedRun


def try_case(opened: OpenCase, *, mutants: int = 200) -> CaseWorth:
    """Return whether a case rejects its bad run, accepts its good ones, and kills mutants, at most `mutants` of them.

    A case that was tampered with is held against nothing: what it says of a run is not what was kept.
    """
    case = opened.case
    new = [] if opened.manifest is None else added(opened.manifest, case)
    if opened.tampering:
        return CaseWorth(case, Worth.TAMPERED, opened.tampering, new)
    runs = [] if opened.kept is None else [(opened.kept, is_bad(case))]
    runs += [(one, False) for one in opened.good]
    held = [Held(kept.recorded.run.run_id.hex(), bad, kept.check(case)) for kept, bad in runs]
    tried = []
    model = next(((kept, one) for (kept, bad), one in zip(runs, held, strict=True) if not bad), None)
    if model is None and runs:
        model = runs[0][0], held[0]
    if model is not None and mutants:
        tried = try_mutants(model[0].recorded, model[1].results, _judge(case), most=mutants)
    return CaseWorth(case, worth_of(held, ()), (), new, held, tried)


def _judge(case: Case) -> Callable[[RecordedRun], Sequence[InvariantResult]]:
    """Return what holds a case against a run of no lake; SQL only where nothing else has noticed it."""
    queries = tuple(one for one in case.invariants if one.rule is Rule.SQL)
    others = replace(case, invariants=tuple(one for one in case.invariants if one.rule is not Rule.SQL))

    def judge(recorded: RecordedRun) -> Sequence[InvariantResult]:
        results = check(others, recorded)
        if not queries or any(one.state is State.BROKEN for one in results):
            return results
        with tempfile.TemporaryDirectory(prefix="agent-replay-") as folder:
            lake = Path(folder)
            write_runs(lake, [recorded], segments=())
            return [
                *results,
                *check(replace(case, invariants=queries), recorded, rows=rows_of(lake, recorded.run.run_id)),
            ]

    return judge

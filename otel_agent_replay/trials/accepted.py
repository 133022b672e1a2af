"""Which of a gate's runs may be accepted in the place of a recorded one. Pure.

Only a run that keeps every invariant: drift is what changed and still holds, never what is broken.
"""

from __future__ import annotations

from otel_agent_replay.compare import Verdict
from otel_agent_replay.gate.verdict import CaseVerdict, Role, Standing, Trial

_ALIKE = (Verdict.IDENTICAL, Verdict.REORDERED)


def drift_of(row: CaseVerdict) -> list[Trial]:
    """Return the first trial of a case that passed with another run than the one it was held against, or none."""
    if row.standing is not Standing.PASSED or row.role is Role.GOOD:
        return []
    changed = [
        one
        for one in row.trials
        if one.standing is Standing.PASSED and one.comparison is not None and one.comparison.verdict not in _ALIKE
    ]
    return changed[:1]

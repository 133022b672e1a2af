"""Whether a case can be a test at all, before anything is run: what of it is missing, altered, or proves nothing. Pure.

Each fault has a reason of its own, because each is mended otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_agent_replay.gate.manifest import Tampered, Tampering
from otel_agent_replay.gate.result import InvariantResult, State
from otel_agent_replay.gate.verdict import Reason, Role

_REASONS = {
    Tampered.NO_INVARIANT: Reason.NO_INVARIANT,
    Tampered.INVARIANT_REMOVED: Reason.INVARIANT_REMOVED,
    Tampered.INVARIANT_CHANGED: Reason.INVARIANT_REMOVED,
}
_MOST_TOLD = 3


def folder_fault(tampering: Sequence[Tampering], *, has_run: bool, has_fixtures: bool) -> tuple[Reason, str] | None:
    """Return why a case folder is no test as it lies there, and the detail; None where it is one.

    A recording that is missing counts before what that leads to, one that cannot be read because its file was altered
    as tampered with; a removed invariant counts before other edits.
    """
    kinds = {one.kind for one in tampering}
    unreadable = Tampered.FILE_ALTERED in kinds and Tampered.FILE_MISSING not in kinds
    if not has_run and not has_fixtures and not unreadable:
        missing = [one for one in tampering if one.kind in (Tampered.FILE_MISSING, Tampered.PART_ALTERED)]
        return Reason.NO_RECORDING, _told(missing) or "case.yaml names no run, and there are no fixtures"
    if not tampering:
        return None
    for kind, reason in _REASONS.items():
        found = [one for one in tampering if one.kind is kind]
        if found:
            return reason, _told(found)
    return Reason.TAMPERED, _told(tampering)


def record_fault(role: Role, results: Sequence[InvariantResult]) -> tuple[Reason, str] | None:
    """Return why the invariants do not fit the run as it was recorded, and the detail; None where they do.

    A bad run must break one; a good one must keep all.
    """
    broken = [one.invariant.name for one in results if one.state is State.BROKEN]
    if role is Role.BAD:
        if broken:
            return None
        return Reason.ACCEPTS_BAD, "a run that breaks nothing proves nothing: state what went wrong in case.yaml"
    return (Reason.REJECTS_GOOD, ", ".join(broken)) if broken else None


def _told(found: Sequence[Tampering]) -> str:
    more = len(found) - _MOST_TOLD
    shown = [f"{one.kind}: {one.what}" for one in found[:_MOST_TOLD]]
    return "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])

"""Sealing a case anew after its `case.yaml` was edited, with what that changed."""

from __future__ import annotations

from pathlib import Path

from otel_agent_replay.casebook.folder import file_digests, open_case, read_manifest, write_manifest
from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.gate.manifest import Tampered, Tampering, added

_OF_THE_FILE = frozenset(
    (Tampered.INVARIANT_CHANGED, Tampered.INVARIANT_REMOVED, Tampered.INPUTS_CHANGED, Tampered.MANIFEST_MISSING)
)


def seal_case(folder: Path) -> list[str]:
    """Write the manifest of a case as it stands now; return what changed since, a line each.

    Raises CannotJudge where the recording itself was altered, or nothing is stated: no seal makes that a test.
    """
    opened = open_case(folder)
    case = opened.case
    grave = [one for one in opened.tampering if not _may_change(one)]
    if grave:
        told = "; ".join(f"{one.kind}: {one.what}" for one in grave[:5])
        raise CannotJudge(f"{case.folder} cannot be sealed: {told}; restore it, or make the case anew")
    before = read_manifest(case.folder)
    lines = [f"{one.kind}: {one.what}" for one in opened.tampering]
    if before is not None:
        lines += [f"invariant added: {name}" for name in added(before, case)]
        lines += [f"file added: {path}" for path in file_digests(case.folder) if path not in before.files]
    write_manifest(
        case,
        origin="" if before is None else before.origin,
        redaction={} if before is None else before.redaction,
    )
    return lines


def _may_change(one: Tampering) -> bool:
    """Whether a person may do this to a case: edit what it says, and files that are no recording."""
    is_file = one.kind in (Tampered.FILE_ALTERED, Tampered.FILE_MISSING)
    return one.kind in _OF_THE_FILE or (is_file and not one.what.startswith("lake/"))

"""A case folder opened: the case, its runs out of its own lake, and what is not as it was sealed.

    cases/refund-twice/
      case.yaml        what must hold; yours to edit (then `agent-replay case seal`)
      manifest.json    all that the run depended on, each with its digest
      lake/            a lake of just these runs: every command reads it with --lake
      fixtures/ ...    for component runs

Owns which files of a folder are sealed. Reads Parquet; writes the manifest alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_agent_replay.casebook.queries import rows_of
from otel_agent_replay.casefile.document import CASE_FILE
from otel_agent_replay.errors import ConfigurationError, DamagedRecording, RecordingError
from otel_agent_replay.gate import Case, InvariantResult, check
from otel_agent_replay.gate.manifest import MANIFEST_FILE, CaseManifest, Tampered, Tampering, seal_of, tampering
from otel_agent_replay.lake.catalog import Lake, StoredRun
from otel_agent_replay.lake.layout import LABELS, LOSSES, PAYLOADS, SPANS
from otel_agent_replay.lake.verify import verify

_TABLES = (SPANS, PAYLOADS, LOSSES, LABELS)
_NOT_SEALED = frozenset((CASE_FILE, MANIFEST_FILE))


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run of a case and the lake it lies in."""

    lake: Path
    recorded: StoredRun

    def check(self, case: Case) -> list[InvariantResult]:
        """Return what of the case's invariants holds of it, `sql` ones among them."""
        return check(case, self.recorded, rows=rows_of(self.lake, self.recorded.run.run_id))


@dataclass(frozen=True, slots=True)
class OpenCase:
    """A case with its runs: `kept` is the recorded one (None: the case has none), `good` those it must accept.

    `tampering` is what is not as it was sealed; a case in which there is any is no test. `manifest` is None where it
    was never sealed.
    """

    case: Case
    kept: KeptRun | None
    good: Sequence[KeptRun]
    manifest: CaseManifest | None
    tampering: Sequence[Tampering]


def open_case(folder: Path) -> OpenCase:
    """Return the case of a folder.

    Raises ConfigurationError for a wrong `case.yaml`, RunNotFound where a good run is not there.

    Damage and edits of what was sealed are told in `tampering`, not raised: such a case fails as tampered, and its good
    runs are not opened.
    """
    case = Case.load(folder)
    found: list[Tampering] = [] if case.invariants else [Tampering(Tampered.NO_INVARIANT, "it checks nothing")]
    manifest: CaseManifest | None = None
    try:
        manifest = read_manifest(case.folder)
    except DamagedRecording as error:
        found.append(Tampering(Tampered.MANIFEST_MISSING, str(error)))
    if manifest is None and case.run and not found:
        found.append(Tampering(Tampered.MANIFEST_MISSING, f"{case.folder / MANIFEST_FILE}; `agent-replay case seal`"))
    kept, damage = _kept(case)
    found += damage
    if manifest is not None:
        files = file_digests(case.folder)
        # Of files that are not those that were sealed nothing more is read: what they hold may not even parse.
        sound = all(files.get(path) == digest for path, digest in manifest.files.items())
        recorded = kept.recorded if kept is not None and sound else None
        found += tampering(manifest, case, recorded, files=files, runs=_runs(case) if sound else ())
    good = [] if found else list(_good(case))
    return OpenCase(case, kept, good, manifest, found)


def read_manifest(folder: Path) -> CaseManifest | None:
    """Return the manifest of a folder, None where there is none. Raises DamagedRecording."""
    try:
        text = (folder / MANIFEST_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedRecording(f"{folder / MANIFEST_FILE} cannot be read: {error}") from error
    try:
        document = json.loads(text)
    except ValueError as error:
        raise DamagedRecording(f"{folder / MANIFEST_FILE} is no JSON: {error}") from error
    return CaseManifest.of(document)


def write_manifest(case: Case, *, origin: str, redaction: Mapping[str, int]) -> CaseManifest:
    """Seal the folder as it stands: write its manifest and return it."""
    lake = Lake(case.lake)
    recorded = lake.load(bytes.fromhex(case.run)) if case.run else None
    runs = {run: lake.load(bytes.fromhex(run)).manifest_digest.hex() for run in _runs(case)}
    files = file_digests(case.folder)
    manifest = seal_of(case, recorded, runs=runs, files=files, origin=origin, redaction=redaction)
    text = json.dumps(manifest.document(), indent=1, ensure_ascii=False)
    (case.folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
    return manifest


def file_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 (hex) of every file that a manifest seals, by its path in the folder.

    `case.yaml` is sealed by what it says, not by its bytes; notes (*.md) and hidden files are free; of the lake the
    tables count, not its log of who replayed.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") for part in parts)
        free = path.suffix == ".md" or (parts[0] == "lake" and (len(parts) < 2 or parts[1] not in _TABLES))
        if path.is_file() and not hidden and not free and "/".join(parts) not in _NOT_SEALED:
            found["/".join(parts)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _runs(case: Case) -> list[str]:
    """Return the runs of the case's lake that are no replays."""
    return [one.run.run_id.hex() for one in Lake(case.lake).runs() if not one.run.replay]


def _kept(case: Case) -> tuple[KeptRun | None, list[Tampering]]:
    if not case.run:
        return None, []
    try:
        recorded = Lake(case.lake).load(bytes.fromhex(case.run))
        findings = verify(recorded)
    except RecordingError as error:
        return None, [Tampering(Tampered.PART_ALTERED, str(error))]
    wrong = [f"{one.what} {one.kind} {one.detail}".strip() for one in findings]
    return KeptRun(case.lake, recorded), [Tampering(Tampered.PART_ALTERED, what) for what in wrong]


def _good(case: Case) -> Iterator[KeptRun]:
    """Yield the runs that a case must accept: of its own lake, or those that other cases beside it keep."""
    for name in case.good:
        folder = (case.folder / name).resolve()
        if (folder / CASE_FILE).is_file():
            other = Case.load(folder)
            if not other.run:
                raise ConfigurationError(f"{case.folder / CASE_FILE}: the good case {name!r} has no recorded run")
            yield KeptRun(other.lake, Lake(other.lake).load(bytes.fromhex(other.run)))
        else:
            lake = Lake(case.lake)
            yield KeptRun(case.lake, lake.load(lake.find(name)))

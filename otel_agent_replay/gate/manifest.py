"""A case's manifest: what was kept, each with its digest, so that nobody edits a test and still calls it the same.

Owns `manifest.json`, and what counts as tampering. Pure: documents and digests in, findings out. It shows an edit; it
is no signature: who rewrites the manifest too shows that in the history of the repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.gate.case import Case
from otel_agent_replay.gate.manifest_parts import Part, parts_of
from otel_agent_replay.model import RecordedRun, Word, digest_of

MANIFEST_FILE = "manifest.json"
SCHEMA = "agent-replay/case-manifest"
SCHEMA_VERSION = 1


class Tampered(Word):
    """What happened to a sealed case."""

    FILE_ALTERED = "file altered"
    FILE_MISSING = "file missing"
    RUN_ADDED = "run added"  # to the case's lake, and it is no replay of one that was sealed
    PART_ALTERED = "recording altered"
    INPUTS_CHANGED = "inputs changed"  # entry, input, fixtures ...: another test under the same name
    INVARIANT_REMOVED = "invariant removed"
    INVARIANT_CHANGED = "invariant changed"
    MANIFEST_MISSING = "manifest missing"
    NO_INVARIANT = "no invariant"


@dataclass(frozen=True, slots=True)
class Tampering:
    """One thing that is not as it was sealed; `what` names it."""

    kind: Tampered
    what: str


@dataclass(frozen=True, slots=True)
class CaseManifest:
    """What was sealed. Digests are SHA-256 in hex: of files by path, of invariants by name, of `inputs` in all.

    `runs` are the manifests' digests of the runs in the case's lake, by run id; `origin` that of the run as it was
    recorded, before its values were made synthetic. `redaction` says what was replaced: how many values of each kind.
    """

    runs: Mapping[str, str]
    files: Mapping[str, str]
    invariants: Mapping[str, str]
    inputs: str
    parts: Sequence[Part] = ()
    origin: str = ""
    redaction: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Any) -> CaseManifest:
        """Return the manifest of a document. Raises DamagedRecording for one that is none."""
        if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
            raise DamagedRecording(f"{MANIFEST_FILE} is no manifest of a case (schema {SCHEMA})")
        if document.get("schema_version", 0) > SCHEMA_VERSION:
            raise DamagedRecording(f"{MANIFEST_FILE} was written by a newer version: {document.get('schema_version')}")
        try:
            parts = [
                Part(one["what"], one["name"], one["sha256"], one.get("step"), one.get("facts", {}))
                for one in document["parts"]
            ]
            return cls(
                dict(document["runs"]),
                dict(document["files"]),
                dict(document["invariants"]),
                document["inputs"],
                parts,
                document.get("origin", ""),
                dict(document.get("redaction", {})),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedRecording(f"{MANIFEST_FILE} lacks a field: {error}") from error

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        parts = []
        for part in self.parts:
            one: dict[str, Any] = {"what": part.what, "name": part.name, "sha256": part.sha256}
            if part.step is not None:
                one["step"] = part.step
            if part.facts:
                one["facts"] = dict(part.facts)
            parts.append(one)
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "runs": dict(self.runs),
            "origin": self.origin,
            "redaction": dict(self.redaction),
            "inputs": self.inputs,
            "invariants": dict(self.invariants),
            "files": dict(sorted(self.files.items())),
            "parts": parts,
        }


def seal_of(
    case: Case,
    recorded: RecordedRun | None,
    *,
    runs: Mapping[str, str],
    files: Mapping[str, str],
    origin: str = "",
    redaction: Mapping[str, int] | None = None,
) -> CaseManifest:
    """Return the manifest of a case as it stands. `recorded` is its run; `files` are digests by path."""
    return CaseManifest(
        dict(runs),
        dict(files),
        {one.name: _hex(one.content) for one in case.invariants},
        _hex(case.inputs),
        () if recorded is None else tuple(parts_of(recorded)),
        origin,
        dict(redaction or {}),
    )


def tampering(
    sealed: CaseManifest,
    case: Case,
    recorded: RecordedRun | None,
    *,
    files: Mapping[str, str],
    runs: Iterable[str] = (),
) -> list[Tampering]:
    """Return what is not as it was sealed. An invariant that was added makes a case stricter, and is no tampering.

    `files` are the digests of those that are there, `runs` the runs of the case's lake that are no replays.
    """
    found = [*_files(sealed.files, files), *_invariants(sealed.invariants, case)]
    found += [Tampering(Tampered.RUN_ADDED, run) for run in runs if run not in sealed.runs]
    if _hex(case.inputs) != sealed.inputs:
        found.append(Tampering(Tampered.INPUTS_CHANGED, "what case.yaml feeds to the run (entry, input, fixtures ...)"))
    if recorded is not None:
        found += _parts(sealed.parts, parts_of(recorded))
    return found


def added(sealed: CaseManifest, case: Case) -> list[str]:
    """Return the names of the invariants that were added since."""
    was = set(sealed.invariants.values())
    return [one.name for one in case.invariants if _hex(one.content) not in was]


def _files(sealed: Mapping[str, str], files: Mapping[str, str]) -> Iterator[Tampering]:
    for path, digest in sealed.items():
        if path not in files:
            yield Tampering(Tampered.FILE_MISSING, path)
        elif files[path] != digest:
            yield Tampering(Tampered.FILE_ALTERED, path)


def _invariants(sealed: Mapping[str, str], case: Case) -> Iterator[Tampering]:
    """What an invariant says counts, not what it is called."""
    there = {_hex(one.content) for one in case.invariants}
    named = {one.name for one in case.invariants}
    for name, digest in sealed.items():
        if digest not in there:
            yield Tampering(Tampered.INVARIANT_CHANGED if name in named else Tampered.INVARIANT_REMOVED, name)


def _parts(sealed: Sequence[Part], now: Sequence[Part]) -> Iterator[Tampering]:
    there = {part.place: part.sha256 for part in now}
    for part in sealed:
        if there.get(part.place) != part.sha256:
            where = "" if part.step is None else f" of step {part.step}"
            yield Tampering(Tampered.PART_ALTERED, f"{part.what} {part.name}{where}")


def _hex(data: bytes) -> str:
    return digest_of(data).hex()

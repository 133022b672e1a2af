"""Does a stored run still hold? Recomputes every digest and names what is missing or altered."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake.catalog import StoredRun
from otel_agent_replay.lake.manifest import entry_checks, manifest_of
from otel_agent_replay.model import Node, Payload, RecordedRun, digest_of


class FindingKind(str, enum.Enum):
    """What is wrong."""

    MISSING = "missing"  # it was stored and is not there
    ALTERED = "altered"  # it is there and is not what was stored

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold: `what` in a few words, `path` and `step` where it lies in the run."""

    kind: FindingKind
    what: str
    path: tuple[str, ...] = ()
    step: int | None = None
    detail: str = ""


def verify(recorded: RecordedRun) -> list[Finding]:
    """Return what does not hold of a run, in its order; [] when every digest does.

    A payload of which only the digest was kept is no finding. A run that does not come out of a lake has no stored
    manifest to be held against: its payloads alone are proved.
    """
    findings = [finding for node in recorded.nodes for finding in _payloads(node, recorded)]
    if isinstance(recorded, StoredRun):
        findings += _counts(recorded)
        findings += _manifest(recorded)
    return findings


def _payloads(node: Node, recorded: RecordedRun) -> Iterator[Finding]:
    if node.call is not None:
        yield from _payload("request", node.call.request, node, recorded)
    if node.outcome is not None and node.outcome.result is not None:
        yield from _payload("result", node.outcome.result, node, recorded)


def _payload(side: str, payload: Payload, node: Node, recorded: RecordedRun) -> Iterator[Finding]:
    if isinstance(recorded, StoredRun) and payload.digest not in recorded.kept:
        return
    try:
        data = recorded.payload(payload.digest)
    except DamagedRecording as error:
        yield Finding(FindingKind.ALTERED, f"{side} payload", node.path, node.step, str(error))
        return
    if data is None:
        yield Finding(FindingKind.MISSING, f"{side} payload", node.path, node.step, payload.digest.hex())
    elif digest_of(data) != payload.digest:
        yield Finding(FindingKind.ALTERED, f"{side} payload", node.path, node.step, payload.digest.hex())


def _counts(recorded: StoredRun) -> Iterator[Finding]:
    if len(recorded.spans) != recorded.span_count:
        detail = f"{len(recorded.spans)} are there, {recorded.span_count} were stored"
        kind = FindingKind.MISSING if len(recorded.spans) < recorded.span_count else FindingKind.ALTERED
        yield Finding(kind, "spans", detail=detail)
    steps = sorted({node.step for node in recorded.nodes if node.step is not None})
    for before, step in zip([0, *steps], steps, strict=False):
        if step > before + 1:
            what = "step" if step == before + 2 else f"steps {before + 1} to {step - 1}"
            yield Finding(FindingKind.MISSING, what, step=before + 1)


def _manifest(recorded: StoredRun) -> Iterator[Finding]:
    manifest, digest = manifest_of(recorded)
    if digest == recorded.manifest_digest:
        return
    pairs = [(member.span.span_id, member.node) for member in recorded.spans if member.node is not None]
    pairs.sort(key=lambda pair: pair[1].sequence)
    for (span_id, node), check in zip(pairs, entry_checks(manifest), strict=True):
        if recorded.checks.get(span_id) != check:
            yield Finding(FindingKind.ALTERED, "node", node.path, node.step, "its manifest entry has another digest")
    yield Finding(
        FindingKind.ALTERED,
        "manifest",
        detail=f"digest {digest.hex()[:16]}, stored {recorded.manifest_digest.hex()[:16] or 'none'}",
    )

"""Does a stored run still hold? Recomputes every digest and names what is missing or altered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake.catalog import StoredAttempt, StoredRun
from otel_agent_replay.lake.manifest import entry_checks, manifest_of
from otel_agent_replay.model import Node, Payload, RecordedRun, Word, digest_of


class FindingKind(Word):
    """What is wrong."""

    MISSING = "missing"  # it was stored and is not there
    ALTERED = "altered"  # it is there and is not what was stored


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold: `what` in a few words, `path` and `step` where it lies in the run.

    `attempt` is the number of the attempt that recorded it; 0: it concerns the run.
    """

    kind: FindingKind
    what: str
    path: tuple[str, ...] = ()
    step: int | None = None
    detail: str = ""
    attempt: int = 0


def verify(recorded: RecordedRun) -> list[Finding]:
    """Return what does not hold of a run, in its order; [] when every digest does.

    Each attempt is held against the manifest that was stored with it. What a fork shares belongs to its origin, and is
    proved when that is verified: only that it is there is looked at here. A payload of which only the digest was kept
    is no finding. A run that does not come out of a lake has no stored manifest: its payloads alone are proved.
    Raises DamagedRecording where what is read of a run when it is looked into cannot be read.
    """
    if not isinstance(recorded, StoredRun):
        return [finding for node in recorded.nodes for finding in _payloads(node, recorded)]
    findings = [one for part in recorded.stored for one in _of(part, _contents(part))]
    findings += [*_attempts(recorded), *_steps(recorded)]
    return findings + [one for part in recorded.stored for one in _of(part, _manifest(part))]


def verify_attempt(part: StoredAttempt) -> list[Finding]:
    """Return what does not hold of one attempt by itself: its payloads, its spans, its manifest."""
    return _of(part, [*_contents(part), *_manifest(part)])


def _of(part: StoredAttempt, findings: Iterable[Finding]) -> list[Finding]:
    return [replace(finding, attempt=part.run.attempt) for finding in findings]


def _contents(part: StoredAttempt) -> Iterator[Finding]:
    for item in part.spans:
        len(item.span.attributes)  # no digest covers them, but their pages have checksums: a look reads them
    for node in part.nodes:
        yield from _payloads(node, part)
    yield from _counts(part)


def _attempts(recorded: StoredRun) -> Iterator[Finding]:
    there = {part.run.attempt for part in recorded.stored}
    for number in range(1, max(there)):
        if number not in there:
            yield Finding(FindingKind.MISSING, f"attempt {number}")
    run = recorded.run
    if run.is_fork and recorded.origin is None:
        detail = f"run {run.origin_run_id.hex()}, which holds the steps before step {run.fork_step}"
        yield Finding(FindingKind.MISSING, "origin", detail=detail)


def _payloads(node: Node, recorded: RecordedRun) -> Iterator[Finding]:
    if node.call is not None:
        yield from _payload("request", node.call.request, node, recorded)
    if node.outcome is not None and node.outcome.result is not None:
        yield from _payload("result", node.outcome.result, node, recorded)


def _payload(side: str, payload: Payload, node: Node, recorded: RecordedRun) -> Iterator[Finding]:
    if isinstance(recorded, StoredAttempt) and payload.digest not in recorded.kept:
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


def _counts(part: StoredAttempt) -> Iterator[Finding]:
    if len(part.spans) != part.span_count:
        detail = f"{len(part.spans)} are there, {part.span_count} were stored"
        kind = FindingKind.MISSING if len(part.spans) < part.span_count else FindingKind.ALTERED
        yield Finding(kind, "spans", detail=detail)


def _steps(recorded: StoredRun) -> Iterator[Finding]:
    """Yield the steps that nobody recorded; those before a fork's own are the origin's."""
    shared = max(recorded.run.fork_step - 1, 0)
    own = {node.step for part in recorded.stored for node in part.nodes if node.step is not None}
    steps = sorted(step for step in own if step > shared)
    for before, step in zip([shared, *steps], steps, strict=False):
        if step > before + 1:
            what = "step" if step == before + 2 else f"steps {before + 1} to {step - 1}"
            yield Finding(FindingKind.MISSING, what, step=before + 1)


def _manifest(part: StoredAttempt) -> Iterator[Finding]:
    manifest, digest = manifest_of(part)
    if digest == part.manifest_digest:
        return
    pairs = [(member.span.span_id, member.node) for member in part.spans if member.node is not None]
    pairs.sort(key=lambda pair: pair[1].sequence)
    for (span_id, node), check in zip(pairs, entry_checks(manifest), strict=True):
        if part.checks.get(span_id) != check:
            yield Finding(FindingKind.ALTERED, "node", node.path, node.step, "its manifest entry has another digest")
    yield Finding(
        FindingKind.ALTERED,
        "manifest",
        detail=f"digest {digest.hex()[:16]}, stored {part.manifest_digest.hex()[:16] or 'none'}",
    )

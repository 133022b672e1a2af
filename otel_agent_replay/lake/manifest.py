"""The frozen list of all that a run depended on, and its digest. Pure; the message is `wire.v1.manifest`."""

from __future__ import annotations

from collections.abc import Sequence

from otel_agent_replay.lake.exchange_column import digest_of_exchange, whole_exchange
from otel_agent_replay.lake.path_column import store_path
from otel_agent_replay.model import Kind, Node, RecordedRun, digest_of
from otel_agent_replay.wire.convert import read_to_wire, versions_to_wire
from otel_agent_replay.wire.text import text_to_wire
from otel_agent_replay.wire.v1.journal_pb2 import Reads
from otel_agent_replay.wire.v1.manifest_pb2 import Manifest, ManifestEntry


def manifest_of(recorded: RecordedRun, exchanges: Sequence[bytes] = ()) -> tuple[Manifest, bytes]:
    """Return the manifest of a run and its SHA-256. The same run gives the same bytes before and after storage.

    `exchanges` are the digests of the nodes' exchanges, in the order of the nodes, where they are known already.
    """
    run = recorded.run
    digests = exchanges or [digest_of_exchange(whole_exchange(node.call, node.outcome)) for node in recorded.nodes]
    nodes = sorted(zip(recorded.nodes, digests, strict=True), key=lambda pair: pair[0].sequence)
    root = next((node for node, _ in nodes if node.kind is Kind.RUN), None)
    manifest = Manifest(
        format_version=run.format_version,
        run_id=run.run_id,
        agent=text_to_wire(run.agent),
        mode=text_to_wire(run.mode),
        input_digest=root.call.request.digest if root is not None and root.call is not None else b"",
        output_digest=_result_digest(root) if root is not None else b"",
        status=str(run.status),
        versions=sorted(f"{version.name}={version.value}" for version in versions_to_wire(run.versions)),
        entries=[_entry(node, digest) for node, digest in nodes],
        attempt=run.attempt if run.attempt > 1 else 0,
        origin_run_id=run.origin_run_id if run.fork_step else b"",
        fork_step=run.fork_step,
    )
    return manifest, digest_of(manifest.SerializeToString(deterministic=True))


def entry_checks(manifest: Manifest) -> list[bytes]:
    """Return a short check of each entry (4 bytes): too weak to prove, enough to name the node that was altered."""
    return [digest_of(entry.SerializeToString(deterministic=True))[:4] for entry in manifest.entries]


def _entry(node: Node, exchange_digest: bytes) -> ManifestEntry:
    reads = Reads(reads=[read_to_wire(read) for read in node.reads]).SerializeToString(deterministic=True)
    return ManifestEntry(
        step=node.step or 0,
        path=store_path(node.path),
        kind=str(node.kind),
        side_effect=str(node.side_effect),
        request_digest=node.call.request.digest if node.call is not None else b"",
        result_digest=_result_digest(node),
        exchange_digest=exchange_digest,
        reads_digest=digest_of(reads) if reads else b"",
        status=str(node.outcome.status) if node.outcome is not None else "",
        sequence=node.sequence,
        end_sequence=node.end_sequence,
    )


def _result_digest(node: Node) -> bytes:
    if node.outcome is None or node.outcome.result is None:
        return b""
    return node.outcome.result.digest

"""The model exchanges of a recorded run, as bytes in the pieces that came."""

from __future__ import annotations

from collections.abc import Sequence

from otel_agent_replay import semconv
from otel_agent_replay.boundary.http_coding import CodingError, codings_of, decoded_body, decoded_chunks
from otel_agent_replay.model import Kind, Node, RecordedRun, RecordedSpan, WireExchange

Skipped = tuple[str, str]
"""Where an exchange lies, and why it cannot be read again."""


def model_exchanges(recorded: RecordedRun, step: int | None = None) -> tuple[list[WireExchange], list[Skipped]]:
    """Every model exchange of a run (or of one step of it), and those whose bytes cannot be had."""
    found: list[WireExchange] = []
    skipped: list[Skipped] = []
    run_id = recorded.run.run_id.hex()
    for span in recorded.spans:
        node = span.node
        if node is None or node.kind is not Kind.MODEL or (step is not None and node.step != step):
            continue
        source = f"run {run_id[:12]} step {node.step}"
        try:
            found.append(_exchange(recorded, span, node, source))
        except _Unreadable as why:
            skipped.append((source, str(why)))
    return found, skipped


class _Unreadable(Exception):
    """Why the bytes of an exchange cannot be had."""


def _exchange(recorded: RecordedRun, span: RecordedSpan, node: Node, source: str) -> WireExchange:
    call, outcome = node.call, node.outcome
    if call is None or call.head is None:
        raise _Unreadable("it was not recorded at its HTTP transport, so there are no provider bytes")
    if outcome is None or outcome.result is None or outcome.head is None:
        raise _Unreadable("no answer came")
    stored = recorded.bytes_of(outcome.result)
    if stored is None:
        raise _Unreadable("its body was not kept, or is gone")
    request = recorded.bytes_of(call.request)
    sizes = [chunk.size for chunk in outcome.chunks]
    whole = sum(sizes) == len(stored)
    try:
        pieces = _plain(_cut(stored, sizes) if whole else [stored], outcome.head.headers)
        asked = decoded_body(request or b"", call.head.headers)
    except CodingError as error:
        raise _Unreadable(f"its body cannot be unpacked: {error}") from error
    notes: tuple[str, ...] = (
        () if outcome.exact else ("a secret was masked inside: the bytes are not quite those that came",)
    )
    if outcome.closed_early:
        notes += ("the reader closed it early: the body is a beginning",)
    return WireExchange(
        source=source,
        body=b"".join(pieces),
        media_type=outcome.result.media_type,
        status=outcome.head.status,
        request=call.head,
        request_body=asked,
        protocol=str(span.span.attributes.get(semconv.PROTOCOL) or call.attributes.get(semconv.PROTOCOL) or ""),
        sizes=tuple(map(len, pieces)) if whole else (),
        notes=notes,
    )


def _cut(body: bytes, sizes: Sequence[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(body[at : at + size])
        at += size
    return pieces


def _plain(pieces: list[bytes], headers: Sequence[tuple[str, str]]) -> list[bytes]:
    codings = codings_of(headers)
    return decoded_chunks(pieces, codings) if codings else pieces

"""The nodes of a replay that were written many to a record, as records of their own would hold them.

The other half of `capture.answered`: nobody else needs to know that form.
"""

from __future__ import annotations

from collections.abc import Iterator

from otel_agent_replay.wire.v1 import journal_pb2 as wire


def answered_nodes(message: wire.AnsweredNodes) -> Iterator[tuple[wire.NodeBegun, wire.NodeEnded]]:
    """Yield each node's begin and end, in the order of their ends. Raises ValueError when one lacks an entry."""
    columns = (
        _pieces(message.span_ids, 8),
        message.occurrences,
        message.steps,
        message.sequences,
        message.begun_ns,
        _pieces(message.request_digests, 32),
        message.origin_steps,
        message.end_sequences,
        message.ended_ns,
        _pieces(message.result_digests, 32),
    )
    for span_id, occurrence, step, sequence, begun_ns, request, origin, end, ended_ns, result in zip(
        *columns, strict=True
    ):
        begun, ended = wire.NodeBegun(), wire.NodeEnded()
        begun.CopyFrom(message.begun)
        begun.span_id, begun.occurrence, begun.step, begun.sequence = span_id, occurrence, step, sequence
        begun.time_ns, begun.request_digest, begun.origin_step = begun_ns, request, origin
        ended.CopyFrom(message.ended)
        ended.span_id, ended.end_sequence, ended.time_ns, ended.result_digest = span_id, end, ended_ns, result
        yield begun, ended


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]

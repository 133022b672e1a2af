"""Leaves the checkpoint states of a run out of the lake where its recorder decided so (`capture.kept_states`).

The checkpoints themselves stay, with the digests of their states: a replay still holds what it does against them.
"""

from __future__ import annotations

from dataclasses import replace

from otel_agent_replay import semconv
from otel_agent_replay.model import Kind, Loss, LossReason, RecordedRun

_DETAIL = "the run ended well and was neither flagged nor sampled: its states are kept by digest only"


def without_left_out_states(recorded: RecordedRun) -> RecordedRun:
    """Return the run as it is to be stored: what is left out of it is told as a loss."""
    if not any(span.span.attributes.get(semconv.STATES_LEFT_OUT) for span in recorded.spans if span.node is not None):
        return recorded
    states = [node.call.request.digest for node in recorded.nodes if node.kind is Kind.CHECKPOINT and node.call]
    used = {node.call.request.digest for node in recorded.nodes if node.kind is not Kind.CHECKPOINT and node.call}
    used |= {node.outcome.result.digest for node in recorded.nodes if node.outcome and node.outcome.result}
    left_out = frozenset(states) - used
    count = sum(digest in left_out for digest in states)
    if not count:
        return recorded
    run, payload = recorded.run, recorded.payload
    loss = Loss(LossReason.SAMPLED, "checkpoint state", count, _DETAIL, run.run_id, time_ns=run.ended_ns)
    return replace(
        recorded,
        payload=lambda digest: None if digest in left_out else payload(digest),
        losses=(*recorded.losses, loss),
    )

"""The words everyone shares, as pure data: kinds, runs, spans, exchanges, payloads, losses.

Nothing here does I/O, knows a storage format or imports another room of the project.
"""

from otel_agent_replay.model.anomaly import Anomaly, AnomalyCode
from otel_agent_replay.model.approval import Approval
from otel_agent_replay.model.checkpoint import Checkpoint
from otel_agent_replay.model.exchange import (
    Call,
    Chunk,
    Failure,
    FailurePhase,
    HttpRequestHead,
    HttpResponseHead,
    Outcome,
    OutcomeStatus,
    make_call,
    make_outcome,
    make_request_head,
    make_response_head,
)
from otel_agent_replay.model.identity import (
    RunId,
    format_run_id,
    new_run_id,
    new_span_id,
    new_span_ids,
    new_trace_id,
    run_started_ms,
)
from otel_agent_replay.model.imported import IMPORTED, allowed_words, cannot_run_again, is_imported, least_fidelity
from otel_agent_replay.model.kinds import AnswerSource, CaptureLevel, EdgeBasis, Fidelity, Kind, SideEffect
from otel_agent_replay.model.label import Label
from otel_agent_replay.model.loss import Loss, LossReason
from otel_agent_replay.model.payload import EMPTY_DIGEST, STREAM_TYPES, MediaType, Payload, digest_of
from otel_agent_replay.model.quirks import KNOWN_QUIRKS, why_not_again
from otel_agent_replay.model.recorded import (
    CLIENT_STRAND,
    FUTURES_DONE,
    ORDER_MARKS,
    QUEUE_PUT,
    THREAD_END,
    TIMER,
    WAIT,
    Node,
    Read,
    RecordedRun,
    RecordedSpan,
    make_node,
)
from otel_agent_replay.model.run import Attempt, Coverage, CoverageEntry, Run, RunStatus, Versions
from otel_agent_replay.model.span import (
    AttributeValue,
    InstrumentationScope,
    Resource,
    Span,
    SpanEvent,
    SpanLink,
    make_span,
)
from otel_agent_replay.model.wire_exchange import WireExchange
from otel_agent_replay.model.word import Word

__all__ = [
    "CLIENT_STRAND",
    "EMPTY_DIGEST",
    "FUTURES_DONE",
    "IMPORTED",
    "KNOWN_QUIRKS",
    "ORDER_MARKS",
    "QUEUE_PUT",
    "STREAM_TYPES",
    "THREAD_END",
    "TIMER",
    "WAIT",
    "Anomaly",
    "AnomalyCode",
    "AnswerSource",
    "Approval",
    "Attempt",
    "AttributeValue",
    "Call",
    "CaptureLevel",
    "Checkpoint",
    "Chunk",
    "Coverage",
    "CoverageEntry",
    "EdgeBasis",
    "Failure",
    "FailurePhase",
    "Fidelity",
    "HttpRequestHead",
    "HttpResponseHead",
    "InstrumentationScope",
    "Kind",
    "Label",
    "Loss",
    "LossReason",
    "MediaType",
    "Node",
    "Outcome",
    "OutcomeStatus",
    "Payload",
    "Read",
    "RecordedRun",
    "RecordedSpan",
    "Resource",
    "Run",
    "RunId",
    "RunStatus",
    "SideEffect",
    "Span",
    "SpanEvent",
    "SpanLink",
    "Versions",
    "WireExchange",
    "Word",
    "allowed_words",
    "cannot_run_again",
    "digest_of",
    "format_run_id",
    "is_imported",
    "least_fidelity",
    "make_call",
    "make_node",
    "make_outcome",
    "make_request_head",
    "make_response_head",
    "make_span",
    "new_run_id",
    "new_span_id",
    "new_span_ids",
    "new_trace_id",
    "run_started_ms",
    "why_not_again",
]

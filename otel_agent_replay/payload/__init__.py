"""Values to bytes and back, and what of them may be stored: pure, without I/O."""

from otel_agent_replay.payload.canonical import canonical_body, canonical_json
from otel_agent_replay.payload.codec import Encoded, KeptAsText, decode, decode_call, encode, encode_call
from otel_agent_replay.payload.difference import MISSING, Difference, differences
from otel_agent_replay.payload.failure import UnknownRecordedError, failure_of, rebuild
from otel_agent_replay.payload.level import apply_level
from otel_agent_replay.payload.prefix import BodyHistory, common_prefix, common_suffix
from otel_agent_replay.payload.redaction import Redaction, Rule

__all__ = [
    "MISSING",
    "BodyHistory",
    "Difference",
    "Encoded",
    "KeptAsText",
    "Redaction",
    "Rule",
    "UnknownRecordedError",
    "apply_level",
    "canonical_body",
    "canonical_json",
    "common_prefix",
    "common_suffix",
    "decode",
    "decode_call",
    "differences",
    "encode",
    "encode_call",
    "failure_of",
    "rebuild",
]

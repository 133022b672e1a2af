"""The tables of format 1: every column with its type and meaning. Owns names, types and format numbers, no data.

A new column is a change here, in README.md beside this file, and in the golden recordings. Times are Unix
nanoseconds as int64 (OTLP has 64 bits without a sign: what lies beyond wraps around to negative), digests are SHA-256
(32 bytes), ids are bytes as in OTLP. A null means "none" or "unknown".
Text that UTF-8 cannot hold is escaped (see `wire.text`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from otel_agent_replay.errors import UnsupportedFormat

FORMAT_VERSION = 1
READER_VERSION = 1
"""A reader of at least this number understands what this version writes."""

_TEXT = pa.string()
_DIGEST = pa.binary(32)
_PREFIX = b"agent_replay."

VALUE = pa.struct(
    [
        ("text", _TEXT),
        ("integer", pa.int64()),
        ("number", pa.float64()),
        ("boolean", pa.bool_()),
        ("data", pa.binary()),
        ("texts", pa.list_(_TEXT)),
        ("nested", pa.binary()),
    ]
)
"""One attribute value: the field of its type is set; none: OTLP's empty value; `nested`: typed JSON of the rest."""

ATTRIBUTES = pa.map_(_TEXT, VALUE)


def _field(name: str, type_: pa.DataType, meaning: str) -> pa.Field[Any]:
    return pa.field(name, type_, metadata={"meaning": meaning})


RUN = pa.struct(
    [
        ("status", _TEXT),
        ("started_ns", pa.int64()),
        ("ended_ns", pa.int64()),
        ("thread_id", _TEXT),
        ("mode", _TEXT),
        ("replay", pa.bool_()),
        ("origin_run_id", pa.binary(16)),
        ("fork_step", pa.int32()),
        ("subject", _TEXT),
        ("service", _TEXT),
        ("process", _TEXT),
        ("ordinal", pa.int64()),
        ("versions", pa.map_(_TEXT, _TEXT)),
        ("coverage", pa.list_(pa.struct([("what", _TEXT), ("state", _TEXT), ("detail", _TEXT)]))),
        ("hash_seed", _TEXT),
        ("entry", _TEXT),
        ("format_version", pa.int32()),
        ("reader_version", pa.int32()),
        ("quirks", pa.list_(_TEXT)),
        ("manifest_digest", _DIGEST),
        ("span_count", pa.int64()),
        ("step_count", pa.int64()),
        ("last_step", pa.int64()),
        ("error_count", pa.int64()),
        ("model_call_count", pa.int64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
        ("loss_count", pa.int64()),
    ]
)
"""The facts of one attempt at a run, on its root row only. `versions` holds agent, prompt, ... and `package:NAME`."""

EVENT = pa.struct(
    [("time_ns", pa.int64()), ("name", _TEXT), ("attributes", ATTRIBUTES), ("dropped_attributes", pa.int64())]
)
LINK = pa.struct(
    [
        ("trace_id", pa.binary()),
        ("span_id", pa.binary()),
        ("trace_state", _TEXT),
        ("flags", pa.int64()),
        ("attributes", ATTRIBUTES),
        ("dropped_attributes", pa.int64()),
        ("basis", _TEXT),
    ]
)
READ = pa.struct(
    [
        ("kind", _TEXT),
        ("name", _TEXT),
        ("integer", pa.int64()),
        ("number", pa.float64()),
        ("text", _TEXT),
        ("data", pa.binary()),
        ("nested", pa.binary()),
        ("strand", _TEXT),
        ("sequence", pa.int64()),
        ("masked", pa.bool_()),
    ]
)
BESIDE_ATTRIBUTE = pa.struct([("name", _TEXT), ("value", pa.binary())])
"""An attribute of a call or an outcome: null `value` says "as the span's attribute of that name", else typed JSON."""

SPANS = pa.schema(
    [
        _field("run_id", pa.binary(16), "the run; null: a trace without a run"),
        _field("attempt", pa.int32(), "number of the attempt at the run that recorded it, from 1; null: no run"),
        _field("position", pa.int32(), "place of the span in its attempt, from 0"),
        _field("root", pa.bool_(), "whether it is the root span of its attempt"),
        _field("trace_id", pa.binary(), "16 bytes"),
        _field("span_id", pa.binary(), "8 bytes"),
        _field("parent_span_id", pa.binary(), "8 bytes; null: none"),
        _field("parent_basis", _TEXT, "recorded or inferred: how the parent is known"),
        _field("name", _TEXT, "span name"),
        _field("start_ns", pa.int64(), "start"),
        _field("end_ns", pa.int64(), "end; null: never ended"),
        _field("span_kind", pa.int32(), "OTLP SpanKind number"),
        _field("status_code", pa.int32(), "OTLP StatusCode number: 0 unset, 1 ok, 2 error"),
        _field("status_message", _TEXT, "status message"),
        _field("service", _TEXT, "service.name of the resource"),
        _field("agent", _TEXT, "the run's agent"),
        _field("run", RUN, "facts of the attempt; root rows only"),
        _field("kind", _TEXT, "model, tool, http, ...; null: a span of another instrumentation"),
        _field("node_name", _TEXT, "name of the tool, decision, ..."),
        _field("path", _TEXT, 'logical place: kind:name#occurrence parts joined by "/" (% and / in them as %25, %2F)'),
        _field("step", pa.int32(), "place in the run, from 1; null: no step"),
        _field("sequence", pa.int64(), "order of all begins and ends of the run: begin"),
        _field("end_sequence", pa.int64(), "the same: end; null: never ended"),
        _field("side_effect", _TEXT, "none, read, write, external"),
        _field("source", _TEXT, "where the answer came from: live, tape, ..."),
        _field("fidelity", _TEXT, "wire, exchange, messages, text"),
        _field("strand", _TEXT, "thread of control inside the parent"),
        _field("origin_step", pa.int32(), "step of the origin run that it answers from"),
        _field("key_id", _TEXT, "key that encrypts its payloads; null: not encrypted"),
        _field("outcome", _TEXT, "ok, error, cancelled, pending"),
        _field("round_trips", pa.bool_(), "whether arguments and result were kept whole"),
        _field("idempotency_key", _TEXT, "the key given to the called system"),
        _field("request_digest", _DIGEST, "of the request body or arguments"),
        _field("request_size", pa.int64(), "bytes"),
        _field("request_media_type", _TEXT, "what the request's bytes are"),
        _field("result_digest", _DIGEST, "of the response body or result"),
        _field("result_size", pa.int64(), "bytes"),
        _field("result_media_type", _TEXT, "what the result's bytes are"),
        _field("pack", pa.int64(), "the payloads file that holds this row's payloads"),
        _field("request_payload", pa.int32(), "its number in that pack; null: digest only"),
        _field("result_payload", pa.int32(), "likewise"),
        _field("exchange", pa.binary(), "wire message Exchange: heads, chunk boundaries, failure, notes"),
        _field("call_attributes", pa.list_(BESIDE_ATTRIBUTE), "attributes known when the call began"),
        _field("outcome_attributes", pa.list_(BESIDE_ATTRIBUTE), "attributes known when it ended"),
        _field(
            "reads",
            pa.list_(READ),
            "clock reads, draws, identifiers and environment reads made under this node; the end of a thread it "
            "started is a clock read named `thread.end`, what it put on a queue one named `queue.put`; of a wait with "
            "a deadline, `wait.` and what for, the value is 0 when that came, else when it was given up, in Unix "
            "nanoseconds; after a `wait.futures`, `futures.done` names those done by their places; `wait.timer N` is "
            "the Nth timer that its thread of control set in an event loop, 0: cancelled",
        ),
        _field(
            "entry_check", pa.binary(4), "first bytes of the SHA-256 of the node's manifest entry: names what altered"
        ),
        _field("operation", _TEXT, "gen_ai.operation.name"),
        _field("provider", _TEXT, "gen_ai.provider.name"),
        _field("protocol", _TEXT, "agent_replay.protocol"),
        _field("request_model", _TEXT, "gen_ai.request.model"),
        _field("response_model", _TEXT, "gen_ai.response.model"),
        _field("input_tokens", pa.int64(), "gen_ai.usage.input_tokens"),
        _field("output_tokens", pa.int64(), "gen_ai.usage.output_tokens"),
        _field("cache_read_input_tokens", pa.int64(), "gen_ai.usage.cache_read.input_tokens"),
        _field("reasoning_output_tokens", pa.int64(), "gen_ai.usage.reasoning.output_tokens"),
        _field("cost_usd", pa.float64(), "agent_replay.cost.usd"),
        _field("finish_reasons", pa.list_(_TEXT), "gen_ai.response.finish_reasons"),
        _field("tool_name", _TEXT, "gen_ai.tool.name"),
        _field("tool_call_id", _TEXT, "gen_ai.tool.call.id"),
        _field("http_status", pa.int64(), "http.response.status_code"),
        _field("server_address", _TEXT, "server.address"),
        _field("error_type", _TEXT, "error.type"),
        _field("attributes", ATTRIBUTES, "the span's attributes in order; a null value lies in a column of its own"),
        _field("events", pa.list_(EVENT), "span events"),
        _field("links", pa.list_(LINK), "span links; basis recorded or inferred"),
        _field("trace_state", _TEXT, "W3C tracestate"),
        _field("flags", pa.int64(), "W3C trace flags"),
        _field("dropped_attributes", pa.int64(), "attributes the emitter dropped"),
        _field("dropped_events", pa.int64(), "events it dropped"),
        _field("dropped_links", pa.int64(), "links it dropped"),
        _field("resource_attributes", ATTRIBUTES, "who emitted"),
        _field("resource_dropped_attributes", pa.int64(), "resource attributes dropped"),
        _field("resource_schema_url", _TEXT, "schema of the resource"),
        _field("scope_name", _TEXT, "which library emitted"),
        _field("scope_version", _TEXT, "its version"),
        _field("scope_attributes", ATTRIBUTES, "its attributes"),
        _field("scope_dropped_attributes", pa.int64(), "scope attributes dropped"),
        _field("scope_schema_url", _TEXT, "schema of the scope"),
    ]
)

PAYLOADS = pa.schema(
    [
        _field("pack", pa.int64(), "number of this file, as in spans"),
        _field("number", pa.int32(), "number of the row in its pack, from 0"),
        _field(
            "role",
            _TEXT,
            "of a piece: system, user, assistant, tool, tools, blob, envelope, state; null: a whole payload",
        ),
        _field(
            "pieces",
            pa.list_(pa.struct([("first", pa.int32()), ("count", pa.int32())])),
            "of a payload in pieces: ranges of numbers whose data, joined, is the payload",
        ),
        _field("key_id", _TEXT, "key that encrypts `data`; null: not encrypted"),
        _field("data", pa.binary(), "bytes; null: `pieces` says"),
    ]
)

LOSSES = pa.schema(
    [
        _field("run_id", pa.binary(16), "the run; null: unknown"),
        _field("span_id", pa.binary(), "the span; null: unknown"),
        _field(
            "reason",
            _TEXT,
            "dropped, truncated, sampled, redacted, unparsable, torn, not_covered, late, damaged, internal",
        ),
        _field("what", _TEXT, "what was lost"),
        _field("count", pa.int64(), "how many"),
        _field("detail", _TEXT, "more about it"),
        _field("time_ns", pa.int64(), "when; null: unknown"),
    ]
)

LABELS = pa.schema(
    [
        _field("run_id", pa.binary(16), "the run that is judged"),
        _field("who", _TEXT, "the person or program that judged"),
        _field("time_ns", pa.int64(), "when"),
        _field("path", _TEXT, "exact place: path of the node; null: the run"),
        _field("span_id", pa.binary(), "exact place: the span; null: the run"),
        _field("place", _TEXT, "exact place inside the payload (messages[3].content); null: the whole node"),
        _field("name", _TEXT, "what is judged"),
        _field("value", VALUE, "the judgement"),
        _field("note", _TEXT, "why"),
    ]
)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a file says of itself: format, oldest reader, quirks to imitate, segments it was made of."""

    format_version: int
    reader_version: int
    quirks: tuple[str, ...]
    segments: tuple[str, ...]


def file_metadata(*, segments: Sequence[str], quirks: Iterable[str]) -> dict[str, str]:
    """Return the key-value metadata of a new file."""
    return {
        "agent_replay.format_version": str(FORMAT_VERSION),
        "agent_replay.reader_version": str(READER_VERSION),
        "agent_replay.quirks": json.dumps(sorted(set(quirks))),
        "agent_replay.segments": json.dumps(list(segments)),
    }


def stated_facts(metadata: Mapping[bytes, bytes] | None, path: object) -> FileFacts:
    """Return what a file's metadata says, of whatever format; raises UnsupportedFormat when it is not ours."""
    entries = metadata or {}
    try:
        return FileFacts(
            int(entries[_PREFIX + b"format_version"]),
            int(entries[_PREFIX + b"reader_version"]),
            tuple(json.loads(entries[_PREFIX + b"quirks"])),
            tuple(json.loads(entries[_PREFIX + b"segments"])),
        )
    except (KeyError, ValueError) as error:
        raise UnsupportedFormat(f"{path} does not say which format it has: not a file of this lake") from error


def file_facts(metadata: Mapping[bytes, bytes] | None, path: object) -> FileFacts:
    """Return what a file's metadata says.

    Raises UnsupportedFormat when it needs a newer reader, must be upgraded before it can be read, or is not ours.
    """
    facts = stated_facts(metadata, path)
    if facts.reader_version > READER_VERSION:
        raise UnsupportedFormat(
            f"{path} needs a reader of version {facts.reader_version}; this is version {READER_VERSION}: upgrade "
            "otel-agent-replay"
        )
    if facts.format_version < FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{path} has format {facts.format_version}, which is older than format {FORMAT_VERSION}: "
            "`agent-replay upgrade` brings the lake to that"
        )
    return facts

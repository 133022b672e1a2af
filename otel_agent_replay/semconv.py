"""Every attribute key that is written or read, with a line of meaning.

`agent_replay.*` is ours; its table with types and units is `proto/README.md`. `gen_ai.*` follows the
semantic conventions of semantic-conventions-genai v0.1.0 (status: development), kept here by hand
because upstream still moves and its Python constants lag behind.
"""

from __future__ import annotations

from typing import Final

SCOPE_NAME: Final = "otel_agent_replay"  # instrumentation scope of the spans we emit

# --- ours: on the span that every backend sees (small) ---
RUN_ID: Final = "agent_replay.run.id"  # 32 hex digits; on every span of ours
RUN_MODE: Final = "agent_replay.run.mode"  # record, exact, ...
RUN_ORIGIN: Final = "agent_replay.run.origin_id"  # run that a replay came from
RUN_LANE: Final = "agent_replay.run.lane"  # of a re-run: baseline (as it was) or candidate
RUN_REPEAT: Final = "agent_replay.run.repeat"  # of a re-run: its number among its like, from 1
RUN_CANDIDATE: Final = "agent_replay.run.candidate"  # of a re-run: what it was given instead, like model=gpt-5
POOL_RUN: Final = "agent_replay.pool.run_id"  # run that answered in place of the tape
RUN_STATUS: Final = "agent_replay.run.status"  # ok, error, departed
REPLAY: Final = "agent_replay.replay"  # true on everything a replay emits
STEP: Final = "agent_replay.step"  # place in the run, from 1
KIND: Final = "agent_replay.kind"  # kind of node: model, tool, http, ...
PATH: Final = "agent_replay.path"  # logical place, parts joined by "/"
SIDE_EFFECT: Final = "agent_replay.side_effect"  # none, read, write, external
SOURCE: Final = "agent_replay.source"  # where the answer came from: live, tape, ...
REQUEST_DIGEST: Final = "agent_replay.request.digest"  # hex SHA-256 of the request payload
RESULT_DIGEST: Final = "agent_replay.result.digest"  # hex SHA-256 of the result payload
OUTCOME: Final = "agent_replay.outcome"  # ok, error, cancelled, pending
ROUND_TRIPS: Final = "agent_replay.round_trips"  # false when a value could not be kept whole
IDEMPOTENCY_KEY: Final = "agent_replay.idempotency_key"  # key that tells the called system a repeat
IDEMPOTENCY_KEY_UNUSED: Final = "agent_replay.idempotency_key.unused"  # true: made for the ledger, the tool takes none
CLOSED_EARLY: Final = "agent_replay.closed_early"  # the reader left the body before its end
MALFORMED: Final = "agent_replay.malformed"  # provider output we could not parse: why
PROTOCOL: Final = "agent_replay.protocol"  # how a model was spoken to: a name of the table Protocols
CHECKPOINT_NAME: Final = "agent_replay.checkpoint.name"  # name of a declared save-point
CHECKPOINT_RESUMABLE: Final = "agent_replay.checkpoint.resumable"  # as declared; false while a write has no key
CHECKPOINT_UNSAFE_REASONS: Final = "agent_replay.checkpoint.unsafe_reasons"  # why not: declared, or in flight
CHECKPOINT_BUDGET: Final = "agent_replay.checkpoint.budget"  # JSON: what the run may use: steps, tokens, ...
STATES_LEFT_OUT: Final = "agent_replay.run.states_left_out"  # true: its checkpoint states are kept by digest only
CALLER_STRAND: Final = "agent_replay.run.caller_strand"  # thread of control that began it, in its caller's run
FLAGGED: Final = "agent_replay.flagged"  # true: the agent marked the run as one to look at
FLAG_REASONS: Final = "agent_replay.flag_reasons"  # why, one text a flag
CAPTURE: Final = "agent_replay.capture"  # digest, redacted, full: what was declared of this tool or retriever
MAX_STEPS: Final = "agent_replay.run.max_steps"  # on a checkpoint: steps after which its run is aborted
LANGGRAPH_THREAD_ID: Final = "agent_replay.langgraph.thread_id"  # thread of a LangGraph checkpoint
LANGGRAPH_NAMESPACE: Final = "agent_replay.langgraph.checkpoint_ns"  # its namespace: "" outside subgraphs
LANGGRAPH_CHECKPOINT_ID: Final = "agent_replay.langgraph.checkpoint_id"  # its id
LANGGRAPH_PARENT_ID: Final = "agent_replay.langgraph.parent_checkpoint_id"  # the checkpoint before it
LANGGRAPH_STEP: Final = "agent_replay.langgraph.step"  # LangGraph's own number of the super-step, from -1
LANGGRAPH_SOURCE: Final = "agent_replay.langgraph.source"  # input, loop, update, fork
LANGGRAPH_NEXT: Final = "agent_replay.langgraph.next"  # nodes that come next
LANGGRAPH_TASK_ID: Final = "agent_replay.langgraph.task_id"  # task whose writes these are
APPROVAL_GRANTED: Final = "agent_replay.approval.granted"  # whether a person said yes
APPROVAL_BY: Final = "agent_replay.approval.by"  # who answered, as the approval function said
APPROVAL_ACTION: Final = "agent_replay.approval.action"  # name of the tool whose call was asked about
APPROVAL_ACTION_DIGEST: Final = "agent_replay.approval.action_digest"  # hex SHA-256 of the exact call
APPROVAL_STATE_DIGEST: Final = "agent_replay.approval.state_digest"  # hex digest of the last state or model request
APPROVAL_POLICY: Final = "agent_replay.approval.policy"  # policy in force afterwards
APPROVAL_ALLOWED: Final = "agent_replay.approval.allowed"  # what else was allowed
COST_USD: Final = "agent_replay.cost.usd"  # float, by genai-prices
VERSION_AGENT: Final = "agent_replay.version.agent"  # version of the agent, as declared
VERSION_PROMPT: Final = "agent_replay.version.prompt"  # version of the prompt, as declared
VERSION_TOOL_SCHEMA: Final = "agent_replay.version.tool_schema"  # hex SHA-256 of the tools offered
VERSION_MODEL_ROUTE: Final = "agent_replay.version.model_route"  # models asked for
VERSION_POLICY: Final = "agent_replay.version.policy"  # version of the policy, as declared
VERSION_INDEX: Final = "agent_replay.version.index"  # version of the retrieval index, as declared
IMPORT_FORMAT: Final = "agent_replay.import.format"  # of an imported run: format of the file it came from
IMPORT_ADDED: Final = "agent_replay.import.added"  # of an imported span: attributes that its reader found out
IMPORT_REPLACED: Final = "agent_replay.import.replaced"  # of an imported span: what it said itself where a fact stands
IMPORT_DIALECT: Final = "agent_replay.import.dialect"  # of an imported span: the table by which it was understood
IMPORT_SAME_CALL: Final = "agent_replay.import.same_call"  # spans that count for the call that this one tells again
IMPORT_SOURCE: Final = "agent_replay.import.source"  # of an imported run: file, and its place in it

# --- ours: heavy, beside the span (on it only with `inline`) ---
REQUEST_BODY: Final = "agent_replay.request.body"  # bytes of the request payload
RESULT_BODY: Final = "agent_replay.result.body"  # bytes of the result payload
RECORD: Final = "agent_replay.record"  # bytes: wire message RunSpan; with it a run sent as OTLP can be replayed
ENTITY_REFS: Final = "agent_replay.entity_refs"  # entity references of an OTLP resource, in the lake
PART: Final = "agent_replay.part"  # bytes: wire message SpanPart, a piece of a span too large for one message

# --- gen_ai.* ---
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
AGENT_NAME: Final = "gen_ai.agent.name"
OUTPUT_TYPE: Final = "gen_ai.output.type"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_CHOICE_COUNT: Final = "gen_ai.request.choice.count"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_PREVIOUS_RESPONSE_ID: Final = "gen_ai.request.previous_response.id"
REQUEST_REASONING_LEVEL: Final = "gen_ai.request.reasoning.level"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"  # seconds
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE_INPUT_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
USAGE_REASONING_OUTPUT_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
RETRIEVAL_QUERY: Final = "gen_ai.retrieval.query.text"
RETRIEVAL_DOCUMENTS: Final = "gen_ai.retrieval.documents"
OPENAI_API_TYPE: Final = "openai.api.type"  # chat_completions, responses
OPENAI_REQUEST_SERVICE_TIER: Final = "openai.request.service_tier"
OPENAI_SERVICE_TIER: Final = "openai.response.service_tier"
OPENAI_SYSTEM_FINGERPRINT: Final = "openai.response.system_fingerprint"

# --- general ---
SERVICE_NAME: Final = "service.name"
ERROR_TYPE: Final = "error.type"
HTTP_METHOD: Final = "http.request.method"
HTTP_STATUS: Final = "http.response.status_code"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
URL_FULL: Final = "url.full"

HEAVY: Final = (
    REQUEST_BODY,
    RESULT_BODY,
    RECORD,
    PART,
    INPUT_MESSAGES,
    OUTPUT_MESSAGES,
    SYSTEM_INSTRUCTIONS,
    TOOL_DEFINITIONS,
    TOOL_CALL_ARGUMENTS,
    TOOL_CALL_RESULT,
    RETRIEVAL_QUERY,
    RETRIEVAL_DOCUMENTS,
)
"""Attributes that hold contents: what is sent to a backend that everyone sees goes without them."""

"""The command line Claude Code: spans told by their names, counts without a namespace, no answers."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.model import Kind

CLAUDE_CODE: Final = Dialect(
    name="claude_code",
    title="Claude Code",
    span_names=("claude_code.",),
    kind_sources=("@name",),
    kinds={
        "claude_code.llm_request": Kind.MODEL,
        "claude_code.tool": Kind.TOOL,
        "claude_code.interaction": Kind.SCOPE,
    },
    messages_in=("user_prompt",),
    tool_name=("tool_name",),
    tool_call_id=("tool_use_id",),
    tool_arguments=("tool_input",),
    tool_result=("tool_output", "tool_result"),
    facts={
        semconv.REQUEST_MODEL: ("model",),
        semconv.USAGE_INPUT_TOKENS: ("input_tokens",),
        semconv.USAGE_OUTPUT_TOKENS: ("output_tokens",),
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: ("cache_read_tokens",),
        semconv.USAGE_CACHE_WRITE_INPUT_TOKENS: ("cache_creation_tokens",),
    },
    thread=("session.id",),
    subject=("user.id",),
)

"""Google's Agent Development Kit: requests and responses of Gemini as the kit holds them."""

from __future__ import annotations

from typing import Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.otel_genai import FACTS, OPERATIONS
from otel_agent_replay.model import Kind

_REQUEST: Final = "gcp.vertex.agent.llm_request"
_ARGUMENTS: Final = "gcp.vertex.agent.tool_call_args"

GOOGLE_ADK: Final = Dialect(
    name="google_adk",
    title="Google Agent Development Kit",
    scopes=("gcp.vertex.agent",),
    signs=("gcp.vertex.agent.*",),
    kind_sources=("gen_ai.operation.name",),
    kinds={**OPERATIONS, "call_llm": Kind.MODEL, "send_data": Kind.MODEL},
    kinds_by_sign={_REQUEST: Kind.MODEL, _ARGUMENTS: Kind.TOOL},
    messages_in=(_REQUEST,),
    messages_out=("gcp.vertex.agent.llm_response",),
    tool_name=("gen_ai.tool.name",),
    tool_call_id=("gen_ai.tool.call.id",),
    tool_arguments=(_ARGUMENTS,),
    tool_result=("gcp.vertex.agent.tool_response",),
    facts={**FACTS, semconv.REQUEST_MODEL: ("gen_ai.request.model", _REQUEST + "::model")},
    thread=("gcp.vertex.agent.session_id", "gen_ai.conversation.id"),
    subject=("gcp.vertex.agent.user_id",),
)

"""Laminar: one input and one output a span, kinds of its own, OpenTelemetry's names for models and tokens."""

from __future__ import annotations

from typing import Final

from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.otel_genai import FACTS
from otel_agent_replay.model import Kind

_INPUT: Final = ("lmnr.span.input",)
_OUTPUT: Final = ("lmnr.span.output",)

LAMINAR: Final = Dialect(
    name="laminar",
    title="Laminar",
    signs=("lmnr.*",),
    kind_sources=("lmnr.span.type",),
    kinds={
        "llm": Kind.MODEL,
        "tool": Kind.TOOL,
        "evaluator": Kind.DECISION,
        "default": Kind.SCOPE,
        "executor": Kind.SCOPE,
        "pipeline": Kind.SCOPE,
    },
    messages_in=_INPUT,
    messages_out=_OUTPUT,
    tool_name=("@name",),
    tool_arguments=_INPUT,
    tool_result=_OUTPUT,
    facts=FACTS,
    thread=("lmnr.association.properties.session_id",),
    subject=("lmnr.association.properties.user_id",),
)

"""Every dialect's table, in the order in which they are asked: the more telling before the more general.

A span may speak several at once; what the first does not tell, the next may.
"""

from __future__ import annotations

from typing import Final

from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.tables.claude_code import CLAUDE_CODE
from otel_agent_replay.imports.dialects.tables.google_adk import GOOGLE_ADK
from otel_agent_replay.imports.dialects.tables.laminar import LAMINAR
from otel_agent_replay.imports.dialects.tables.langfuse import LANGFUSE
from otel_agent_replay.imports.dialects.tables.langsmith import LANGSMITH
from otel_agent_replay.imports.dialects.tables.logfire import LOGFIRE
from otel_agent_replay.imports.dialects.tables.mlflow import MLFLOW
from otel_agent_replay.imports.dialects.tables.openinference import OPENINFERENCE
from otel_agent_replay.imports.dialects.tables.openlit import OPENLIT
from otel_agent_replay.imports.dialects.tables.openllmetry import OPENLLMETRY, OPENLLMETRY_OLD
from otel_agent_replay.imports.dialects.tables.otel_genai import OTEL_GENAI, OTEL_GENAI_OLD
from otel_agent_replay.imports.dialects.tables.pydantic_ai import PYDANTIC_AI
from otel_agent_replay.imports.dialects.tables.vercel import VERCEL, VERCEL_7
from otel_agent_replay.imports.dialects.tables.voltagent import VOLTAGENT

DIALECTS: Final[tuple[Dialect, ...]] = (
    VERCEL,
    VERCEL_7,
    OPENINFERENCE,
    LOGFIRE,
    PYDANTIC_AI,
    LANGSMITH,
    MLFLOW,
    OPENLIT,
    OPENLLMETRY_OLD,
    OPENLLMETRY,
    GOOGLE_ADK,
    LAMINAR,
    VOLTAGENT,
    CLAUDE_CODE,
    OTEL_GENAI_OLD,
    OTEL_GENAI,
    LANGFUSE,
)

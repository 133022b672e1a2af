"""The dialects in which agents' spans are written -> one set of facts.

    dialect        what a table can say               tables/           one table a dialect, data only
    engine         span -> `SpanFacts`                 span_facts        what it found
    reading        sources of a table on a span        fact_values       values in our types
    model_calls    request and answer as bytes         message_forms, message_parts, tool_definitions
    span_events    messages in events and log records  same_call         one call that several spans tell

Pure. README.md in the folder above says what each dialect yields.
"""

from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.engine import facts_of
from otel_agent_replay.imports.dialects.span_events import LogRecord, joined
from otel_agent_replay.imports.dialects.span_facts import NOTHING, SpanFacts
from otel_agent_replay.imports.dialects.tables import DIALECTS

__all__ = ["DIALECTS", "NOTHING", "Dialect", "LogRecord", "SpanFacts", "facts_of", "joined"]

"""Provider bytes to data, and nothing else: pure, no I/O, no import of anything heavy.

    recognise      which protocol an exchange speaks        split_request   where its repeating pieces lie
    PROTOCOLS      every protocol by name                   cost_usd        what it cost
    SseParser      server-sent events from any chunking     Reduction       an answer reduced while it arrives
    EventStreamParser   the same of AWS's binary frames, checksums held

A protocol is three modules: what it is (`openai_chat`), how its answers fold (`openai_chat_fold`) and how its requests
read (`openai_chat_messages`). Malformed or unknown output is named in `Folded.problems`; its bytes are kept by whoever
recorded them.
"""

from otel_agent_replay.protocols.anthropic_messages import ANTHROPIC_MESSAGES
from otel_agent_replay.protocols.cost import cost_usd
from otel_agent_replay.protocols.event_stream import EventStreamParser, Frame, frames_of
from otel_agent_replay.protocols.folded import (
    Folded,
    Message,
    Part,
    ProviderError,
    RequestMessages,
    ToolCall,
    Usage,
)
from otel_agent_replay.protocols.message_json import MESSAGE_KEYS, message_json
from otel_agent_replay.protocols.names import protocol_named
from otel_agent_replay.protocols.openai_chat import OPENAI_CHAT
from otel_agent_replay.protocols.openai_responses import OPENAI_RESPONSES
from otel_agent_replay.protocols.pieces import conversation_of, split_request
from otel_agent_replay.protocols.protocol import Facts, Protocol
from otel_agent_replay.protocols.recognise import PROTOCOLS, recognise
from otel_agent_replay.protocols.recognise_answer import framed_by_lines, recognise_answer, recognise_object
from otel_agent_replay.protocols.reduction import Reduction, reduce_chunks
from otel_agent_replay.protocols.sse import SseEvent, SseParser, events_of
from otel_agent_replay.protocols.stream import EventReducer, ObjectStream

__all__ = [
    "ANTHROPIC_MESSAGES",
    "MESSAGE_KEYS",
    "OPENAI_CHAT",
    "OPENAI_RESPONSES",
    "PROTOCOLS",
    "EventReducer",
    "EventStreamParser",
    "Facts",
    "Folded",
    "Frame",
    "Message",
    "ObjectStream",
    "Part",
    "Protocol",
    "ProviderError",
    "Reduction",
    "RequestMessages",
    "SseEvent",
    "SseParser",
    "ToolCall",
    "Usage",
    "conversation_of",
    "cost_usd",
    "events_of",
    "framed_by_lines",
    "frames_of",
    "message_json",
    "protocol_named",
    "recognise",
    "recognise_answer",
    "recognise_object",
    "reduce_chunks",
    "split_request",
]

"""What a model was asked and what it answered, put together from a span: bytes of a protocol, and how true they are.

A provider's own request and answer are kept as the source has them; else the messages are kept in OpenTelemetry's form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect
from otel_agent_replay.imports.dialects.message_forms import Conversation, answered, asked, system_parts
from otel_agent_replay.imports.dialects.message_parts import text_part, tool_call
from otel_agent_replay.imports.dialects.reading import Reading
from otel_agent_replay.imports.dialects.tool_definitions import tools_in
from otel_agent_replay.model import AttributeValue, Fidelity
from otel_agent_replay.protocols.folded import Message, Part, RequestMessages
from otel_agent_replay.protocols.json_text import as_objects, compact, parse
from otel_agent_replay.protocols.otel_messages import NAME, answer_body, request_body
from otel_agent_replay.protocols.recognise import PROTOCOLS
from otel_agent_replay.protocols.recognise_answer import recognise_object

_PARAMETERS: Final = {
    semconv.REQUEST_TEMPERATURE: "temperature",
    semconv.REQUEST_TOP_P: "top_p",
    semconv.REQUEST_TOP_K: "top_k",
    semconv.REQUEST_MAX_TOKENS: "max_tokens",
    semconv.REQUEST_SEED: "seed",
    semconv.REQUEST_STOP_SEQUENCES: "stop_sequences",
}
_INSTRUCTING: Final = ("system", "developer")
_CONVERSATIONS: Final = ("messages", "input", "contents", "prompt")


class Spoken(NamedTuple):
    """A request and an answer as bytes of `protocol`, None where nothing was kept."""

    request: bytes | None
    result: bytes | None
    protocol: str
    fidelity: Fidelity


def model_call(reading: Reading, spoken: Sequence[Dialect], facts: Mapping[str, AttributeValue]) -> Spoken:
    """Return what a model call's span tells of its messages."""
    whole = _exchange(reading, spoken)
    if whole is not None:
        return whole
    question, answer = _asked(reading, spoken), _answer(reading, spoken)
    if question is None and answer is None:
        return Spoken(None, None, "", Fidelity.TEXT)
    told = [side for side in (question, answer) if side is not None]
    structured = any(side.structured for side in told)
    return Spoken(
        None if question is None else _request(question, facts),
        None if answer is None else _result(answer, facts),
        NAME,
        Fidelity.MESSAGES if structured else Fidelity.TEXT,
    )


def _exchange(reading: Reading, spoken: Sequence[Dialect]) -> Spoken | None:
    """A provider's request and answer, where a source holds both in its own form."""
    for dialect in spoken:
        for response in reading.every(dialect.response):
            value = parse(response) if isinstance(response, str) else response
            protocol = PROTOCOLS.get(recognise_object("", value) or "") if isinstance(value, dict) else None
            if protocol is None:
                continue
            for request in reading.every(dialect.request):
                body = _bytes(request)
                if _is_whole(parse(body), len(protocol.request_messages(body).messages)):
                    return Spoken(body, _bytes(response), protocol.name, Fidelity.EXCHANGE)
    return None


def _is_whole(request: Any, read: int) -> bool:
    """Whether every message of a request could be read."""
    if not isinstance(request, dict) or not read:
        return False
    said = next((request[name] for name in _CONVERSATIONS if name in request), None)
    return not isinstance(said, list) or len(said) <= read


def _bytes(value: Any) -> bytes:
    text = value if isinstance(value, str) else compact(value)
    return text.encode("utf-8", "backslashreplace")


def _asked(reading: Reading, spoken: Sequence[Dialect]) -> Conversation | None:
    found = None
    for dialect in spoken:
        for value in reading.every(dialect.messages_in):
            conversation = asked(value)
            if conversation is not None and (found is None or (conversation.structured and not found.structured)):
                found = conversation
        if found is not None and found.structured:
            break
    system = next((parts for parts in map(system_parts, _every(reading, spoken, "system")) if parts), [])
    tools = next((found for found in map(tools_in, _every(reading, spoken, "tools")) if found), [])
    if found is None:
        return Conversation((), system, tools) if system or tools else None
    if any(message["role"] in _INSTRUCTING and message["parts"] == system for message in found.messages):
        system = []  # some write them twice: apart, and as the first message
    return Conversation(found.messages, system or found.system, tools or found.tools, found.structured)


def _answer(reading: Reading, spoken: Sequence[Dialect]) -> Conversation | None:
    found = None
    for dialect in spoken:
        for value in reading.every(dialect.messages_out):
            conversation = answered(value)
            if conversation is not None and (found is None or (conversation.structured and not found.structured)):
                found = conversation
        composed = _composed(reading, dialect) if found is None else None
        found = composed or found
        if found is not None and found.structured:
            break
    return found


def _composed(reading: Reading, dialect: Dialect) -> Conversation | None:
    """An answer whose text, calls and reasoning lie apart."""
    parts: list[Part] = []
    reasoning, text = reading.first(dialect.answer_reasoning), reading.first(dialect.answer_text)
    if isinstance(reasoning, str) and reasoning:
        parts.append({"type": "reasoning", "content": reasoning})
    if text is not None and text != "":
        parts.append(text_part(text if isinstance(text, str) else compact(text)))
    calls = reading.first(dialect.answer_calls)
    calls = parse(calls) if isinstance(calls, str) else calls
    parts += [part for part in map(tool_call, as_objects(calls)) if part is not None]
    return Conversation([{"role": "assistant", "parts": parts}]) if parts else None


def _every(reading: Reading, spoken: Sequence[Dialect], name: str) -> Iterator[Any]:
    for dialect in spoken:
        yield from reading.every(getattr(dialect, name))


def bare_request(facts: Mapping[str, AttributeValue]) -> bytes | None:
    """Return the request of a call whose messages were not kept: which model, and how. None: not even that is told."""
    told = {key: facts[key] for key in (*_PARAMETERS, semconv.REQUEST_MODEL) if key in facts}
    return _request(Conversation(), told) if told else None


def _request(question: Conversation, facts: Mapping[str, AttributeValue]) -> bytes:
    parameters = {
        name: list(facts[key]) if isinstance(facts[key], tuple) else facts[key]
        for key, name in _PARAMETERS.items()
        if key in facts
    }
    messages = RequestMessages(list(question.system), list(question.messages), list(question.tools))
    return request_body(messages, model=str(facts.get(semconv.REQUEST_MODEL, "")), parameters=parameters)


def _result(answer: Conversation, facts: Mapping[str, AttributeValue]) -> bytes:
    reasons = facts.get(semconv.RESPONSE_FINISH_REASONS) or ()
    messages = [_finished(message, reasons, place) for place, message in enumerate(answer.messages)]
    return answer_body(messages, model=str(facts.get(semconv.RESPONSE_MODEL, "")))


def _finished(message: Message, reasons: Sequence[str], place: int) -> Message:
    if "finish_reason" in message or place >= len(reasons):
        return message
    return {**message, "finish_reason": reasons[place]}

"""A span -> what it says of a run, by the tables of the dialects. Pure; no dialect has code of its own here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects.dialect import Dialect, Sources
from otel_agent_replay.imports.dialects.fact_values import fact_value, text_value
from otel_agent_replay.imports.dialects.model_calls import Spoken, model_call
from otel_agent_replay.imports.dialects.reading import Reading, heads_of
from otel_agent_replay.imports.dialects.span_facts import NOTHING, SpanFacts
from otel_agent_replay.imports.dialects.tables import DIALECTS
from otel_agent_replay.model import AttributeValue, Fidelity, Kind, MediaType, SideEffect, Span
from otel_agent_replay.payload import encode
from otel_agent_replay.protocols import PROTOCOLS, cost_usd
from otel_agent_replay.protocols.json_text import parsed_text

_EFFECTS: Final = {
    Kind.MODEL: SideEffect.READ,
    Kind.RETRIEVAL: SideEffect.READ,
    Kind.DECISION: SideEffect.READ,
    Kind.TOOL: SideEffect.EXTERNAL,
    Kind.APPROVAL: SideEffect.EXTERNAL,
}
_OPERATIONS: Final = {Kind.MODEL: "chat", Kind.TOOL: "execute_tool", Kind.RETRIEVAL: "retrieval"}
_ANSWERED: Final = frozenset(
    (
        semconv.RESPONSE_ID,
        semconv.RESPONSE_MODEL,
        semconv.RESPONSE_FINISH_REASONS,
        semconv.USAGE_INPUT_TOKENS,
        semconv.USAGE_OUTPUT_TOKENS,
        semconv.USAGE_CACHE_READ_INPUT_TOKENS,
        semconv.USAGE_CACHE_WRITE_INPUT_TOKENS,
        semconv.USAGE_REASONING_OUTPUT_TOKENS,
        semconv.COST_USD,
    )
)
_ASKED: Final = frozenset((semconv.REQUEST_MODEL, semconv.VERSION_TOOL_SCHEMA))
_OF_SCOPES: Final = (semconv.AGENT_NAME, semconv.OPERATION_NAME, semconv.PROVIDER_NAME)
_YEAR_2200_NS: Final = 7_258_118_400 * 10**9  # a clock in another unit names no day on which a price held
_HEADS: Final = frozenset(
    {sign.partition(".")[0] if sign[0] != "@" else "@" for dialect in DIALECTS for sign in dialect.signs}
)
_SCOPES: Final = tuple(scope for dialect in DIALECTS for scope in dialect.scopes)
_SPAN_NAMES: Final = tuple(name for dialect in DIALECTS for name in dialect.span_names)
_TOOL_MESSAGES: Final = ("tool", "ToolMessage")
_PENDING: Final = "pending_span"  # Logfire writes a span down when it begins, under an id of its own


def dialects_of(reading: Reading) -> tuple[Dialect, ...]:
    """Return the dialects that a span speaks, the most telling first."""
    span, heads = reading.span, heads_of(reading.span)
    named = span.name.startswith(_SPAN_NAMES)
    if heads.isdisjoint(_HEADS) and not named and not span.scope.name.startswith(_SCOPES):
        return ()  # most spans are no agent's
    if named or "@" in heads:
        return _asked_each(reading, heads)
    # Else the names of its attributes and of its scope decide, and few sets of names are on most spans.
    key = tuple(span.attributes), span.scope.name
    spoken = _SPOKEN.get(key)
    if spoken is None:
        spoken = _asked_each(reading, heads)
        if len(_SPOKEN) < _MOST_SPOKEN and sum(map(len, key[0])) + len(key[1]) < _LONGEST_NAMES:
            _SPOKEN[key] = spoken
    return spoken


def _asked_each(reading: Reading, heads: frozenset[str]) -> tuple[Dialect, ...]:
    return tuple(dialect for dialect in DIALECTS if reading.speaks(dialect, heads))


_SPOKEN: dict[tuple[tuple[str, ...], str], tuple[Dialect, ...]] = {}
_MOST_SPOKEN: Final = 1024
_LONGEST_NAMES: Final = 4096  # characters of all names of a span: they are anybody's


def facts_of(span: Span) -> SpanFacts:
    """Return what a span says of a run. Never raises, whatever the attributes hold."""
    try:
        return _facts_of(span)
    except RecursionError:  # values nested deeper than anybody can look at: the span is kept all the same
        return NOTHING


def _facts_of(span: Span) -> SpanFacts:
    if span.attributes.get("logfire.span_type") == _PENDING:
        return NOTHING
    reading = Reading(span)
    spoken = dialects_of(reading)
    if not spoken:
        return NOTHING
    kind, told = _kind(reading, spoken)
    common = SpanFacts(
        kind,
        span.name,
        spoken[0].name,
        _EFFECTS.get(kind, SideEffect.NONE) if kind is not None else SideEffect.NONE,
        thread_id=_text(reading, spoken, "thread"),
        subject=_text(reading, spoken, "subject"),
        wraps=any(told in dialect.wrappers for dialect in spoken),
    )
    if kind is None:
        return common
    facts = _facts(reading, spoken)
    if kind is Kind.MODEL:
        return _model(common, model_call(reading, spoken, facts), facts, span, told)
    if kind is Kind.SCOPE:
        answer = _tool_message(reading, spoken)
        if answer is None:
            return _scope(common, reading, spoken, facts)
        common = replace(common, kind=Kind.TOOL, side_effect=_EFFECTS[Kind.TOOL])
        return _with_message(_tool(common, reading, spoken, facts), answer)
    return _tool(common, reading, spoken, facts)


def _kind(reading: Reading, spoken: Sequence[Dialect]) -> tuple[Kind | None, str]:
    """Return the kind and the word that told it."""
    for dialect in spoken:
        for value in reading.every(dialect.kind_sources):
            word = text_value(value).lower()
            for said in (word, word.partition(" ")[0]):
                if said in dialect.kinds:
                    return dialect.kinds[said], said
        for sign, kind in dialect.kinds_by_sign.items():
            if reading.has(sign):
                return kind, ""
    return None, ""


def _text(reading: Reading, spoken: Iterable[Dialect], name: str) -> str:
    for dialect in spoken:
        for value in reading.every(getattr(dialect, name)):
            found = text_value(value) or (str(value) if isinstance(value, int) else "")
            if found:
                return found
    return ""


def _facts(reading: Reading, spoken: Sequence[Dialect]) -> dict[str, AttributeValue]:
    """Return every fact that any of the dialects tells, of those that tell one the first's."""
    found: dict[str, AttributeValue] = {}
    for key, sources in _told(tuple(dialect.name for dialect in spoken)):
        for value in reading.every(sources):
            typed = fact_value(key, value)
            if typed is not None:
                found[key] = typed
                break
    return found


@lru_cache(maxsize=256)
def _told(names: tuple[str, ...]) -> tuple[tuple[str, Sources], ...]:
    """Return the facts that dialects tell together, with the sources of each, the first dialect's first."""
    facts: dict[str, dict[str, None]] = {}
    for dialect in DIALECTS:
        if dialect.name in names:
            for key, sources in dialect.facts.items():
                facts.setdefault(key, {}).update(dict.fromkeys(sources))
    return tuple((key, tuple(sources)) for key, sources in facts.items())


def _model(common: SpanFacts, call: Spoken, facts: dict[str, AttributeValue], span: Span, told: str) -> SpanFacts:
    facts.setdefault(semconv.OPERATION_NAME, "embeddings" if "embed" in told else "chat")
    protocol = PROTOCOLS.get(call.protocol)
    if protocol is not None and call.fidelity is Fidelity.EXCHANGE:
        # What the provider's JSON says and the attributes do not.
        said = {} if call.request is None else protocol.request_facts(call.request)
        said |= {} if call.result is None else protocol.response_facts(call.result, MediaType.JSON.value, 200)
        for key in _ANSWERED | _ASKED:
            if key in said:
                # Some sources have one name for both models; the request itself says which was asked for.
                facts[key] = said[key] if key == semconv.REQUEST_MODEL else facts.get(key, said[key])
        if semconv.PROVIDER_NAME not in facts and protocol.provider(""):
            facts[semconv.PROVIDER_NAME] = protocol.provider("")
    if not facts.get(semconv.COST_USD):  # nought too: some write it where they know no price
        cost = _cost(facts, span)
        if cost is not None:
            facts[semconv.COST_USD] = cost
    if call.protocol:
        facts[semconv.PROTOCOL] = call.protocol
    model = facts.get(semconv.REQUEST_MODEL)
    return replace(
        common,
        # By the conventions' own rule: each instrumentation calls its spans something else.
        name=f"{facts[semconv.OPERATION_NAME]} {model}" if model else common.name,
        fidelity=call.fidelity,
        request=call.request,
        result=call.result,
        protocol=call.protocol,
        **_sides(facts),
    )


def _cost(facts: Mapping[str, AttributeValue], span: Span) -> float | None:
    model = facts.get(semconv.RESPONSE_MODEL) or facts.get(semconv.REQUEST_MODEL) or ""
    provider = str(facts.get(semconv.PROVIDER_NAME, ""))
    at_ns = span.start_ns if 0 < span.start_ns < _YEAR_2200_NS else None
    return cost_usd(provider, str(model).rpartition("/")[2], facts, at_ns=at_ns)


def _sides(facts: Mapping[str, AttributeValue]) -> dict[str, Any]:
    """Return facts apart: those known when a call began, and those that its answer told."""
    return {
        "asked": {key: value for key, value in facts.items() if key not in _ANSWERED},
        "answered": {key: value for key, value in facts.items() if key in _ANSWERED},
    }


def _scope(
    common: SpanFacts, reading: Reading, spoken: Sequence[Dialect], facts: Mapping[str, AttributeValue]
) -> SpanFacts:
    """Return an agent, a chain, a workflow: what went in and came out, and whose it is; its sums count no call."""
    kept = {key: value for key, value in facts.items() if key in _OF_SCOPES}
    call = model_call(reading, spoken, facts)
    if call.fidelity is not Fidelity.TEXT:
        return replace(common, fidelity=call.fidelity, request=call.request, result=call.result, asked=kept)
    went_in = next(_values(reading, spoken, "messages_in", "tool_arguments"), None)
    came_out = next(_values(reading, spoken, "messages_out", "tool_result"), None)
    return replace(
        common,
        request=None if went_in is None else encode(parsed_text(went_in)).data,
        result=None if came_out is None else encode(parsed_text(came_out)).data,
        media_type=MediaType.VALUE.value,
        asked=kept,
    )


def _tool(
    common: SpanFacts, reading: Reading, spoken: Sequence[Dialect], facts: dict[str, AttributeValue]
) -> SpanFacts:
    """Return a call that takes arguments and gives a result: a tool, a search, a decision, an approval."""
    searches = common.kind is Kind.RETRIEVAL
    name = common.name
    for tool_name in map(text_value, _values(reading, spoken, "tool_name")):
        if tool_name and not searches:
            name = facts[semconv.TOOL_NAME] = tool_name
            break
    call_id = next((text_value(value) for value in _values(reading, spoken, "tool_call_id")), "")
    kept: dict[str, AttributeValue] = {semconv.TOOL_CALL_ID: call_id} if call_id else {}
    operation = _OPERATIONS.get(common.kind) if common.kind is not None else None
    if operation:
        kept[semconv.OPERATION_NAME] = operation
    kept |= {key: value for key, value in facts.items() if key in (*_OF_SCOPES, semconv.TOOL_NAME)}
    arguments = next(_values(reading, spoken, "query" if searches else "tool_arguments"), None)
    result = next(_values(reading, spoken, "documents" if searches else "tool_result"), None)
    whole = arguments is not None and result is not None
    return replace(
        common,
        name=name,
        fidelity=Fidelity.EXCHANGE if whole else Fidelity.TEXT,
        request=None if arguments is None else encode(parsed_text(arguments)).data,
        result=None if result is None else encode(parsed_text(result)).data,
        media_type=MediaType.VALUE.value,
        asked=kept,
    )


def _tool_message(reading: Reading, spoken: Sequence[Dialect]) -> Mapping[str, Any] | None:
    """Return the message of a tool that a scope came to; None where it came to something else."""
    for value in _values(reading, spoken, "tool_message"):
        message = parsed_text(value)
        if isinstance(message, dict) and isinstance(message.get("kwargs"), dict):  # as LangChain serializes it
            message = {"type": str((message.get("id") or [""])[-1]), **message["kwargs"]}
        if isinstance(message, dict) and message.get("type") in _TOOL_MESSAGES and message.get("tool_call_id"):
            return message
    return None


def _with_message(facts: SpanFacts, message: Mapping[str, Any]) -> SpanFacts:
    """Return a tool with what its message tells: the call's id, the name, the result."""
    name = text_value(message.get("name")) or facts.name
    kept = {**facts.asked, semconv.TOOL_NAME: name, semconv.TOOL_CALL_ID: text_value(message["tool_call_id"])}
    result = encode(parsed_text(message.get("content"))).data
    return replace(facts, name=name, asked=kept, result=result)


def _values(reading: Reading, spoken: Sequence[Dialect], *names: str) -> Iterator[Any]:
    """Yield what lies at the sources of those names, by dialect."""
    for dialect in spoken:
        for name in names:
            yield from reading.every(getattr(dialect, name))

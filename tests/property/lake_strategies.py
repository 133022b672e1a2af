"""Recorded runs of every shape the model allows, for the laws of the lake."""

from __future__ import annotations

from hypothesis import strategies as st

from otel_agent_replay import semconv
from otel_agent_replay.model import (
    AnswerSource,
    Call,
    Chunk,
    Coverage,
    CoverageEntry,
    Failure,
    FailurePhase,
    Fidelity,
    HttpRequestHead,
    HttpResponseHead,
    InstrumentationScope,
    Kind,
    Loss,
    LossReason,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    Read,
    RecordedRun,
    RecordedSpan,
    Resource,
    Run,
    RunStatus,
    SideEffect,
    Span,
    SpanEvent,
    SpanLink,
    Versions,
    new_run_id,
)

texts = st.one_of(
    st.text(max_size=12),
    st.text(st.characters(), max_size=6),  # lone surrogates too
    st.sampled_from(["", "\0", "\0a\\b", "\ud800", "a/b%2F#1", "\\udc80"]),
)
names = st.text("abcxyz./%#", min_size=1, max_size=6)
nanoseconds = st.one_of(st.integers(0, 1 << 62), st.integers((1 << 63) - 1, (1 << 64) - 1))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(),
    texts,
    st.binary(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)
keys = st.one_of(
    texts,
    st.sampled_from(
        [
            semconv.RUN_ID,
            semconv.STEP,
            semconv.KIND,
            semconv.PATH,
            semconv.REQUEST_DIGEST,
            semconv.OUTCOME,
            semconv.AGENT_NAME,
            semconv.REQUEST_MODEL,
            semconv.USAGE_INPUT_TOKENS,
            semconv.COST_USD,
            semconv.RESPONSE_FINISH_REASONS,
            semconv.HTTP_STATUS,
            semconv.SERVICE_NAME,
        ]
    ),
)
attributes = st.dictionaries(keys, values, max_size=6)
headers = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
notes = st.lists(texts, max_size=2).map(tuple)
counts = st.integers(0, 1 << 31)
resources = st.builds(Resource, attributes, counts, texts)
scopes = st.builds(InstrumentationScope, texts, texts, attributes, counts, texts)
events = st.builds(SpanEvent, nanoseconds, texts, attributes, counts)
ids16, ids8 = st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8)
links = st.builds(SpanLink, ids16, st.one_of(ids8, st.just(b"")), texts, attributes, counts, st.integers(0, 0xFFFFFFFF))
failures = st.recursive(
    st.builds(Failure, texts, texts, st.sampled_from(FailurePhase), st.none() | st.binary(max_size=5), st.booleans()),
    lambda inner: st.builds(
        Failure, texts, texts, st.sampled_from(FailurePhase), st.none(), st.booleans(), st.none() | inner
    ),
    max_leaves=3,
)
reads = st.builds(
    Read,
    st.sampled_from([Kind.CLOCK, Kind.RANDOM, Kind.UUID, Kind.ENV]),
    texts,
    st.one_of(st.none(), st.integers(), st.floats(), texts, st.binary(max_size=4)),
    names,
    st.integers(0, 1 << 30),
    st.booleans(),
)
versions = st.builds(
    Versions, agent=texts, prompt=texts, code=texts, packages=st.dictionaries(names, st.text(min_size=1), max_size=3)
)
coverages = st.builds(Coverage, st.lists(st.builds(CoverageEntry, texts, texts, texts), max_size=3).map(tuple))


@st.composite
def chunkings(draw):
    moments = sorted(draw(st.lists(st.integers(0, 1 << 40), max_size=4)))
    return tuple(Chunk(draw(st.integers(0, 1 << 20)), moment) for moment in moments)


@st.composite
def bodies(draw):
    """Bytes of a payload; some are chat requests, so that they are stored in pieces."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=40))
    messages = draw(st.lists(st.sampled_from(["yes", "no", "naïve \\u00e9", "long " * 120, "i" * 600]), max_size=6))
    inside = ", ".join(f'{{"role":"user","content":"{text}"}}' for text in messages)
    return f'{{"model": "m", "messages": [{inside}], "n": {draw(st.integers(0, 2))}}}'.encode()


@st.composite
def payloads(draw, store):
    data = draw(bodies())
    payload = Payload.of(data, draw(st.sampled_from(["", "application/json", "text/event-stream"])))
    if draw(st.integers(0, 4)):
        store[payload.digest] = data
    return payload.without_data()


@st.composite
def nodes(draw, run_id, store, index, kind=None):
    kind = kind or draw(st.sampled_from(Kind))
    name, side_effect = draw(texts), draw(st.sampled_from(SideEffect))
    call = draw(
        st.none()
        | st.builds(
            Call,
            st.just(kind),
            st.just(name),
            st.just(side_effect),
            payloads(store),
            st.none() | st.builds(HttpRequestHead, texts, texts, headers, names),
            attributes | st.just({semconv.PROTOCOL: "openai.chat_completions"}),
            texts,
            st.booleans(),
            notes,
        )
    )
    outcome = draw(
        st.none()
        | st.builds(
            Outcome,
            st.sampled_from(OutcomeStatus),
            st.none() | payloads(store),
            st.none() | st.builds(HttpResponseHead, st.integers(0, 999), texts, headers, names),
            chunkings(),
            headers,
            st.none() | failures,
            st.booleans(),
            st.booleans(),
            st.booleans(),
            notes,
            attributes,
        )
    )
    return Node(
        run_id=run_id,
        kind=kind,
        name=name,
        path=tuple(draw(st.lists(texts, min_size=1, max_size=3))),
        sequence=index + 1,
        end_sequence=draw(counts),
        step=draw(st.none() | st.integers(1, 1 << 30)),
        side_effect=side_effect,
        source=draw(st.sampled_from(AnswerSource)),
        fidelity=draw(st.sampled_from(Fidelity)),
        call=call,
        outcome=outcome,
        reads=tuple(draw(st.lists(reads, max_size=3))),
        strand=draw(texts),
        origin_step=draw(st.none() | st.integers(1, 99)),
        key_id=draw(texts),
    )


@st.composite
def spans(draw, trace_id, span_id, extra):
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        name=draw(texts),
        start_ns=draw(nanoseconds),
        end_ns=draw(nanoseconds),
        parent_span_id=draw(st.just(b"") | ids8),
        kind=draw(st.integers(0, 5)),
        status_code=draw(st.integers(0, 2)),
        status_message=draw(texts),
        attributes=draw(attributes) | draw(st.just({}) | st.just(extra)),
        events=tuple(draw(st.lists(events, max_size=2))),
        links=tuple(draw(st.lists(links, max_size=2))),
        trace_state=draw(texts),
        flags=draw(st.integers(0, 0xFFFFFFFF)),
        dropped_attributes=draw(counts),
        dropped_events=draw(counts),
        dropped_links=draw(counts),
        resource=draw(resources),
        scope=draw(scopes),
    )


def _derived(node):
    """The attributes that a recorder puts on its span and that lie in columns on disk."""
    if node is None:
        return {}
    derived = {
        semconv.RUN_ID: node.run_id.hex(),
        semconv.KIND: str(node.kind),
        semconv.SIDE_EFFECT: str(node.side_effect),
    }
    if node.step is not None:
        derived[semconv.STEP] = node.step
    if node.call is not None:
        derived[semconv.REQUEST_DIGEST] = node.call.request.digest.hex()
        derived |= node.call.attributes
    return derived


@st.composite
def recorded_runs(draw, started_ms=st.integers(0, 4_000_000_000_000)):
    run_id = new_run_id(draw(started_ms))
    trace_id = draw(ids16)
    store = {}
    span_ids = draw(st.lists(ids8, min_size=1, max_size=4, unique=True))
    members = []
    for index, span_id in enumerate(span_ids):
        node = (
            draw(nodes(run_id, store, index, Kind.RUN)) if index == 0 else draw(st.none() | nodes(run_id, store, index))
        )
        members.append(RecordedSpan(draw(spans(trace_id, span_id, _derived(node))), node))
    run = Run(
        run_id=run_id,
        trace_id=trace_id,
        root_span_id=span_ids[0],
        agent=draw(texts),
        started_ns=draw(st.integers(0, 1 << 62)),
        ended_ns=draw(st.integers(0, 1 << 62)),
        status=draw(st.sampled_from(RunStatus)),
        thread_id=draw(texts),
        mode=draw(texts),
        replay=draw(st.booleans()),
        origin_run_id=draw(st.just(b"") | ids16),
        subject=draw(texts),
        service=draw(texts),
        process=draw(texts),
        ordinal=draw(counts),
        versions=draw(versions),
        coverage=draw(coverages),
        hash_seed=draw(texts),
        entry=draw(texts),
        quirks=tuple(draw(st.lists(texts, max_size=2))),
    )
    loss = st.builds(
        Loss, st.sampled_from(LossReason), texts, counts, texts, st.just(run_id), st.just(b"") | ids8, counts
    )
    return RecordedRun(run, tuple(members), store.get, tuple(draw(st.lists(loss, max_size=2))))

"""Spans of a sender that uses our recorder's names and masks nothing: secrets in every place of a record."""

from __future__ import annotations

import json
from dataclasses import replace

from otel_agent_replay import semconv
from otel_agent_replay.model import Span, digest_of
from otel_agent_replay.wire.v1 import exchange_pb2, journal_pb2, run_span_pb2

SECRETS = {
    "key": "sk-proj-Qm3Zk8vXt0LrJb5YcWn9DhPq2Gf7TaUe4SoIx1Rw6KzVy",
    "token": "ghp_a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2",
    "password": "correct-horse-battery-9",
    "variable": "Tr0ub4dor-and-3-others",
    "in a URL": "opensesame-4711",
}
RUN_ID = bytes.fromhex("0198c2d3e4f57a6b8c9d0e1f2a3b4c5d")
TRACE = b"\x07" * 16
AT = 1_764_400_000_000_000_000


def _facts(said: str) -> run_span_pb2.NodeFacts:
    request = json.dumps({"messages": [{"role": "user", "content": said}], "password": SECRETS["password"]}).encode()
    result = b'data: {"choices":[{"delta":{"content":"' + said.encode() + b'"}}]}\n\ndata: [DONE]\n\n'
    headers = [exchange_pb2.Header(name="Authorization", value=f"Bearer {SECRETS['password']}")]
    exchange = exchange_pb2.Exchange(
        request=exchange_pb2.HttpRequestHead(
            method="POST", url=f"https://ann:{SECRETS['in a URL']}@example.org/v1?api_key=x7", headers=headers
        ),
        response=exchange_pb2.HttpResponseHead(status=200, reason=said, headers=headers),
        trailers=headers,
        failure=exchange_pb2.Failure(
            type="m:E", message=said, phase="call", has_state=True, state=json.dumps({"args": [said]}).encode()
        ),
        request_notes=[said],
        idempotency_key=SECRETS["token"],
        request_media_type="application/json",
        result_media_type="text/event-stream",
        request_size=len(request),
        result_size=len(result),
    )
    return run_span_pb2.NodeFacts(
        run_id=RUN_ID, kind="http", name=said, path=["run:desk#0", f"http:{said}#0"], sequence=2, end_sequence=3,
        step=1, side_effect="read", source="live", fidelity="wire", exchange=exchange, outcome="ok",
        request_digest=digest_of(request), request_body=request, result_digest=digest_of(result), result_body=result,
        call_attributes=[
            journal_pb2.Attribute(name="client_secret", text=SECRETS["variable"]),
            journal_pb2.Attribute(name="more", nested=json.dumps({"password": SECRETS["password"]}).encode()),
        ],
        reads=[
            journal_pb2.Read(kind="env", name="DB_PASSWORD", sequence=9, text=SECRETS["variable"]),
            journal_pb2.Read(kind="env", name="NOTE", sequence=10, text=said),
        ],
    )  # fmt: skip


def forged_spans(*, padding: str = "") -> list[Span]:
    """The root of a run and a call in it. `padding` makes the call as long as one likes."""
    said = f"use {SECRETS['key']}, not {SECRETS['token']} {padding}"
    run = run_span_pb2.RunFacts(span_count=2, service="desk", process=said, format_version=1, reader_version=1)
    run.begun.CopyFrom(journal_pb2.RunBegun(agent="desk", time_ns=AT, mode="record", thread_id=said))
    run.ended.CopyFrom(journal_pb2.RunEnded(status="ok", time_ns=AT + 9))
    run.ended.coverage.add(what="x", state="partial", detail=said)
    root_facts = run_span_pb2.NodeFacts(
        run_id=RUN_ID, kind="run", name="desk", path=["run:desk#0"], sequence=1, end_sequence=4, outcome="ok",
        side_effect="none", source="live", fidelity="wire",
    )  # fmt: skip
    place = {"run_id": RUN_ID, "attempt": 1, "root_trace_id": TRACE, "root_span_id": b"\x01" * 8}
    root = run_span_pb2.RunSpan(**place, position=0, node=root_facts, run=run)
    call = run_span_pb2.RunSpan(**place, position=1, node=_facts(said))
    # What a reader of the format does not see: a field nobody knows, and one that is given again behind it.
    hidden = b"\xa2\x06" + bytes([len(SECRETS["key"])]) + SECRETS["key"].encode()
    twice = b"\x1a" + bytes([len(SECRETS["token"])]) + SECRETS["token"].encode()
    spans = [
        Span(TRACE, b"\x01" * 8, "invoke_agent desk", AT, AT + 9),
        Span(TRACE, b"\x02" * 8, "POST", AT + 1, AT + 2, b"\x01" * 8, attributes={"note": said}),
    ]
    records = [root.SerializeToString(), hidden + twice + call.SerializeToString()]
    return [
        replace(span, attributes={**span.attributes, semconv.RUN_ID: RUN_ID.hex(), semconv.RECORD: record})
        for span, record in zip(spans, records, strict=True)
    ]

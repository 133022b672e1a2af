"""Plain spans as a web service's instrumentation emits them, twelve attributes each, in OTLP requests; seeded.

Traces of sixteen spans, each span inside its parent. Half of the attributes' values repeat; paths, addresses, customers,
threads and sums do not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

SPANS_OF_A_TRACE = 16
FIRST_NS = 1_793_491_200_000_000_000  # 2026-11-01 00:00:00 UTC

_RESOURCE = {
    "service.name": "checkout",
    "service.version": "1.4.2",
    "service.instance.id": "checkout-7c9f",
    "host.name": "node-4",
    "telemetry.sdk.language": "python",
    "telemetry.sdk.name": "opentelemetry",
    "telemetry.sdk.version": "1.39.0",
}
_ROUTES = ("/orders", "/orders/{id}", "/carts/{id}/items", "/pay", "/customers/{id}")
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X)",
    "shop-app/7.2",
)


def requests(spans: int, *, batch: int = 512, seed: int = 5) -> Iterator[bytes]:
    """Yield serialised requests of `batch` spans each, `spans` in all."""
    draw = random.Random(seed)
    made = _spans(draw)
    for first in range(0, spans, batch):
        request = ExportTraceServiceRequest()
        _fill(request.resource_spans.add(), [next(made) for _ in range(min(batch, spans - first))])
        yield request.SerializeToString()


def _fill(group: ResourceSpans, spans: list[Span]) -> None:
    for name, value in _RESOURCE.items():
        attribute = group.resource.attributes.add()
        attribute.key, attribute.value.string_value = name, value
    scoped = group.scope_spans.add()
    scoped.scope.name, scoped.scope.version = "opentelemetry.instrumentation.fastapi", "0.60b0"
    scoped.spans.extend(spans)


def _spans(draw: random.Random) -> Iterator[Span]:
    now = FIRST_NS
    while True:
        trace_id, ids = draw.randbytes(16), []
        for place in range(SPANS_OF_A_TRACE):
            now += 1_000_000 + draw.randrange(100_000)
            parent = ids[draw.randrange(len(ids)) if place % 3 == 0 else -1] if ids else b""
            ids.append(draw.randbytes(8))
            yield _span(draw, trace_id, ids[-1], parent, now, now + (SPANS_OF_A_TRACE - place) * 3_000_000)


def _span(draw: random.Random, trace_id: bytes, span_id: bytes, parent: bytes, start_ns: int, end_ns: int) -> Span:
    route, method = draw.choice(_ROUTES), draw.choice(("GET", "GET", "POST"))
    span = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent,
        name=f"{method} {route}",
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=end_ns,
        flags=0x101,
    )
    values = {
        "http.request.method": method,
        "url.scheme": "https",
        "url.path": route.replace("{id}", str(draw.randrange(1_000_000))),
        "http.route": route,
        "server.address": "shop.example.com",
        "network.protocol.version": "1.1",
        "user_agent.original": draw.choice(_AGENTS),
        "client.address": ".".join(str(draw.randrange(1, 255)) for _ in range(4)),
        "http.response.status_code": draw.choice((200, 200, 200, 201, 404, 500)),
        "enduser.id": draw.randrange(1_000_000),
        "thread.id": draw.randrange(64),
        "app.cart.total": draw.randrange(100_000) / 100,
    }
    for name, value in values.items():
        attribute = span.attributes.add()
        attribute.key = name
        if isinstance(value, str):
            attribute.value.string_value = value
        elif isinstance(value, int):
            attribute.value.int_value = value
        else:
            attribute.value.double_value = value
    return span

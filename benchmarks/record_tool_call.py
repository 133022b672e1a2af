"""What a decorated function costs: recorded, inactive, and a clock read outside a run.

Floors: a bare OpenTelemetry span with three attributes, in a provider of its own without our processor; the plain
function; the plain `time.time`. The recorded call includes both journal records and our own OpenTelemetry span with
its nine attributes. The two are held against each other in providers that keep nothing, in providers that hand their
spans to an exporter in batches, as services do, and with a bare span that has as many attributes as ours. Times are
the thread's CPU time, the best of many short rounds taken in turn.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measure import Figure, report, spread
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import otel_agent_replay as replay

CALLS = 200
ROUNDS = 60
bare = (time.time, time.thread_time)  # in a tuple: names of the module are rebound by the recorder


class Nowhere(SpanExporter):
    """Takes spans and keeps none."""

    def export(self, spans):
        return SpanExportResult.SUCCESS


def batching() -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider


def plain(order_id: str, cents: int) -> dict[str, object]:
    return {"order_id": order_id, "cents": cents}


@replay.tool(side_effect="read")
def declared(order_id: str, cents: int) -> dict[str, object]:
    return {"order_id": order_id, "cents": cents}


def spans(tracer: trace.Tracer, attributes: int) -> None:
    more = {f"attribute.{number}": "0123456789abcdef" * 2 for number in range(attributes - 3)}
    for number in range(CALLS):
        with tracer.start_as_current_span("execute_tool declared", attributes=more) as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "declared")
            span.set_attribute("number", number)


def per_call(action, count: int = 100_000) -> float:
    clock = bare[1]
    started = clock()
    for _ in range(count):
        action()
    return (clock() - started) / count


def above(action, floor, rounds: int = 7) -> float:
    """Return the seconds that a call of `action` takes beyond one of `floor`: best against best."""
    found = [(per_call(action), per_call(floor)) for _ in range(rounds)]
    return min(a for a, _ in found) - min(b for _, b in found)


def in_turn(rounds: list[tuple[float, float]], floor: TracerProvider, attributes: int) -> None:
    """Add the CPU seconds of recorded calls and of bare spans, in turn; call it inside a run."""
    clock = bare[1]
    tracer = floor.get_tracer("bench")
    for _ in range(ROUNDS):
        started = clock()
        for number in range(CALLS):
            declared("17", number)
        between = clock()
        spans(tracer, attributes)
        rounds.append((between - started, clock() - between))


def ratio(
    label: str, folder: Path, provider: TracerProvider | None, floor: TracerProvider, attributes: int = 3
) -> Figure:
    replay.configure(lake=folder, seal="off", tracer_provider=provider)
    rounds: list[tuple[float, float]] = []
    replay.agent(lambda: in_turn(rounds, floor, attributes), name="bench")()
    replay.shutdown()
    subject, floor = min(a for a, _ in rounds), min(b for _, b in rounds)
    _, low, high = spread([a / b for a, b in rounds])
    detail = f"({1e6 * subject / CALLS:.1f} us against {1e6 * floor / CALLS:.1f} us)"
    return Figure(
        f"recorded tool call against a bare span with {attributes} attributes, {label}",
        subject / floor,
        2.5,
        "x",
        low=low,
        high=high,
        detail=detail,
    )


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    inactive = above(lambda: declared("17", 1), lambda: plain("17", 1))
    without = ratio("no tracing in the service", folder / "without", None, TracerProvider())
    within = ratio("our own span included", folder / "with", TracerProvider(), TracerProvider())
    batched = ratio("our own span included, both in batches to an exporter", folder / "batch", batching(), batching())
    alike = ratio("our own span included", folder / "alike", TracerProvider(), TracerProvider(), attributes=9)
    replay.configure(lake=folder / "clock", seal="off")
    wrapped = time.time
    clock = above(wrapped, bare[0])
    return report(
        "record_tool_call",
        [
            within,
            batched,
            alike,
            without,
            Figure("inactive decorator", 1e6 * inactive, 0.5, "us"),
            Figure("time.time() outside a run, above the bare call", 1e9 * clock, 100, "ns"),
        ],
    )


if __name__ == "__main__":
    raise SystemExit(main())

"""What a decorated function costs: recorded, inactive, and a clock read outside a run.

Floors: a bare OpenTelemetry span with three attributes; the plain function; the plain `time.time`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measure import Figure, paired, report, spread
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import otel_agent_replay as replay

CALLS = 2000
bare_time = time.time


def plain(order_id: str, cents: int) -> dict[str, object]:
    return {"order_id": order_id, "cents": cents}


@replay.tool(side_effect="read")
def declared(order_id: str, cents: int) -> dict[str, object]:
    return {"order_id": order_id, "cents": cents}


@replay.agent
def agent() -> None:
    for number in range(CALLS):
        declared("17", number)


def spans() -> None:
    tracer = trace.get_tracer("bench")
    for number in range(CALLS):
        with tracer.start_as_current_span("execute_tool declared") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "declared")
            span.set_attribute("number", number)


def per_call(action, count: int = 200_000) -> float:
    started = bare_time()
    for _ in range(count):
        action()
    return (bare_time() - started) / count


def main() -> int:
    trace.set_tracer_provider(TracerProvider())
    idle_decorator = [per_call(lambda: declared("17", 1)) - per_call(lambda: plain("17", 1)) for _ in range(5)]
    replay.configure(lake=Path(tempfile.mkdtemp(prefix="bench-")) / "lake", seal="off")
    pairs = paired(agent, spans, rounds=15)
    middle, low, high = spread([a / b for a, b in pairs])
    detail = f"({1e6 * pairs[-1][0] / CALLS:.1f} us against {1e6 * pairs[-1][1] / CALLS:.1f} us)"
    wrapped = time.time
    clock = [per_call(wrapped) - per_call(bare_time) for _ in range(7)]
    return report(
        "record_tool_call",
        [
            Figure(
                "recorded tool call against a bare span with three attributes",
                middle,
                2.5,
                "x",
                low=low,
                high=high,
                detail=detail,
            ),
            Figure("inactive decorator", 1e6 * sorted(idle_decorator)[2], 0.5, "us"),
            Figure("time.time() outside a run, above the bare call", 1e9 * sorted(clock)[3], 100, "ns"),
        ],
    )


if __name__ == "__main__":
    raise SystemExit(main())

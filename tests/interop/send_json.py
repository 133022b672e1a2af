"""Sends spans by the JSON exporter of OpenTelemetry's Python SDK: send_json.py ENDPOINT COUNT. Prints their ids."""

import json
import sys

from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

endpoint, count = sys.argv[1:]
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
tracer = provider.get_tracer("interop")
sent = []
for number in range(int(count)):
    with tracer.start_as_current_span(f"step {number}") as span:
        span.set_attribute("numbers", [1, 2, 3])
        span.set_attribute("bytes", b"\x00\xff")
        sent.append(format(span.get_span_context().span_id, "016x"))
provider.shutdown()
print(json.dumps(sent))

// Sends spans by one of Node's exporters: node send.js grpc|proto|json ENDPOINT COUNT. Prints the ids of what it sent as JSON.
const { BatchSpanProcessor, NodeTracerProvider } = require("@opentelemetry/sdk-trace-node");

const [kind, url, count] = process.argv.slice(2);
const packages = { grpc: "grpc", proto: "proto", json: "http" };
const { OTLPTraceExporter } = require(`@opentelemetry/exporter-trace-otlp-${packages[kind]}`);

async function main() {
  const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url }))] });
  const tracer = provider.getTracer("interop");
  const sent = [];
  for (let number = 0; number < Number(count); number++) {
    const span = tracer.startSpan(`step ${number}`, { kind: 2 });
    span.setAttribute("gen_ai.operation.name", "chat");
    span.setAttribute("gen_ai.input.messages", JSON.stringify([{ role: "user", parts: [{ type: "text", content: "Grüße 🙂" }] }]));
    span.setAttribute("numbers", [1, 2.5, -3]);
    span.setAttribute("cut", "🙂".slice(0, 1)); // half a surrogate pair
    span.addEvent("looked", { deep: true });
    span.setStatus({ code: 2, message: "no" });
    span.end();
    sent.push(span.spanContext().spanId);
  }
  await provider.shutdown();
  process.stdout.write(JSON.stringify(sent));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

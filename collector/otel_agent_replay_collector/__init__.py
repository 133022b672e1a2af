"""The receiver: OTLP from any service, durable before it is acknowledged, sealed into the lake by another process.

An edge: `agent-replay collector` starts it, nothing else of ours imports it. One process takes requests in (`service`:
HTTP and gRPC, `admission`, `request_log`), a second one makes runs of them (`sealing`).
"""

SELECT
    lower(hex(span.run_id)) AS run_id,
    span.attempt,
    span.step,
    span.node_name AS name,
    payload_text(span.pack, span.request_payload) AS arguments,
    payload_text(span.pack, span.result_payload) AS choice,
    span.source,
    span.outcome,
    span.round_trips,
    span.error_type,
    make_timestamp_ns(span.start_ns) AS started_at,
    (span.end_ns - span.start_ns) / 1e6 AS duration_ms,
    lower(hex(span.request_digest)) AS request_digest,
    lower(hex(span.result_digest)) AS result_digest,
    span.agent,
    span.service,
    span.path,
    lower(hex(span.trace_id)) AS trace_id,
    lower(hex(span.span_id)) AS span_id,
    span.date,
    span.hour
FROM lake_spans AS span
WHERE span.kind = 'decision'

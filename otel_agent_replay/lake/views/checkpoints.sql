SELECT
    lower(hex(span.run_id)) AS run_id,
    span.step,
    span.node_name AS name,
    payload_text(span.pack, span.request_payload) AS state,
    map_extract(span.attributes, 'agent_replay.checkpoint.resumable')[1].boolean AS resumable,
    map_extract(span.attributes, 'agent_replay.checkpoint.unsafe_reasons')[1].texts AS unsafe_reasons,
    span.round_trips,
    make_timestamp_ns(span.start_ns) AS started_at,
    lower(hex(span.request_digest)) AS state_digest,
    span.agent,
    span.service,
    span.path,
    lower(hex(span.trace_id)) AS trace_id,
    lower(hex(span.span_id)) AS span_id,
    span.date,
    span.hour
FROM lake_spans AS span
WHERE span.kind = 'checkpoint'

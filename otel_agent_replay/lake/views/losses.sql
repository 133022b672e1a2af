SELECT
    lower(hex(run_id)) AS run_id,
    lower(hex(span_id)) AS span_id,
    reason,
    what,
    "count",
    detail,
    make_timestamp_ns(time_ns) AS happened_at,
    date,
    hour
FROM lake_losses

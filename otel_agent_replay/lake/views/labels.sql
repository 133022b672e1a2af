SELECT
    lower(hex(run_id)) AS run_id,
    who,
    make_timestamp_ns(time_ns) AS labelled_at,
    path,
    lower(hex(span_id)) AS span_id,
    place,
    name,
    value,
    note,
    date,
    hour
FROM lake_labels

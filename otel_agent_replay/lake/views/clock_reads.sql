SELECT
    lower(hex(run_id)) AS run_id,
    step,
    read.sequence AS sequence,
    read.strand AS strand,
    read.name AS name,
    read.integer AS integer,
    read.number AS number,
    read.text AS text,
    coalesce(read.masked, false) AS masked,
    path,
    agent,
    service,
    lower(hex(trace_id)) AS trace_id,
    lower(hex(span_id)) AS span_id,
    date,
    hour
FROM (SELECT *, unnest(reads) AS read FROM lake_spans WHERE reads IS NOT NULL)
WHERE read.kind = 'clock'

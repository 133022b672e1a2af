WITH wanted AS (
    SELECT run_id, step, path, trace_id, span_id, agent, service, date, hour, pack,
        'request' AS side, request_digest AS digest, request_size AS size, request_media_type AS media_type,
        request_payload AS number, key_id
    FROM lake_spans
    WHERE request_digest IS NOT NULL
    UNION ALL
    SELECT run_id, step, path, trace_id, span_id, agent, service, date, hour, pack,
        'result' AS side, result_digest AS digest, result_size AS size, result_media_type AS media_type,
        result_payload AS number, key_id
    FROM lake_spans
    WHERE result_digest IS NOT NULL
),
refers AS (
    SELECT pack, number, unnest(range(len(pieces))) AS place, unnest(pieces) AS piece
    FROM (
        SELECT pack, number, flatten([range(found.first, found.first + found.count) for found in pieces]) AS pieces
        FROM lake_payloads
        WHERE pieces IS NOT NULL
    )
),
joined AS (
    SELECT refers.pack, refers.number, list(piece.data ORDER BY refers.place) AS parts
    FROM refers
    JOIN lake_payloads AS piece ON piece.pack = refers.pack AND piece.number = refers.piece
    GROUP BY refers.pack, refers.number
)
SELECT
    lower(hex(wanted.run_id)) AS run_id,
    wanted.step,
    wanted.side,
    lower(hex(wanted.digest)) AS digest,
    wanted.media_type,
    wanted.size,
    wanted.number IS NOT NULL AS kept,
    wanted.key_id,
    coalesce(whole.data, list_reduce(joined.parts, lambda one, other: one || other)) AS body,
    wanted.path,
    wanted.agent,
    wanted.service,
    lower(hex(wanted.trace_id)) AS trace_id,
    lower(hex(wanted.span_id)) AS span_id,
    wanted.date,
    wanted.hour
FROM wanted
LEFT JOIN lake_payloads AS whole ON whole.pack = wanted.pack AND whole.number = wanted.number
LEFT JOIN joined ON joined.pack = wanted.pack AND joined.number = wanted.number

-- Each stored message is read once, however many requests repeat it: a condition on `text` or `raw` filters the pieces
-- before they meet the requests that hold them.
WITH stored AS (
    SELECT pack, number, role, raw,
        CASE json_type(parsed)
            WHEN 'VARCHAR' THEN parsed ->> '$'
            WHEN 'ARRAY' THEN array_to_string(
                list_filter(list_concat(parsed ->> '$[*].text', parsed ->> '$[*].content'), lambda part: part IS NOT NULL),
                chr(10)
            )
            WHEN 'OBJECT' THEN CASE json_type(parsed, '$.content')
                WHEN 'VARCHAR' THEN parsed ->> '$.content'
                WHEN 'ARRAY' THEN array_to_string(
                    list_filter(
                        list_concat(parsed ->> '$.content[*].text', parsed ->> '$.content[*].content'),
                        lambda part: part IS NOT NULL
                    ),
                    chr(10)
                )
                ELSE coalesce(
                    parsed ->> '$.output',
                    nullif(
                        array_to_string(
                            [
                                coalesce(
                                    json_extract_string(part, '$.content'),
                                    json_extract_string(part, '$.response'),
                                    json_extract_string(part, '$.text')
                                )
                                for part in json_extract(parsed, '$.parts[*]')
                                if coalesce(json_extract_string(part, '$.type'), 'text') IN ('text', 'tool_call_response')
                            ],
                            chr(10)
                        ),
                        ''
                    )
                )
            END
            ELSE raw
        END AS text,
        coalesce(
            parsed -> '$.tool_calls',
            nullif(to_json([part for part in json_extract(parsed, '$.parts[*]') if json_extract_string(part, '$.type') = 'tool_call']), '[]'::JSON)
        ) AS tool_calls
    FROM (
        SELECT pack, number, role, raw, try(raw::JSON) AS parsed
        FROM (
            SELECT pack, number, role, ltrim(try(decode(data)), ', ' || chr(9) || chr(10) || chr(13)) AS raw
            FROM lake_payloads
            WHERE role IS NOT NULL AND role NOT IN ('envelope', 'blob', 'tools', 'state')
        )
    )
),
refers AS (
    SELECT pack, number, unnest(range(len(pieces))) AS place, unnest(pieces) AS piece
    FROM (
        SELECT pack, number, flatten([range(found.first, found.first + found.count) for found in pieces]) AS pieces
        FROM lake_payloads
        WHERE pieces IS NOT NULL
    )
),
answers AS (
    SELECT pack, number, raw,
        CASE
            WHEN raw LIKE '{%' AND json_valid(raw) THEN coalesce(
                raw ->> '$.choices[0].message.content',
                raw ->> '$.choices[0].text',
                raw ->> '$.completion',
                CASE json_type(raw, '$.message.content') WHEN 'VARCHAR' THEN raw ->> '$.message.content' END,
                CASE json_type(raw, '$.response') WHEN 'VARCHAR' THEN raw ->> '$.response' END,
                CASE WHEN json_exists(raw, '$.generation_id') THEN raw ->> '$.text' END,
                nullif(array_to_string(
                    list_filter(
                        flatten([
                            raw ->> '$.content[*].text',
                            raw ->> '$.output[*].content[*].text',
                            raw ->> '$.message.content[*].text',
                            raw ->> '$.candidates[0].content.parts[*].text',
                            [
                                json_extract_string(part, '$.content')
                                for part in json_extract(raw, '$.messages[*].parts[*]')
                                if json_extract_string(part, '$.type') = 'text'
                            ]
                        ]),
                        lambda part: part IS NOT NULL
                    ),
                    ''
                ), '')
            )
            WHEN raw LIKE '{%' THEN array_to_string(
                [
                    CASE
                        WHEN json_exists(event, '$.event_type') THEN CASE event ->> '$.event_type'
                            WHEN 'text-generation' THEN event ->> '$.text'
                            ELSE ''
                        END
                        ELSE coalesce(event ->> '$.message.content', event ->> '$.response', '')
                    END
                    for event in [try_cast(line AS JSON) for line in string_split(raw, chr(10)) if line LIKE '{%']
                ],
                ''
            )
            ELSE array_to_string(
                [
                    coalesce(
                        event ->> '$.choices[0].delta.content',
                        event ->> '$.choices[0].text',
                        event ->> '$.completion',
                        CASE json_type(event, '$.value') WHEN 'VARCHAR' THEN event ->> '$.value' END,
                        CASE event ->> '$.type'
                            WHEN 'response.output_text.delta' THEN event ->> '$.delta'
                            WHEN 'content-delta' THEN event ->> '$.delta.message.content.text'
                            ELSE event ->> '$.delta.text'
                        END,
                        ''
                    )
                    for event in [
                        try_cast(line[6:] AS JSON) for line in string_split(raw, chr(10)) if line LIKE 'data:%{%'
                    ]
                ],
                ''
            )
        END AS text
    FROM (SELECT pack, number, try(decode(data)) AS raw FROM lake_payloads WHERE data IS NOT NULL AND role IS NULL)
)
SELECT
    lower(hex(span.run_id)) AS run_id,
    span.step,
    'input' AS direction,
    refers.place AS position,
    stored.role,
    stored.text,
    stored.tool_calls,
    stored.raw,
    span.request_model AS model,
    span.agent,
    span.service,
    make_timestamp_ns(span.start_ns) AS started_at,
    lower(hex(span.trace_id)) AS trace_id,
    lower(hex(span.span_id)) AS span_id,
    span.date,
    span.hour
FROM stored
JOIN refers ON refers.pack = stored.pack AND refers.piece = stored.number
JOIN lake_spans AS span ON span.pack = refers.pack AND span.request_payload = refers.number
UNION ALL
SELECT
    lower(hex(span.run_id)) AS run_id,
    span.step,
    'output' AS direction,
    0 AS position,
    'assistant' AS role,
    answers.text,
    coalesce(
        try(answers.raw -> '$.choices[0].message.tool_calls'),
        try(answers.raw -> '$.message.tool_calls'),
        try(
            nullif(
                to_json(
                    [part for part in json_extract(answers.raw, '$.messages[*].parts[*]') if json_extract_string(part, '$.type') = 'tool_call']
                ),
                '[]'::JSON
            )
        )
    ) AS tool_calls,
    answers.raw,
    coalesce(span.response_model, span.request_model) AS model,
    span.agent,
    span.service,
    make_timestamp_ns(span.start_ns) AS started_at,
    lower(hex(span.trace_id)) AS trace_id,
    lower(hex(span.span_id)) AS span_id,
    span.date,
    span.hour
FROM answers
JOIN lake_spans AS span ON span.pack = answers.pack AND span.result_payload = answers.number
WHERE span.kind = 'model'

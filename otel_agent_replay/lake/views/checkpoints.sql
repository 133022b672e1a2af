-- One row a save-point, with what the run had said, seen and begun by then: the rows before it, by their order in the run.
WITH point AS (
    SELECT *, payload_text(pack, request_payload) AS state FROM lake_spans WHERE kind = 'checkpoint'
),
run AS (
    SELECT
        run_id,
        date,
        hour,
        first(run.thread_id ORDER BY attempt) AS thread_id,
        first(run.mode ORDER BY attempt) AS mode,
        arg_min(map_extract(run.versions, 'agent')[1], attempt) AS version_agent,
        arg_min(map_extract(run.versions, 'prompt')[1], attempt) AS version_prompt,
        arg_min(map_extract(run.versions, 'tool_schema')[1], attempt) AS version_tool_schema,
        arg_min(map_extract(run.versions, 'model_route')[1], attempt) AS version_model_route,
        arg_min(map_extract(run.versions, 'policy')[1], attempt) AS version_policy
    FROM lake_spans
    WHERE root
    GROUP BY run_id, date, hour
),
asked AS (
    SELECT run_id, date, hour, sequence, step, request_model, request_digest, pack, request_payload
    FROM lake_spans
    WHERE kind = 'model'
),
spent AS (
    SELECT run_id, date, hour, end_sequence,
        sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) OVER before AS tokens,
        sum(coalesce(cost_usd, 0)) OVER before AS cost_usd
    FROM lake_spans
    WHERE kind = 'model' AND end_sequence IS NOT NULL
    WINDOW before AS (PARTITION BY run_id ORDER BY end_sequence)
),
found AS (
    SELECT run_id, date, hour, end_sequence,
        list_transform(
            coalesce(
                payload_documents(pack, result_payload),
                [{'id': NULL, 'source': NULL, 'digest': lower(hex(result_digest)), 'text': NULL}]
            ),
            lambda one: {
                'id': one.id,
                'source': coalesce(one.source, map_extract(attributes, 'gen_ai.data_source.id')[1].text, node_name),
                'digest': one.digest,
                'text': one.text
            }
        ) AS documents
    FROM lake_spans
    WHERE kind = 'retrieval' AND end_sequence IS NOT NULL AND result_digest IS NOT NULL
),
context AS (
    SELECT point.run_id, point.span_id, flatten(list(found.documents ORDER BY found.end_sequence)) AS documents
    FROM point
    JOIN found ON found.run_id = point.run_id AND found.date = point.date AND found.hour = point.hour
        AND found.end_sequence < point.sequence
    GROUP BY point.run_id, point.span_id
),
tool AS (
    SELECT run_id, date, hour, attempt, span_id, path, node_name, step, sequence, end_sequence, side_effect,
        idempotency_key, request_digest, request_payload, result_digest, result_payload, pack, outcome, error_type,
        (end_ns - start_ns) / 1e6 AS duration_ms
    FROM lake_spans
    WHERE kind = 'tool'
),
-- What an earlier attempt left open is not in flight in a later one: that made the call anew.
flying AS (
    SELECT point.span_id AS at, tool.*
    FROM point
    JOIN tool ON tool.run_id = point.run_id AND tool.date = point.date AND tool.hour = point.hour
        AND tool.attempt = point.attempt
        AND tool.sequence < point.sequence AND (tool.end_sequence IS NULL OR tool.end_sequence > point.sequence)
    QUALIFY row_number() OVER (
        PARTITION BY point.run_id, point.span_id
        ORDER BY starts_with(point.path, tool.path || '/') DESC, tool.sequence DESC
    ) = 1
),
finished AS (
    SELECT * FROM tool WHERE end_sequence IS NOT NULL
),
joined AS (
    SELECT
        point.*,
        CASE WHEN point.state IS NULL OR NOT json_valid(point.state) THEN NULL
            WHEN json_type(point.state, '$."$type"') IS NULL THEN point.state::JSON
            ELSE point.state -> '$.fields'
        END AS members,
        try_cast(map_extract(point.attributes, 'agent_replay.checkpoint.budget')[1].text AS JSON) AS declared_budget,
        run.thread_id,
        run.mode,
        run.version_agent,
        run.version_prompt,
        run.version_tool_schema,
        run.version_model_route,
        run.version_policy,
        asked.step AS input_step,
        asked.request_model AS input_model,
        asked.request_digest AS input_digest,
        asked.pack AS input_pack,
        asked.request_payload AS input_payload,
        context.documents AS context,
        coalesce(spent.tokens, 0) AS tokens_used,
        coalesce(spent.cost_usd, 0) AS cost_used_usd,
        flying AS flying,
        CASE WHEN flying.span_id IS NULL THEN
            {'node_name': finished.node_name, 'step': finished.step, 'outcome': finished.outcome,
             'result_digest': finished.result_digest, 'pack': finished.pack, 'payload': finished.result_payload,
             'error_type': finished.error_type, 'duration_ms': finished.duration_ms}
        ELSE
            {'node_name': flying.node_name, 'step': flying.step, 'outcome': flying.outcome,
             'result_digest': flying.result_digest, 'pack': flying.pack, 'payload': flying.result_payload,
             'error_type': flying.error_type, 'duration_ms': flying.duration_ms}
        END AS result
    FROM point
    LEFT JOIN run ON run.run_id = point.run_id AND run.date = point.date AND run.hour = point.hour
    ASOF LEFT JOIN asked ON asked.run_id = point.run_id AND asked.date = point.date AND asked.hour = point.hour
        AND asked.sequence < point.sequence
    ASOF LEFT JOIN spent ON spent.run_id = point.run_id AND spent.date = point.date AND spent.hour = point.hour
        AND spent.end_sequence < point.sequence
    ASOF LEFT JOIN finished ON finished.run_id = point.run_id AND finished.date = point.date
        AND finished.hour = point.hour AND finished.end_sequence < point.sequence
    LEFT JOIN context ON context.run_id = point.run_id AND context.span_id = point.span_id
    LEFT JOIN flying ON flying.run_id = point.run_id AND flying.at = point.span_id
)
SELECT
    lower(hex(run_id)) AS run_id,
    thread_id,
    attempt,
    step,
    node_name AS name,
    path,
    make_timestamp_ns(start_ns) AS started_at,
    version_agent,
    version_prompt,
    version_tool_schema,
    version_model_route,
    version_policy,
    input_step,
    input_model,
    lower(hex(input_digest)) AS input_digest,
    payload_messages(input_pack, input_payload) AS input_messages,
    context,
    state,
    lower(hex(request_digest)) AS state_digest,
    request_size AS state_size,
    members -> '$.plan' AS plan,
    members -> '$.scratchpad' AS scratchpad,
    members -> '$.variables' AS variables,
    coalesce(declared_budget, members -> '$.budget') AS budget,
    step AS steps_used,
    coalesce(
        try_cast(coalesce(declared_budget, members -> '$.budget') ->> '$.steps' AS BIGINT),
        map_extract(attributes, 'agent_replay.run.max_steps')[1].integer
    ) AS steps_allowed,
    tokens_used,
    try_cast(coalesce(declared_budget, members -> '$.budget') ->> '$.tokens' AS BIGINT) AS tokens_allowed,
    cost_used_usd,
    flying.node_name AS tool,
    flying.step AS tool_step,
    payload_text(flying.pack, flying.request_payload) AS tool_arguments,
    lower(hex(flying.request_digest)) AS tool_arguments_digest,
    flying.idempotency_key AS tool_idempotency_key,
    flying.side_effect AS tool_side_effect,
    result.node_name AS result_of,
    result.step AS result_step,
    CASE WHEN result.outcome <> 'pending' THEN result.outcome = 'ok' END AS result_ok,
    lower(hex(result.result_digest)) AS result_digest,
    left(payload_text(result.pack, result.payload), 200) AS result_preview,
    result.error_type AS result_error_type,
    result.duration_ms AS result_latency_ms,
    mode,
    map_extract(attributes, 'agent_replay.checkpoint.resumable')[1].boolean AS resumable,
    map_extract(attributes, 'agent_replay.checkpoint.unsafe_reasons')[1].texts AS unsafe_reasons,
    round_trips,
    agent,
    service,
    lower(hex(trace_id)) AS trace_id,
    lower(hex(span_id)) AS span_id,
    date,
    hour
FROM joined

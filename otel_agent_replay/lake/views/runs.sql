-- One row a run: how it began is said by its first attempt, how it ended by the last, sums are over all of them.
SELECT
    lower(hex(run_id)) AS run_id,
    lower(hex(first(trace_id ORDER BY attempt))) AS trace_id,
    first(agent ORDER BY attempt) AS agent,
    last(run.status ORDER BY attempt) AS status,
    make_timestamp_ns(first(run.started_ns ORDER BY attempt)) AS started_at,
    make_timestamp_ns(last(run.ended_ns ORDER BY attempt)) AS ended_at,
    (last(run.ended_ns ORDER BY attempt) - first(run.started_ns ORDER BY attempt)) / 1e6 AS duration_ms,
    max(attempt) AS attempt_count,
    first(run.thread_id ORDER BY attempt) AS thread_id,
    first(run.mode ORDER BY attempt) AS mode,
    first(run.replay ORDER BY attempt) AS replay,
    lower(hex(first(run.origin_run_id ORDER BY attempt))) AS origin_run_id,
    first(run.fork_step ORDER BY attempt) AS fork_step,
    first(run.subject ORDER BY attempt) AS subject,
    first(run.service ORDER BY attempt) AS service,
    first(run.process ORDER BY attempt) AS process,
    first(run.ordinal ORDER BY attempt) AS ordinal,
    first(run.entry ORDER BY attempt) AS entry,
    arg_min(map_extract(run.versions, 'agent')[1], attempt) AS version_agent,
    arg_min(map_extract(run.versions, 'prompt')[1], attempt) AS version_prompt,
    arg_min(map_extract(run.versions, 'tool_schema')[1], attempt) AS version_tool_schema,
    arg_min(map_extract(run.versions, 'model_route')[1], attempt) AS version_model_route,
    arg_min(map_extract(run.versions, 'policy')[1], attempt) AS version_policy,
    arg_min(map_extract(run.versions, 'index')[1], attempt) AS version_index,
    arg_min(map_extract(run.versions, 'code')[1], attempt) AS version_code,
    arg_min(map_extract(run.versions, 'source')[1], attempt) AS version_source,
    list_reduce(
        list(coalesce(run.versions, MAP {}) ORDER BY attempt DESC), lambda later, earlier: map_concat(later, earlier)
    ) AS versions,
    sum(run.span_count)::BIGINT AS span_count,
    -- A call that was in flight when an attempt ended was made again under the same step.
    CASE count(*)
        WHEN 1 THEN any_value(run.step_count)
        ELSE max(run.last_step) - coalesce(first(run.fork_step ORDER BY attempt) - 1, 0)
    END AS step_count,
    sum(run.error_count)::BIGINT AS error_count,
    sum(run.model_call_count)::BIGINT AS model_call_count,
    sum(run.input_tokens)::BIGINT AS input_tokens,
    sum(run.output_tokens)::BIGINT AS output_tokens,
    sum(run.cost_usd) AS cost_usd,
    sum(run.loss_count)::BIGINT AS loss_count,
    coalesce(bool_or(map_extract(attributes, 'agent_replay.flagged')[1].boolean), false) AS flagged,
    flatten(
        list(map_extract(attributes, 'agent_replay.flag_reasons')[1].texts ORDER BY attempt)
            FILTER (map_extract(attributes, 'agent_replay.flag_reasons')[1].texts IS NOT NULL)
    ) AS flag_reasons,
    last(run.coverage ORDER BY attempt) FILTER (run.coverage IS NOT NULL) AS coverage,
    first(run.hash_seed ORDER BY attempt) AS hash_seed,
    CASE count(*) WHEN 1 THEN lower(hex(any_value(run.manifest_digest))) END AS manifest_digest,
    max(run.format_version) AS format_version,
    list_sort(list_distinct(flatten(list(coalesce(run.quirks, []))))) AS quirks,
    date,
    hour
FROM lake_spans
WHERE root
GROUP BY run_id, date, hour

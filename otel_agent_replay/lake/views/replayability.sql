-- One row a run that was ever tried: what its latest `verify --replay` came to.
WITH verdicts AS (
    SELECT
        run_id,
        who,
        time_ns,
        first(value.text) FILTER (name = 'replayability') AS verdict,
        first(note) FILTER (name = 'replayability') AS reason,
        first(value.text) FILTER (name = 'replayability.code') AS code_revision,
        first(value.integer) FILTER (name = 'replayability.replays') AS replays
    FROM lake_labels
    WHERE name IN ('replayability', 'replayability.code', 'replayability.replays')
    GROUP BY run_id, who, time_ns
)
SELECT
    runs.run_id,
    runs.agent,
    runs.version_agent,
    runs.version_code,
    latest.verdict,
    latest.verdict = 'proven' AS proven,
    latest.reason,
    latest.replays,
    make_timestamp_ns(latest.time_ns) AS verified_at,
    latest.code_revision,
    latest.who,
    runs.date,
    runs.hour
FROM (SELECT * FROM verdicts QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY time_ns DESC) = 1) AS latest
JOIN runs ON runs.run_id = lower(hex(latest.run_id))

-- Whose rows tell of a run: its own, and of a fork those of its origins, up to the steps at which it left them.
WITH RECURSIVE root AS (
    SELECT DISTINCT run_id, agent, service, date, hour, run.origin_run_id AS origin, run.fork_step AS left_at
    FROM lake_spans
    WHERE root
),
told AS (
    SELECT run_id, agent, service, date, hour, run_id AS recorded_in, NULL::INTEGER AS before_step FROM root
    UNION ALL
    SELECT told.run_id, told.agent, told.service, told.date, told.hour, root.origin,
        least(coalesce(told.before_step, root.left_at), root.left_at)
    FROM told
    JOIN root ON root.run_id = told.recorded_in AND root.left_at > 0
)
SELECT
    lower(hex(run_id)) AS run_id,
    lower(hex(recorded_in)) AS recorded_in,
    before_step,
    agent,
    service,
    date,
    hour
FROM told

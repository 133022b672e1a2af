"""The ledger: the SQL store of runs, durable steps, effects and approvals, that makes side effects happen once.

One worker holds a run by a lease with a fence: a number that rises at each take-over. Every write of a lease checks its
fence in the same transaction, so that a worker that was stalled beyond its lease can write nothing any more.

An effect, by (run, tool, key):

    intend ----> intended ---- finish ----> done
                  |   ^ |                    failed -- again --> intended
                  |   | +-- (the process died; another attempt asks) --> again: the same key | doubt
                  |   |
                  |   +-- decide: it did not happen, again
                  +-- doubt --> in_doubt --- decide: it happened --> happened

Intent and key are committed before the call, the result after it. SQLite by default, PostgreSQL for several machines;
both through SQLAlchemy Core, which is loaded here and nowhere else.
"""

from otel_agent_replay.ledger.lease import Lease
from otel_agent_replay.ledger.ledger import Ledger, ledger_url, open_ledger
from otel_agent_replay.ledger.rows import ApprovalRow, Decision, EffectRow, Intent, IntentStatus, RunRow, StepRow
from otel_agent_replay.ledger.workers import worker_name

__all__ = [
    "ApprovalRow",
    "Decision",
    "EffectRow",
    "Intent",
    "IntentStatus",
    "Lease",
    "Ledger",
    "RunRow",
    "StepRow",
    "ledger_url",
    "open_ledger",
    "worker_name",
]

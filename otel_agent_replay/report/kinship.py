"""How runs hang together, in words: attempts at one run, a fork and its origin."""

from __future__ import annotations

from otel_agent_replay.model import RecordedRun, Run


def fork_words(run: Run) -> str:
    """Return what a fork is a fork of, "" for any other run."""
    return f"fork of {run.origin_run_id.hex()} at step {run.fork_step}" if run.is_fork else ""


def attempt_words(recorded: RecordedRun) -> str:
    """Return which attempt the run is at, "" when there was one only."""
    made = max((attempt.number for attempt in recorded.attempts), default=1)
    return f"attempt {recorded.run.attempt} of {made}" if made > 1 else ""


def relation_sentence(a: Run, b: Run) -> str:
    """Return how two runs that are compared hang together, "" when they do not."""
    for name, run, other_name, other in (("B", b, "A", a), ("A", a, "B", b)):
        if run.is_fork and run.origin_run_id == other.run_id:
            return f"{name} is a fork of {other_name} at step {run.fork_step}: what comes before is the same."
    if a.is_fork and b.is_fork and a.origin_run_id == b.origin_run_id:
        return f"Both are forks of {a.origin_run_id.hex()}: A at step {a.fork_step}, B at step {b.fork_step}."
    return ""

"""Re-runs: a recorded run once more, from its first step, on another model, prompt or version; nothing is written.

A re-run shares nothing with its origin but what it is answered from there. It is a run of its own, linked to its
origin, marked as a replay, in a lake of its own. Owns the mode `regression`: who answers what, how a child process
becomes a re-run, and how many of them are run.
"""

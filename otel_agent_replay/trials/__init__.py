"""Cases tried with today's code: exact replays, live runs from a departure, re-runs, component runs; and the gate.

Owns what is run, in which order, and within which budget; what it comes to is said by `gate`. Every case is tried on
a copy of its lake, so that a case folder is never written and many processes may try it at once.
"""

from otel_agent_replay.trials.options import Mode, TrialOptions

__all__ = ["Mode", "TrialOptions"]

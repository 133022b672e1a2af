"""`python -m otel_agent_replay.replay.called pkg.mod:func JSON`: call an agent with given named arguments.

Runs in a child that `agent-replay calibrate --entry` starts to record; function and arguments come from a person.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from otel_agent_replay.replay.entry import call_entry, load_entry


def main(arguments: list[str]) -> int:
    """Call it, and use its result as a caller would."""
    entry, given = arguments
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    call_entry(load_entry(entry), [], json.loads(given))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

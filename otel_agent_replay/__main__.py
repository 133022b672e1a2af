"""`python -m otel_agent_replay` is `agent-replay`."""

from otel_agent_replay.cli.main import main

main()

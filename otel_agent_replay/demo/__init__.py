"""Two small agents to try the tool on.

One needs nothing (`agent-replay demo`), one is built on the openai client (`make demo`).
"""

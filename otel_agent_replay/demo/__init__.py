"""Two small agents to try the tool on.

One needs nothing (`agent-replay demo`), one is built on the openai client (`make demo`).
"""

from pathlib import Path

RECORDING = Path(__file__).parent / "recording"
"""The lake that holds the pocket agent's recording."""

"""Prices come from tables on this machine."""

from __future__ import annotations

import subprocess
import sys


def test_pricing_never_touches_the_network():
    """In a fresh process, pricing opens no socket; importing the protocols loads no price tables."""
    script = """
import sys
touched = []
sys.addaudithook(lambda event, args: touched.append(event) if event.startswith(("socket.", "urllib.")) else None)
from otel_agent_replay import semconv
from otel_agent_replay.protocols import cost_usd
assert "genai_prices" not in sys.modules
usage = {semconv.USAGE_INPUT_TOKENS: 10}
assert cost_usd("openai", "gpt-4o", usage) is not None
assert cost_usd("openai", "no-such-model", usage) is None
assert not touched, touched
"""
    subprocess.run([sys.executable, "-c", script], check=True)

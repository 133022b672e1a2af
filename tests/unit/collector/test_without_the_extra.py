"""What the receiver does without where the extra `collector` is not installed."""

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from pathlib import Path
sys.modules[{missing!r}] = None
from otel_agent_replay.imports.plain import plain_lander
import otel_agent_replay_collector.sealing
assert plain_lander(Path("lake"), "otlp") is None
"""


@pytest.mark.parametrize("missing", ["ptars", "numpy"])
def test_without_a_library_of_the_extra_plain_spans_go_one_by_one(missing):
    """The sealer is there all the same, without the quick way."""
    subprocess.run([sys.executable, "-c", _SCRIPT.format(missing=missing)], check=True, timeout=120)

"""The published contract says what the code does."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_attribute_and_column_is_in_the_contract() -> None:
    """proto/README.md holds the tables that the code renders now."""
    done = subprocess.run(
        [sys.executable, "proto/render.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_protocol_is_in_the_contract() -> None:
    """Each value of `agent_replay.protocol` stands in the table of protocols."""
    from otel_agent_replay.protocols import PROTOCOLS

    page = (ROOT / "proto" / "README.md").read_text(encoding="utf-8")
    assert [name for name in PROTOCOLS if f"`{name}`" not in page] == []


def test_every_setting_is_documented_in_the_readme_of_the_package() -> None:
    """Each option's environment name stands in the settings table of the README."""
    from otel_agent_replay.settings import PREFIX, Settings

    page = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [name for name in Settings.options() if f"`{PREFIX}{name.upper()}`" not in page]
    assert not missing

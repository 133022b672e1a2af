"""Makes the recording that the package carries: `python -m otel_agent_replay.demo.make_recording`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import otel_agent_replay as replay
from otel_agent_replay.demo import RECORDING, pocket_agent, server


def main() -> None:
    """Record the pocket agent once and put the sealed lake where the package carries it."""
    with tempfile.TemporaryDirectory() as folder, server.serving() as url:
        os.environ["POCKET_MODEL_URL"] = url
        os.chdir(folder)  # outside any repository: the recording tells nothing of the place it was made at
        replay.configure(lake=Path(folder), seal="off")
        print(pocket_agent.answer("Where is my order 17?"))
        replay.shutdown()
        from otel_agent_replay.export.sealer import seal

        seal(Path(folder))
        shutil.rmtree(RECORDING, ignore_errors=True)
        for table in ("spans", "payloads"):
            shutil.copytree(Path(folder) / table, RECORDING / table)


if __name__ == "__main__":
    main()

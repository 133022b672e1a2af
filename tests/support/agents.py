"""An agent's script written to a folder, recorded in a child process, sealed, and replayed in another.

The children start as `agent-replay record` and `agent-replay replay` start them, so what the tests see went through
journal, lake and tape. A scripted provider in the test's own process is the model server; a replay runs after it
has stopped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_agent_replay import bootstrap
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake, StoredRun
from otel_agent_replay.model import Kind, Node, Run
from otel_agent_replay.replay.enclosed import Enclosure
from otel_agent_replay.replay.launch import replay_command
from otel_agent_replay.replay.proving import Chance
from otel_agent_replay.replay.verdict import ReplayVerdict, VerdictStatus

ROOT = Path(bootstrap.__file__).parents[2]
SHIM = Path(bootstrap.__file__).parent
_OURS = ("AGENT_REPLAY_", "OTEL_", "OPENAI_", "ANTHROPIC_")
PATIENCE_S = 60.0


@dataclass
class Ended:
    """How a child process ended."""

    status: int
    stdout: str
    stderr: str


class Script:
    """A script, its lake and the environment that its children get (the test's own, without anything of ours)."""

    def __init__(self, folder: Path, source: str, *, name: str = "scenario.py", **environment: str) -> None:
        self.folder = folder
        self.path = folder / name
        self.path.write_text(textwrap.dedent(source))
        self.lake = folder / "lake"
        clean = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
        self.environment = {**clean, "PYTHONPATH": str(ROOT), **environment}

    @property
    def argv(self) -> list[str]:
        return [sys.executable, str(self.path)]

    def recording_environment(self, *, process_run: bool = False, **more: str) -> dict[str, str]:
        """Return the environment in which a Python process records itself into `lake`."""
        return {
            **self.environment,
            "AGENT_REPLAY_LAKE": str(self.lake),
            "AGENT_REPLAY_SEAL": "off",
            "AGENT_REPLAY_PROCESS_RUN": str(process_run).lower(),
            "PYTHONHASHSEED": "7",
            "PYTHONPATH": os.pathsep.join((str(SHIM), self.environment["PYTHONPATH"])),
            **more,
        }

    def start(self, *arguments: str, process_run: bool = False, **more: str) -> subprocess.Popen[str]:
        """Start the recorded script and return at once."""
        return subprocess.Popen(
            [*self.argv, *arguments],
            env=self.recording_environment(process_run=process_run, **more),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, status: int = 0, process_run: bool = False, **more: str) -> Ended:
        """Record the script to its end, without sealing."""
        ended = wait_for(self.start(*arguments, process_run=process_run, **more))
        assert ended.status == status, ended.stderr
        return ended

    def record(self, *arguments: str, status: int = 0, process_run: bool = False, **more: str) -> dict[str, StoredRun]:
        """Record the script to its end, seal, and return the new runs by agent (the last of each)."""
        before = {run.run_id for run in self.runs()}
        self.run(*arguments, status=status, process_run=process_run, **more)
        self.seal()
        return {one.agent: self.load(one) for one in self.runs() if one.run_id not in before}

    def seal(self) -> None:
        report = seal(self.lake)
        assert report.open_segments == 0

    def runs(self) -> list[Run]:
        """Return the recorded runs in the order they began, replays left out."""
        found = [summary.run for summary in Lake(self.lake).runs()]
        return [run for run in reversed(found) if not run.replay]

    def load(self, run: Run) -> StoredRun:
        return Lake(self.lake).load(run.run_id)

    def edit(self, old: str, new: str) -> None:
        text = self.path.read_text()
        assert old in text
        self.path.write_text(text.replace(old, new))

    def replay(
        self,
        recorded: StoredRun,
        *arguments: str,
        command: Sequence[str] | None = None,
        process_run: bool = False,
        volatile: Sequence[str] = (),
        chance: Chance | None = None,
        environment: Mapping[str, str] | None = None,
        **walls: Any,
    ) -> ReplayVerdict:
        """Replay a run by its command; `environment` is put over the script's own, `walls` are those of `Enclosure`."""
        return replay_command(
            recorded.run,
            [*self.argv, *arguments] if command is None else command,
            enclosure=self.enclosure(environment, **walls),
            volatile=volatile,
            process_run=process_run,
            chance=chance,
        )

    def enclosure(self, environment: Mapping[str, str] | None = None, **walls: Any) -> Enclosure:
        """Return the walls of a replay; `environment` is put over the script's own."""
        environment = {**self.environment, **(environment or {})}
        return Enclosure(self.lake, environment=environment, directory=self.folder, timeout_s=PATIENCE_S, **walls)

    def journal_bytes(self) -> bytes:
        """Return all that the journal holds now."""
        return b"".join(path.read_bytes() for path in sorted(self.lake.rglob("*.log")))


def wait_for(process: subprocess.Popen[str]) -> Ended:
    """Wait for a child; kill it when it takes too long."""
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        raise AssertionError(f"the child hung: {stderr}") from None
    return Ended(process.returncode, stdout, stderr)


def assert_same(verdict: ReplayVerdict) -> None:
    """Assert that the replay, and that of every other run of its process, was the same."""
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()
    assert verdict.exit_code == 0
    assert [one for one in verdict.others if one.status is not VerdictStatus.SAME] == [], verdict.to_json()
    assert verdict.never_asked == ()
    assert verdict.reads_never_made == 0, verdict.to_json()


def nodes_of(recorded: StoredRun, kind: Kind) -> list[Node]:
    """Return the run's nodes of one kind, in order."""
    return [node for node in recorded.nodes if node.kind is kind]


def value_of(recorded: StoredRun, digest: bytes) -> bytes:
    """Return the bytes behind a digest."""
    data = recorded.payload(digest)
    assert data is not None
    return data

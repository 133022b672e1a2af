"""Proving that a run replays, from the command line: the replays, the kept verdict, and what is printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from otel_agent_replay.cli.output import CANNOT_JUDGE, emit_json, remark
from otel_agent_replay.errors import AgentReplayError
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.label_file import write_labels
from otel_agent_replay.model import Label, RecordedRun
from otel_agent_replay.replay.enclosed import Enclosure
from otel_agent_replay.replay.launch import entry_command, in_process_run, replay_command
from otel_agent_replay.replay.proving import Chance, Proof, Replayability, prove
from otel_agent_replay.replay.verdict import ReplayVerdict
from otel_agent_replay.report.proof_lines import proof_lines
from otel_agent_replay.report.terminal import print_lines
from otel_agent_replay.version import VERSION

LABEL = "replayability"
"""Name of the label that holds a verdict; `LABEL.code` and `LABEL.replays` beside it say what it rests on."""

_EXIT_CODES = {Replayability.PROVEN: 0, Replayability.CANNOT_JUDGE: CANNOT_JUDGE}


def prove_and_keep(
    stored: Lake,
    run: str,
    *,
    entry: str | None,
    command: Sequence[str],
    times: int,
    enclosure: Enclosure,
    volatile: Sequence[str],
    as_json: bool,
) -> int:
    """Replay a run `times` times, keep the verdict as labels of it, print it, and return the exit code.

    `enclosure` and `volatile` are those of `replay_command`. Raises RunNotFound, ConfigurationError.
    """
    recorded = stored.load(stored.find(run))
    with TemporaryDirectory(prefix="agent-replay-") as folder:
        quiet = replace(enclosure, output=Path(folder) / "output")
        replay = replayer(stored, recorded, entry=entry, command=command, enclosure=quiet, volatile=volatile)
        proof = prove(recorded, _telling(replay), times=times)
    seal(stored.root)
    revision = _revision(stored, proof)
    time_ns = time.time_ns()
    write_labels(stored.root, _labels(recorded, proof, revision, time_ns))
    if as_json:
        emit_json(_document(recorded, proof, revision, time_ns))
    else:
        print_lines(proof_lines(recorded.run.run_id.hex(), proof, revision))
    return _EXIT_CODES.get(proof.verdict, 1)


def replayer(
    stored: Lake,
    recorded: RecordedRun,
    *,
    entry: str | None,
    command: Sequence[str],
    enclosure: Enclosure,
    volatile: Sequence[str],
) -> Callable[[Chance], ReplayVerdict]:
    """Return what replays a run once with a given chance, by its entry or by its command."""
    argv = entry_command(entry) if entry is not None else command
    process_run = entry is None and in_process_run(stored, recorded.run)
    return lambda chance: replay_command(
        recorded.run, argv, enclosure=enclosure, volatile=volatile, process_run=process_run, chance=chance
    )


def _telling(replay: Callable[[Chance], ReplayVerdict]) -> Callable[[Chance], ReplayVerdict]:
    number = 0

    def told(chance: Chance) -> ReplayVerdict:
        nonlocal number
        number += 1
        verdict = replay(chance)
        threads = f"threads by seed {chance.shuffle}" if chance.shuffle else "threads undisturbed"
        remark(f"replay {number}: hash seed {chance.hash_seed or 'as recorded'}, {threads}: {verdict.status}")
        return verdict

    return told


def _revision(stored: Lake, proof: Proof) -> str:
    """Return the revision of the code that replayed, as a replay's own run has it; "" where that is unknown."""
    if not proof.witness:
        return ""
    try:
        return stored.load(bytes.fromhex(proof.witness)).run.versions.code
    except AgentReplayError:
        return ""


def _labels(recorded: RecordedRun, proof: Proof, revision: str, time_ns: int) -> list[Label]:
    who = f"agent-replay {VERSION} verify --replay"
    facts: list[tuple[str, str | int, str]] = [
        (LABEL, proof.verdict.value, proof.reason),
        (f"{LABEL}.replays", len(proof.trials), ""),
    ]
    if revision:
        facts.append((f"{LABEL}.code", revision, ""))
    return [Label(recorded.run.run_id, who, time_ns, name, value, note) for name, value, note in facts]


def _document(recorded: RecordedRun, proof: Proof, revision: str, time_ns: int) -> dict[str, Any]:
    return {
        "schema": "agent-replay/replayability",
        "schema_version": 1,
        "run": recorded.run.run_id.hex(),
        "agent": recorded.run.agent,
        "verdict": proof.verdict.value,
        "reason": proof.reason,
        "code_revision": revision or None,
        "verified_ns": time_ns,
        "departure": None if proof.departure is None else asdict(proof.departure),
        "replays": [
            {
                "hash_seed": trial.chance.hash_seed or recorded.run.hash_seed,
                "shuffle": trial.chance.shuffle,
                "status": trial.verdict.status.value,
                "reason": trial.verdict.reason,
                "step": None if trial.verdict.departure is None else trial.verdict.departure.step,
                "replay_run": trial.verdict.replay_run_id or None,
            }
            for trial in proof.trials
        ],
    }

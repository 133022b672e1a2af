"""The work of a calibration: two live recordings, their comparison, and replays of the first until it is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from otel_agent_replay.cli.proving import replayer
from otel_agent_replay.cli.record import recording_environment
from otel_agent_replay.compare import compare
from otel_agent_replay.compare.nondeterminism import rules_for, varying_requests
from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import RecordedRun
from otel_agent_replay.redaction import redaction_at
from otel_agent_replay.replay.enclosed import Enclosure, wait_for
from otel_agent_replay.replay.proving import Chance
from otel_agent_replay.replay.settling import settle
from otel_agent_replay.replay.verdict import ReplayVerdict
from otel_agent_replay.report.calibration import Calibration

_HASH_SEEDS = ("1", "2")
_TAIL = 2_000  # characters of what a failed recording printed


def calibrated(
    argv: Sequence[str],
    *,
    entry: str | None,
    into: Path | None,
    known: Sequence[str],
    timeout_s: float | None,
    told: Callable[[str], None],
) -> list[Calibration]:
    """Record `argv` twice, live, and return what was found, one entry for each run it made.

    `told` hears one line for each thing done. Raises CannotJudge where nothing was recorded or both recordings do not
    have the same agents.
    """
    with TemporaryDirectory(prefix="agent-replay-") as name:
        folder = Path(name)
        lake = folder / "lake" if into is None else into
        first, second = (_recorded(argv, lake, seed, folder, timeout_s, told) for seed in _HASH_SEEDS)
        if [one.run.agent for one in first] != [one.run.agent for one in second]:
            agents = " and ".join(", ".join(one.run.agent for one in runs) for runs in (first, second))
            raise CannotJudge(f"both recordings have not the same agents in the same order: {agents}")
        return [
            _one(Lake(lake), a, b, argv, entry, folder, known, timeout_s, told)
            for a, b in zip(first, second, strict=True)
        ]


def _recorded(
    argv: Sequence[str], lake: Path, hash_seed: str, folder: Path, timeout_s: float | None, told: Callable[[str], None]
) -> list[RecordedRun]:
    """Record the command once and return its runs that have steps, in the order in which they began."""
    before = {summary.run.run_id for summary in Lake(lake).runs()} if lake.exists() else set()
    environment = {**recording_environment(None, lake, None), "PYTHONHASHSEED": hash_seed}
    output = folder / f"recording-{hash_seed}"
    told(f"recording {hash_seed} of {len(_HASH_SEEDS)}: live, hash seed {hash_seed}")
    status = wait_for(argv, environment, None, timeout_s, output=output)
    seal(lake)
    if status != 0:
        printed = output.read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()
        told(f"note: the command ended with {'no status in time' if status is None else f'status {status}'}: {printed}")
    stored = Lake(lake)
    fresh = [one for one in reversed(list(stored.runs())) if one.run.run_id not in before and one.step_count]
    if not fresh:
        raise CannotJudge("no run with a step was recorded: is it Python, and does an agent of it ask anything?")
    return [stored.load(one.run.run_id) for one in fresh]


def _one(
    stored: Lake,
    a: RecordedRun,
    b: RecordedRun,
    argv: Sequence[str],
    entry: str | None,
    folder: Path,
    known: Sequence[str],
    timeout_s: float | None,
    told: Callable[[str], None],
) -> Calibration:
    comparison = compare(a, b)
    redaction = redaction_at(stored.root)
    enclosure = Enclosure(stored.root, timeout_s=timeout_s, redaction=redaction, output=folder / "replays")

    def replay(chance: Chance, rules: Sequence[str]) -> ReplayVerdict:
        verdict = replayer(stored, a, entry=entry, command=argv, enclosure=enclosure, volatile=rules)(chance)
        told(f"replay of {a.run.agent} with {len(rules)} rules{_words(chance)}: {verdict.status}")
        return verdict

    settled = settle(a.run, replay, rules_for=rules_for, known=known)
    reads = Counter(f"{read.kind.value} {read.name}" for node in a.nodes for read in node.reads)
    return Calibration(comparison, varying_requests(a, b, comparison), settled, reads, known)


def _words(chance: Chance) -> str:
    seed = f", another hash seed ({chance.hash_seed})" if chance.hash_seed else ""
    return f"{seed}, threads disturbed" if chance.shuffle else seed

"""A case folder made of a recorded run: its lake, a skeleton of `case.yaml` to edit, the manifest.

Owns the order in which a folder is written. The recording is only read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_agent_replay.casebook.folder import write_manifest
from otel_agent_replay.casefile.document import CASE_FILE
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.gate import Case, CaseKind
from otel_agent_replay.gate.skeleton import skeleton
from otel_agent_replay.gate.suggesting import merged, suggest
from otel_agent_replay.gate.synthetic_run import SyntheticRuns
from otel_agent_replay.lake.catalog import StoredRun
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import RecordedRun


@dataclass(frozen=True, slots=True)
class AddedCase:
    """What was written. `replaced` counts the values made synthetic by kind; `left` are those of the agent's code."""

    case: Case
    replaced: dict[str, int]
    left: Sequence[str]


def add_case(
    recorded: StoredRun,
    into: Path,
    *,
    kind: CaseKind = CaseKind.BAD,
    from_step: int = 0,
    beside: Sequence[StoredRun] = (),
    good: Sequence[StoredRun] = (),
    synthetic: SyntheticRuns | None = None,
) -> AddedCase:
    """Write the case of a run into the folder `into`.

    `beside` are runs that the same execution made (agents called by its own code), `good` runs that the case must
    accept; `synthetic` replaces values in all of them alike. Raises ConfigurationError for a folder that holds a case,
    or a part of one, CannotJudge for a value that cannot be replaced everywhere.
    """
    if (into / CASE_FILE).exists():
        raise ConfigurationError(f"{into / CASE_FILE} is there already: say another folder with --into or --name")
    if (into / "lake").exists():
        raise ConfigurationError(f"{into} holds a case that was not written whole: remove it, or say another folder")
    steps = {node.step for node in recorded.nodes if node.step is not None}
    if from_step and from_step not in steps:
        told = f"steps 1 to {max(steps)}" if steps else "no steps"
        raise ConfigurationError(f"run {recorded.run.run_id.hex()} has no step {from_step}; it has {told}")
    whole = [recorded, *beside, *good]
    parts: list[RecordedRun] = [part for run in whole for part in _stored(run)]
    shown: RecordedRun = recorded
    shown_good: list[RecordedRun] = list(good)
    if synthetic is not None:
        synthetic.learn(parts)
        parts = [synthetic.replaced(part) for part in parts]
        shown = synthetic.replaced(recorded)
        shown_good = [synthetic.replaced(one) for one in good]
    into.mkdir(parents=True, exist_ok=True)
    write_runs(into / "lake", list({(one.run.run_id, one.run.attempt): one for one in parts}.values()), segments=())
    more = merged(suggest(shown, shown_good)) if kind is CaseKind.BAD else {}
    text = skeleton(shown, kind, name=str(into), from_step=from_step, good=shown_good, more=more)
    (into / CASE_FILE).write_text(text, encoding="utf-8")
    case = Case.load(into)
    counts = {} if synthetic is None else synthetic.counts()
    write_manifest(case, origin=recorded.manifest_digest.hex(), redaction=counts)
    return AddedCase(case, counts, [] if synthetic is None else synthetic.left())


def _stored(run: StoredRun) -> list[RecordedRun]:
    """Return what a lake must hold so that the run comes out of it: its attempts, and a fork's origin."""
    own: list[RecordedRun] = list(run.stored)
    return own if run.origin is None else [*_stored(run.origin), *own]

"""Accepting a later run of a case: gates replay it instead of the recorded one, which stays as it is.

Owns what a folder gains by it: the run in its lake, the line `baseline:` in case.yaml, the manifest sealed anew.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from otel_agent_replay.casebook.folder import read_manifest, write_manifest
from otel_agent_replay.casefile.document import CASE_FILE
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.gate import Case
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import RecordedRun

_BASELINE = re.compile(r"^baseline:.*$", re.MULTILINE)
_RUN = re.compile(r"^run:.*$", re.MULTILINE)


def acceptance(folder: Path, run_id: str) -> tuple[str, list[str]]:
    """Return the text of case.yaml once run `run_id` (hex) is accepted, and the diff to it. Nothing is written.

    Raises ConfigurationError for a case.yaml that is not in block style.
    """
    path = folder / CASE_FILE
    before = path.read_text(encoding="utf-8")
    line = f"baseline: {run_id}"
    after, count = _BASELINE.subn(line, before, count=1)
    if not count:
        after, count = _RUN.subn(lambda match: f"{match.group()}\n{line}", before, count=1)
    if not count:
        raise ConfigurationError(f"{path} has no line `run:`: add `{line}` by hand, then `agent-replay case seal`")
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), f"{path} (accepted)", lineterm="")
    return after, list(diff)


def accept(folder: Path, came: RecordedRun) -> Case:
    """Make `came` the run that gates replay for the case in `folder`; return the case as it is now.

    The case must be sealed and whole. Raises ConfigurationError.
    """
    sealed = read_manifest(folder)
    if sealed is None:
        raise ConfigurationError(f"{folder} is not sealed: `agent-replay case seal {folder}` first")
    text, _ = acceptance(folder, came.run.run_id.hex())
    write_runs(folder / "lake", [came], segments=())
    (folder / CASE_FILE).write_text(text, encoding="utf-8")
    case = Case.load(folder)
    write_manifest(case, origin=sealed.origin, redaction=sealed.redaction)
    return case

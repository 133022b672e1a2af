"""Whether this process may go on with a recorded run: what it is, its code, and its input."""

from __future__ import annotations

import json
from collections.abc import Mapping

from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.model import Payload, RecordedRun, RunStatus, Versions
from otel_agent_replay.payload.difference import differences

_MOST_SHOWN = 5  # differences of the input that are told
_COMPARED = ("agent", "prompt", "policy", "index", "code", "source")


def must_be_resumable(recorded: RecordedRun) -> None:
    """Raise CannotJudge for a run that is not to be finished: one that has ended well, or is no work of production.

    A fork, resumed, would be let out of what holds a fork back: its writes would happen.
    """
    run = recorded.run
    if run.replay:
        raise CannotJudge(
            f"run {run.run_id.hex()} is a replay ({run.mode}), no work of production: it is not resumed. Fork run "
            f"{run.origin_run_id.hex()} again instead"
        )
    if run.status is RunStatus.OK:
        raise CannotJudge(f"run {run.run_id.hex()} has finished: there is nothing to resume. Fork it instead")


def fingerprint_differences(recorded: Versions, now: Mapping[str, str]) -> list[str]:
    """Return where the code or configuration differs from the recorded one, one line each."""
    return [
        f"{name} was {was!r}, now {now.get(name, '')!r}"
        for name in _COMPARED
        if (was := getattr(recorded, name)) and was != now.get(name, "")
    ]


def has_input(recorded: RecordedRun, given: Payload | None) -> bool:
    """Whether a run began with this input, as far as that is known."""
    known = recorded.input
    return known is None or given is None or known.digest == given.digest


def input_differences(recorded: RecordedRun, given: Payload | None) -> list[str]:
    """Return where an input differs from the recorded one, one line each."""
    known = recorded.input
    if known is None or given is None or known.digest == given.digest:
        return []
    before = recorded.bytes_of(known)
    if before is None or given.data is None:
        return ["the input is another one"]
    found = differences(json.loads(before), json.loads(given.data), limit=_MOST_SHOWN)
    return [f"input: {one}" for one in found] or ["the input is another one"]

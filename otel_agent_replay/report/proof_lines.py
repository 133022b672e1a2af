"""Whether a run is proven to replay, on the terminal."""

from __future__ import annotations

from rich.text import Text

from otel_agent_replay.replay.proving import Proof, Replayability
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, line

_DIFFERENCES = 5


def proof_lines(run_id: str, proof: Proof, code_revision: str) -> list[Text]:
    """Return the verdict with its reason, and where the replay departed."""
    word = proof.verdict.value
    style = GOOD if proof.verdict is Replayability.PROVEN else BAD
    lines = [line((f"{word[0].upper()}{word[1:]}: ", style), proof.reason)]
    departure = proof.departure
    if departure is not None:
        if departure.path:
            lines.append(line((f"  at {'/'.join(departure.path)}", QUIET)))
        lines += [line(f"  expected: {departure.expected}"), line(f"  came:     {departure.came}")]
        lines += [line(f"  asked at: {departure.location}")] if departure.location else []
        lines += [line(f"  differs: {one}") for one in departure.differences[:_DIFFERENCES]]
    by = f" by code {code_revision}" if code_revision else ""
    lines.append(line((f"  kept for run {run_id} in the view replayability{by}", QUIET)))
    return lines

"""A calibration on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from otel_agent_replay.compare.nondeterminism import Varying
from otel_agent_replay.payload.difference import MISSING
from otel_agent_replay.replay.settling import Origin
from otel_agent_replay.report.calibration import Calibration
from otel_agent_replay.report.run_document import plain
from otel_agent_replay.report.safe_text import shortened, value_text
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_SHOWN = 30
_ADVICE = {
    Origin.NOT_ON_TAPE: "declare what reads it as a tool (`@replay.tool`), and it is on the next tape",
    Origin.HASH_SEED: "sort it where the request is made",
    Origin.THREADS: "collect the results in the order of the requests",
}


def calibration_lines(results: Sequence[Calibration]) -> list[Text]:
    """Return what varied, what no tape gives back with file and line, and the rules to set."""
    return [text for result in results for text in _lines(result)]


def _lines(result: Calibration) -> Iterator[Text]:
    run, settled = result.comparison.a, result.settled
    yield line((f"{run.agent}: ", STRONG), f"recorded twice, replayed {settled.replays} times")
    if settled.reason:
        yield line((f"  not settled: {settled.reason}", BAD))
    elif not settled.found:
        yield line(("  every request comes back from the tape, with any hash seed and scheduling that was tried", GOOD))
    for one in settled.found:
        yield line((f"  {one.origin}: ", BAD), f"step {one.step}, {shortened(one.text, 300)}")
        at = f"asked at {one.location}; " if one.location else ""
        yield line((f"    {at}{_ADVICE[one.origin]}", QUIET))
    if result.varying:
        yield line("  differs between the two recordings:")
    for item in result.varying[:_SHOWN]:
        what = f"step {item.step} {item.kind} {item.name} {item.path or '(whole)'}"
        yield line(f"    {what}: {item.looks}: {_fate(result, item)}")
        yield line((f"      {value_text(item.before, 100)} -> {value_text(item.after, 100)}", QUIET))
    if len(result.varying) > _SHOWN:
        yield line(f"    and {len(result.varying) - _SHOWN} more places; --json lists them")
    if result.reads:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(result.reads.items())[:_SHOWN])
        yield line((f"  on the tape, and given back: {counts}", QUIET))
    if result.proposed:
        yield line(("  rules under which it replays" if not settled.reason else "  rules so far", STRONG))
        yield line("    [tool.otel-agent-replay]")
        yield line(f"    volatile = [{', '.join(_quoted(rule) for rule in settled.rules)}]")
        yield line(("    a rule hides all that changes at its place: prefer the advice above", QUIET))


def _quoted(rule: str) -> str:
    return '"' + rule.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _fate(result: Calibration, item: Varying) -> str:
    lost = result.unrecorded(item)
    if lost is not None:
        return f"{lost.origin}, no replay gives it back"
    if item.follows:
        return "follows from an answer that differed"
    return "not settled" if result.settled.reason else "comes back from the tape"


def calibration_document(results: Sequence[Calibration]) -> dict[str, Any]:
    """Return the calibrations as JSON, `schema` "agent-replay/calibration"."""
    return {
        "schema": "agent-replay/calibration",
        "schema_version": 1,
        "rules": list(dict.fromkeys(rule for result in results for rule in result.settled.rules)),
        "agents": [_facts(result) for result in results],
    }


def _facts(result: Calibration) -> dict[str, Any]:
    settled = result.settled
    return {
        "agent": result.comparison.a.agent,
        "runs": [result.comparison.a.run_id.hex(), result.comparison.b.run_id.hex()],
        "settled": not settled.reason,
        "reason": settled.reason or None,
        "replays": settled.replays,
        "unrecorded": [{**asdict(one), "origin": one.origin.value} for one in settled.found],
        "varying": [
            {
                "step": item.step,
                "kind": item.kind.value,
                "name": item.name,
                "path": item.path,
                "before": None if item.before is MISSING else plain(item.before),
                "after": None if item.after is MISSING else plain(item.after),
                "looks": item.looks.value,
                "fate": _fate(result, item),
            }
            for item in result.varying
        ],
        "reads": dict(result.reads),
        "rules": list(settled.rules),
        "proposed": result.proposed,
    }

"""What a re-run came to, beside the run that was observed: who answered, what it used, where it parted.

Pure: reports and recorded runs in, plain data out. Two runs are alike when both ended well and did the same: the same
tools, retrievals, requests and approvals with the same arguments, in whatever order they came. What a model wrote
between them, or computed with pure tools, does not make them differ; `agent-replay diff` shows it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.model import AnswerSource, Kind, Node, RecordedRun, RunStatus, SideEffect
from otel_agent_replay.replay.rerun.plan import BASELINE, OBSERVED
from otel_agent_replay.replay.rerun.report import RerunReport, RerunStatus

_ACTS = frozenset({Kind.TOOL, Kind.RETRIEVAL, Kind.HTTP, Kind.APPROVAL})
_ASKED_OF_THE_TAPE = frozenset({Kind.TOOL, Kind.RETRIEVAL, Kind.HTTP, Kind.APPROVAL, Kind.INPUT})
_LONGEST_SHOWN = 120
_OBSERVED_STATUS = {RunStatus.OK: RerunStatus.FINISHED, RunStatus.ERROR: RerunStatus.FAILED}


@dataclass(frozen=True, slots=True)
class Use:
    """What a run used. None where no model call tells. Times in nanoseconds, money in US dollars."""

    steps: int = 0
    model_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    duration_ns: int = 0


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a re-run first did something else: the step on record and its own (None: none), and what each did."""

    observed_step: int | None
    step: int | None
    observed: str
    came: str


@dataclass(frozen=True, slots=True)
class RerunResult:
    """One re-run (or, in lane `observed`, the run itself). `answers` counts by source what is asked of recordings."""

    lane: str
    repeat: int
    report: RerunReport
    use: Use = field(default_factory=Use)
    answers: tuple[tuple[str, int], ...] = ()
    parted: Parting | None = None
    same_output: bool | None = None
    unfrozen: tuple[str, ...] = ()

    @property
    def alike(self) -> bool:
        """Whether it finished and did what the observed run did."""
        return self.report.status is RerunStatus.FINISHED and self.parted is None

    @property
    def off_tape(self) -> float | None:
        """Share (0 to 1) of what is asked of recordings that this run's own did not answer; None for nothing asked."""
        counts = dict(self.answers)
        total = sum(counts.values())
        return None if not total else 1 - counts.get(AnswerSource.TAPE.value, 0) / total

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON holds."""
        return {
            "run": self.report.origin_run_id,
            "lane": self.lane,
            "repeat": self.repeat,
            "status": self.report.status.value,
            "alike": self.alike,
            "off_tape": self.off_tape,
            "answers": dict(self.answers),
            "parted": None if self.parted is None else asdict(self.parted),
            "same_output": self.same_output,
            "use": asdict(self.use),
            "unfrozen": list(self.unfrozen),
            "report": asdict(self.report),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RerunResult:
        """Return what `to_json` gave. Raises what a wrong value raises (ValueError, KeyError, TypeError)."""
        parted = value["parted"]
        return cls(
            value["lane"],
            value["repeat"],
            RerunReport.from_json(json.dumps(value["report"])),
            Use(**value["use"]),
            tuple(value["answers"].items()),
            None if parted is None else Parting(**parted),
            value["same_output"],
            tuple(value["unfrozen"]),
        )


def observed(recorded: RecordedRun) -> RerunResult:
    """Return the lane of the run itself."""
    run = recorded.run
    status = _OBSERVED_STATUS.get(run.status, RerunStatus.STOPPED)
    report = RerunReport(status, run.run_id.hex(), run.run_id.hex(), run.agent)
    return RerunResult(OBSERVED, 1, report, use_of(recorded))


def result_of(
    report: RerunReport, lane: str, repeat: int, recorded: RecordedRun, rerun: RecordedRun | None
) -> RerunResult:
    """Return what a re-run came to; `rerun` is its own recording, None when none began."""
    if rerun is None:
        return RerunResult(lane, repeat, report)
    use = use_of(rerun)
    if report.spent_usd:  # by the price that was given, where one was
        use = replace(use, cost_usd=report.spent_usd)
    asked = (node for node in _top(rerun, _ASKED_OF_THE_TAPE) if node.side_effect is not SideEffect.NONE)
    counts = Counter(node.source.value for node in asked)
    if report.code == "refused":
        counts[AnswerSource.REFUSED.value] += 1
    return RerunResult(
        lane,
        repeat,
        report,
        use,
        tuple(sorted(counts.items())),
        _parted(recorded, rerun, report),
        _output(recorded) == _output(rerun),
        (*report.unfrozen, *_moved(recorded, rerun, lane)),
    )


def use_of(recorded: RecordedRun) -> Use:
    """Return what a run used, over its model calls that were made."""
    calls = [
        one.span.attributes
        for one in recorded.spans
        if one.node is not None and one.node.kind is Kind.MODEL and one.node.source is AnswerSource.LIVE
    ]
    run = recorded.run
    return Use(
        sum(1 for node in recorded.nodes if node.step is not None),
        len(calls),
        _sum(calls, semconv.USAGE_INPUT_TOKENS, int),
        _sum(calls, semconv.USAGE_OUTPUT_TOKENS, int),
        _sum(calls, semconv.COST_USD, float),
        max(0, run.ended_ns - run.started_ns),
    )


def _sum(calls: Sequence[Any], key: str, kind: type) -> Any:
    known = [call[key] for call in calls if isinstance(call.get(key), (int, kind))]
    return sum(known) if known else None


def _top(recorded: RecordedRun, kinds: frozenset[Kind]) -> list[Node]:
    """Return the crossings of these kinds that did not happen inside another one, in order of their steps."""
    crossings = {node.path for node in recorded.nodes if node.kind.is_crossing}
    found = [
        node
        for node in recorded.nodes
        if node.kind in kinds and not any(node.path[:length] in crossings for length in range(1, len(node.path)))
    ]
    return sorted(found, key=lambda node: node.step or 0)


def _parted(recorded: RecordedRun, rerun: RecordedRun, report: RerunReport) -> Parting | None:
    before, now = _acts(recorded), _acts(rerun)
    if Counter(map(_act, before)) == Counter(map(_act, now)):
        if _OBSERVED_STATUS.get(recorded.run.status) is report.status:
            return None
        came = f"{report.refused[0]}: refused" if report.refused else f"it is {report.status}"
        return Parting(None, None, f"it ended {recorded.run.status}", came)
    place = next(
        (place for place, (one, other) in enumerate(zip(before, now, strict=False)) if _act(one) != _act(other)),
        min(len(before), len(now)),
    )
    one = before[place] if place < len(before) else None
    other = now[place] if place < len(now) else None
    came = _shown(rerun, other)
    if other is None and report.refused:
        came = f"{report.refused[0]}: refused"
    return Parting(
        None if one is None else one.step, None if other is None else other.step, _shown(recorded, one), came
    )


def _acts(recorded: RecordedRun) -> list[Node]:
    return [node for node in _top(recorded, _ACTS) if node.side_effect is not SideEffect.NONE]


def _act(node: Node) -> tuple[Kind, str, bytes]:
    return node.kind, node.name, b"" if node.call is None else node.call.asked_digest


def _shown(recorded: RecordedRun, node: Node | None) -> str:
    """Return what was done in one short line."""
    if node is None:
        return "nothing more"
    request = None if node.call is None else node.call.request
    data = None if request is None else recorded.bytes_of(request)
    text = "" if data is None else data.decode("utf-8", "replace")
    return f"{node.kind} {node.name} {text}".strip()[:_LONGEST_SHOWN]


def _output(recorded: RecordedRun) -> bytes | None:
    outcome = recorded.outcome
    return None if outcome is None or outcome.result is None else outcome.result.digest


def _moved(recorded: RecordedRun, rerun: RecordedRun, lane: str) -> list[str]:
    """Return what of models and packages was not as it was then."""
    said = []
    then, now = _answering(recorded), _answering(rerun)
    if lane == BASELINE and now and then and now != then:
        said.append(f"the model that answers is {', '.join(sorted(now))}, was {', '.join(sorted(then))}")
    was, is_now = recorded.run.versions.packages, rerun.run.versions.packages
    both = sorted(was.keys() & is_now.keys())
    changed = [f"{name} {was[name]} -> {is_now[name]}" for name in both if was[name] != is_now[name]]
    if changed:
        said.append(f"packages: {', '.join(changed)}")
    return said


def _answering(recorded: RecordedRun) -> set[str]:
    return {
        str(one.span.attributes[semconv.RESPONSE_MODEL])
        for one in recorded.spans
        if one.node is not None and semconv.RESPONSE_MODEL in one.span.attributes
    }

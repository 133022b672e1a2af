"""A recorded run -> the sections of a brief: what failed, how it ended, what was asked and answered there."""

from __future__ import annotations

from collections.abc import Iterator

from otel_agent_replay.compare import compare
from otel_agent_replay.model import Node, OutcomeStatus, Payload, RecordedRun
from otel_agent_replay.replay.verdict import losses_told
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.report.brief import Quote, Section, number_word, quoted
from otel_agent_replay.report.brief_reports import comparison_sections
from otel_agent_replay.report.json_report import comparison_json

_FAILED = 5
_STEPS = 40


def run_sections(recorded: RecordedRun, origin: RecordedRun | None = None) -> list[Section]:
    """Return the sections on a run; where `origin`, the run that it repeats or leaves, is given, they are compared."""
    return list(_sections(recorded, origin))


def _sections(recorded: RecordedRun, origin: RecordedRun | None) -> Iterator[Section]:
    run = recorded.run
    word = run.run_id.hex()
    nodes = [node for node in recorded.nodes if node.step is not None]
    failed = [node for node in nodes if _is_failed(node)]
    root = None if recorded.root is None else recorded.root.node
    yield Section(
        "The run",
        [f"Run {word} has {counted(len(nodes), 'step')}, of which {len(failed)} failed or never ended."],
        [
            quoted("Agent and status", f"{run.agent}: {run.status.value} ({run.mode})"),
            *_failure(root),
            *([quoted("Started as", run.entry)] if run.entry else []),
        ],
    )
    if origin is not None:
        yield from comparison_sections(comparison_json(compare(origin, recorded)))
    for node in failed[:_FAILED]:
        yield Section(
            f"Failing step {number_word(node.step)}",
            quotes=[quoted("Step", "/".join(node.path)), *_failure(node), *_exchange(recorded, node)],
            commands=[f"agent-replay show {word} --step {number_word(node.step)}"],
        )
    if recorded.losses:
        yield Section("What the recording lacks", quotes=[Quote("Lost", "\n".join(losses_told(recorded.losses)))])
    if root is not None:
        yield Section("Input and outcome", quotes=_exchange(recorded, root))
    if nodes and not failed:
        last = nodes[-1]
        yield Section(f"The last step, {number_word(last.step)}", quotes=_exchange(recorded, last))
    yield Section(
        "Reproduce",
        commands=[
            f"agent-replay show {word}",
            f"agent-replay replay {word} --entry PKG.MOD:FUNC",
            f"agent-replay verify {word} --replay --entry PKG.MOD:FUNC",
        ],
    )
    yield Section("Steps", quotes=[Quote("The last steps, in order", "\n".join(map(_line, nodes[-_STEPS:])))])


def _is_failed(node: Node) -> bool:
    return node.outcome is not None and node.outcome.status is not OutcomeStatus.OK


def _line(node: Node) -> str:
    status = "no outcome" if node.outcome is None else node.outcome.status.value
    return f"{node.step} {node.kind.value} {node.name} ({node.side_effect.value}): {status}"


def _failure(node: Node | None) -> list[Quote]:
    if node is None or node.outcome is None or node.outcome.failure is None:
        return []
    return [quoted("Error", f"{node.outcome.failure.type}: {node.outcome.failure.message}")]


def _exchange(recorded: RecordedRun, node: Node) -> list[Quote]:
    found = []
    if node.call is not None:
        found.append(Quote("Asked", _shown(recorded, node.call.request)))
    if node.outcome is not None and node.outcome.result is not None:
        found.append(Quote("Answered", _shown(recorded, node.outcome.result)))
    return found


def _shown(recorded: RecordedRun, payload: Payload) -> str:
    data = recorded.bytes_of(payload)
    if data is None:
        return f"(the content was not kept; sha256 {payload.digest.hex()})"
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return f"({len(data)} bytes that are no text)"

"""One run on the terminal: its tree of steps, and one step in full."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from otel_agent_replay import semconv
from otel_agent_replay.compare.tree import TreeNode, build_tree
from otel_agent_replay.model import (
    AnswerSource,
    Kind,
    LossReason,
    Node,
    OutcomeStatus,
    Payload,
    RecordedRun,
    RecordedSpan,
    RunStatus,
    allowed_words,
)
from otel_agent_replay.payload.canonical import is_json
from otel_agent_replay.report import amounts
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.report.kinship import attempt_words, fork_words
from otel_agent_replay.report.run_document import node_of_step
from otel_agent_replay.report.safe_text import visible
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line


def run_lines(recorded: RecordedRun, limit: int = 0) -> list[Text]:
    """Return the run as a tree, one line a span, at most `limit` of them (0: all)."""
    tree = build_tree(recorded)
    lines = [_head(recorded)]
    width = max((len(str(node.node.step)) for node in tree.nodes if node.node and node.node.step), default=1)
    shown = tree.nodes[1 : limit + 1] if limit else tree.nodes[1:]
    lines += [_row(node, width, recorded.run.run_id) for node in shown]
    if len(shown) < len(tree.nodes) - 1:
        more = len(tree.nodes) - 1 - len(shown)
        lines.append(line((f"... and {more:,} more spans: --limit 0 shows all", QUIET)))
    lines += _superseded(recorded)
    allowed = allowed_words(recorded)
    if allowed:
        lines.insert(1, line((allowed, QUIET)))
    odd, lost = odd_and_lost(recorded)
    if odd:
        lines.append(line((f"{odd} things are odd in what came in: show --coverage", BAD)))
    if lost:
        lines.append(line((f"{lost} things were lost: show --coverage", BAD)))
    return lines


def odd_and_lost(recorded: RecordedRun) -> tuple[int, int]:
    """Return how many things came so that they contradict themselves, and how many are not there."""
    odd = sum(loss.count for loss in recorded.losses if loss.reason is LossReason.DAMAGED)
    return odd, sum(loss.count for loss in recorded.losses) - odd


def _head(recorded: RecordedRun) -> Text:
    run = recorded.run
    style = {RunStatus.OK: GOOD}.get(run.status, BAD)
    steps = sum(1 for node in recorded.nodes if node.step is not None)
    parts: list[str | tuple[str, str]] = [
        (run.agent or "spans without an agent", STRONG),
        "  ",
        (run.status.value, style),
        f"  {counted(steps, 'step')}",
    ]
    if run.ended_ns:
        parts.append(f"  {amounts.duration(run.ended_ns - run.started_ns)}")
    parts.append((f"  run {run.run_id.hex()}", QUIET))
    parts += [f"  {words}" for words in (attempt_words(recorded), fork_words(run)) if words]
    if run.replay and not run.is_fork:
        parts.append(f"  {run.mode} replay of {run.origin_run_id.hex()}")
    return line(*parts)


def _superseded(recorded: RecordedRun) -> list[Text]:
    """Return the calls of earlier attempts that a later one made again."""
    if not recorded.superseded:
        return []
    lines = [line(("made again by a later attempt:", QUIET))]
    for item in recorded.superseded:
        node = item.node
        if node is not None:
            begun = [attempt.number for attempt in recorded.attempts if attempt.started_ns <= item.span.start_ns]
            outcome = "pending" if node.outcome is None else node.outcome.status.value
            step = "" if node.step is None else f"step {node.step} "
            attempt = f", attempt {begun[-1]}" if begun else ""
            lines.append(line((f"  {step}{node.kind} {node.name}  {outcome}{attempt}", QUIET)))
    return lines


def _row(item: TreeNode, width: int, run_id: bytes) -> Text:
    recorded = item.recorded
    if recorded is None:
        raise AssertionError("only the root may have no span")
    node, span = recorded.node, recorded.span
    indent = "  " * item.depth
    took = amounts.duration(span.end_ns - span.start_ns) if span.end_ns else _without_end(node)
    if node is None:
        return line(" " * width, indent, (f"span {span.name}", QUIET), (f"  {took}", QUIET))
    step = "" if node.step is None else str(node.step)
    parts: list[str | tuple[str, str]] = [step.rjust(width), indent, (f"{node.kind} {node.name}", STRONG), f"  {took}"]
    parts += [f"  {fact}" for fact in _facts(recorded, node)]
    if node.run_id != run_id:
        parts.append(("  shared with its origin", QUIET))
    if node.source is not AnswerSource.LIVE:
        parts.append((f"  from {node.source}", QUIET))
    outcome = node.outcome
    if outcome is not None and outcome.status is not OutcomeStatus.OK:
        failure = "" if outcome.failure is None else f" {outcome.failure.type}: {outcome.failure.message}"
        parts.append((f"  {outcome.status}{failure}", BAD))
    if (node.call and not node.call.round_trips) or (outcome and not outcome.round_trips):
        parts.append(("  not kept whole", BAD))
    return line(*parts)


def _without_end(node: Node | None) -> str:
    """Return what is said in place of a duration: a step of an imported run may have ended, nobody knows when."""
    ended = node is not None and node.end_sequence > 0
    return "no times" if ended else "never ended"


def _facts(recorded: RecordedSpan, node: Node) -> Iterator[str]:
    attributes = recorded.span.attributes
    if node.kind is Kind.MODEL and semconv.REQUEST_MODEL in attributes:
        yield str(attributes[semconv.REQUEST_MODEL])
    read, written = attributes.get(semconv.USAGE_INPUT_TOKENS), attributes.get(semconv.USAGE_OUTPUT_TOKENS)
    if isinstance(read, (int, float)) and isinstance(written, (int, float)):
        yield f"{amounts.count(read)} -> {amounts.count(written)} tokens"
    cost = attributes.get(semconv.COST_USD)
    if isinstance(cost, (int, float)):
        yield amounts.money(cost)
    reasons = attributes.get(semconv.RESPONSE_FINISH_REASONS)
    if isinstance(reasons, (list, tuple)) and reasons:
        yield ", ".join(map(str, reasons))
    if node.outcome is not None and node.outcome.head is not None and node.outcome.head.status != 200:
        yield f"HTTP {node.outcome.head.status}"
    if node.call is not None and node.side_effect.value in {"write", "external"}:
        yield f"side effect {node.side_effect}"
    if node.reads:
        yield counted(len(node.reads), "read")


def step_lines(recorded: RecordedRun, step: int) -> list[Text]:
    """Return all that is known of one step: call, answer, reads. Bodies are shown whole.

    Raises CannotJudge when the run has no such step.
    """
    node = node_of_step(recorded, step)
    lines = [line((f"step {node.step} · {node.kind} {node.name}", STRONG)), line((f"at {'/'.join(node.path)}", QUIET))]
    call, outcome = node.call, node.outcome
    if call is not None:
        is_state = node.kind is Kind.CHECKPOINT
        lines.append(line(("state" if is_state else f"request  side effect {call.side_effect}", STRONG)))
        if call.head is not None:
            lines.append(line(f"  {call.head.method} {call.head.url}"))
            lines += [line((f"  {name}: {value}", QUIET)) for name, value in call.head.headers]
        lines += _body(recorded, call.request)
        lines += [line((f"  note: {note}", BAD)) for note in call.notes]
    if outcome is not None and node.kind is not Kind.CHECKPOINT:
        lines.append(line((f"answer  {outcome.status}, from {node.source}", STRONG)))
        if outcome.head is not None:
            lines.append(line(f"  HTTP {outcome.head.status} {outcome.head.reason}, {len(outcome.chunks)} chunks"))
            lines += [line((f"  {name}: {value}", QUIET)) for name, value in outcome.head.headers]
        if outcome.closed_early:
            lines.append(line("  the reader left before the end: the body is a beginning"))
        if outcome.failure is not None:
            lines.append(line((f"  {outcome.failure.type}: {outcome.failure.message}", BAD)))
        if outcome.result is not None:
            lines += _body(recorded, outcome.result)
        lines += [line((f"  note: {note}", BAD)) for note in outcome.notes]
    if node.reads:
        lines.append(line((f"reads  {len(node.reads)}", STRONG)))
        lines += [
            line(f"  {read.kind} {read.name} = {'masked' if read.masked else repr(read.value)}") for read in node.reads
        ]
    return lines


def _body(recorded: RecordedRun, payload: Payload) -> list[Text]:
    facts = line((f"  sha256 {payload.digest.hex()}, {payload.size:,} bytes, {payload.media_type}", QUIET))
    data = recorded.bytes_of(payload)
    if data is None:
        return [facts, line(("  the content was not kept, its digest only", BAD))]
    if not data:
        return [facts]
    return [facts, *(line(f"  {text}") for text in body_text(data, payload.media_type).split("\n"))]


def body_text(data: bytes, media_type: str) -> str:
    """Return a body for reading: JSON indented, other text as it is, bytes as hexadecimal; nothing left out."""
    if is_json(media_type):
        try:
            content: Any = json.loads(data)
            return visible(json.dumps(content, indent=2, ensure_ascii=False), keep_lines=True)
        except (ValueError, RecursionError):
            pass  # malformed JSON is shown as text
    try:
        return visible(data.decode("utf-8"), keep_lines=True)
    except UnicodeDecodeError:
        return data.hex(" ", 4)

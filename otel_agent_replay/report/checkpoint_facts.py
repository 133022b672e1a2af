"""What it takes to be back at a checkpoint, for eyes and for scripts: one row of the view `checkpoints`.

The view is the one place that derives these facts; this asks it for one checkpoint and says them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from otel_agent_replay.lake.layout import Partition
from otel_agent_replay.model import Kind, RecordedRun, run_started_ms
from otel_agent_replay.report import amounts
from otel_agent_replay.report.run_document import node_of_step
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_JSON = ("plan", "scratchpad", "variables", "budget", "tool_arguments")
_ELSEWHERE = {"run_id", "attempt", "step", "name", "path", "started_at", "state", "agent", "service", "date", "hour"}
_SHOWN = 160  # characters of a message or document


def checkpoint_facts(lake: Path, recorded: RecordedRun, step: int) -> dict[str, Any] | None:
    """Return the facts of a checkpoint by the view's column names; None for another step.

    What the step itself says (its state, path and time) is left out. Raises CannotJudge when the run has no such step.
    """
    node = node_of_step(recorded, step)
    if node.kind is not Kind.CHECKPOINT:
        return None
    span = next(item.span for item in recorded.spans if item.node is node)
    from otel_agent_replay.lake.views import connect

    partition = Partition.of_ms(run_started_ms(node.run_id))
    with connect(lake) as sql:
        asked = sql.execute(
            "SELECT * FROM checkpoints WHERE run_id = ? AND span_id = ? AND date = ?::DATE AND hour = ?",
            [node.run_id.hex(), span.span_id.hex(), partition.date, int(partition.hour)],
        )
        names = [column[0] for column in asked.description or ()]
        row = asked.fetchone()
    if row is None:
        return None
    facts = {name: value for name, value in zip(names, row, strict=True) if name not in _ELSEWHERE}
    return {name: _loaded(value) if name in _JSON else value for name, value in facts.items()}


def _loaded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def checkpoint_lines(facts: Mapping[str, Any]) -> Iterator[Text]:
    """Yield the facts as lines: may one go on, with what, what was asked, found, begun and done before."""
    if facts["resumable"]:
        yield line(("resumable", GOOD))
    else:
        yield line(("not resumable", BAD), *(f"  {reason}" for reason in facts["unsafe_reasons"] or ()))
    versions = [(name.removeprefix("version_"), facts[name]) for name in facts if name.startswith("version_")]
    told = [("thread", facts["thread_id"]), *versions, ("mode", facts["mode"])]
    yield line(("with", STRONG), *(f"  {name} {value}" for name, value in told if value))
    yield line(("used", STRONG), *(f"  {text}" for text in _used(facts)))
    if facts["input_digest"]:
        yield line(
            (f"input  step {facts['input_step']}, {facts['input_model'] or 'a model'}", STRONG),
            (f"  sha256 {facts['input_digest']}", QUIET),
        )
        for message in facts["input_messages"] or ():
            yield line((f"  {message['role']} ", QUIET), _short(message["text"]))
    for number, document in enumerate(facts["context"] or ()):
        yield line((("context" if number == 0 else "       ") + "  ", STRONG), *_document(document))
    if facts["tool"]:
        key = facts["tool_idempotency_key"]
        yield line(
            (f"in flight  {facts['tool']}, step {facts['tool_step']}, {facts['tool_side_effect']}", STRONG),
            f"  key {key}" if key else "  no idempotency key",
            f"  {_short(json.dumps(facts['tool_arguments'], ensure_ascii=False))}" if facts["tool_arguments"] else "",
        )
    if facts["result_of"]:
        how = {True: ("ok", GOOD), False: (f"failed {facts['result_error_type'] or ''}", BAD), None: ("pending", BAD)}
        took = "" if facts["result_latency_ms"] is None else f"  {amounts.duration(facts['result_latency_ms'] * 1e6)}"
        yield line(
            (f"result of {facts['result_of']}, step {facts['result_step']}  ", STRONG),
            how[facts["result_ok"]],
            took,
            f"  {_short(facts['result_preview'])}" if facts["result_preview"] else "",
        )


def _used(facts: Mapping[str, Any]) -> Iterator[str]:
    for what in ("steps", "tokens"):
        allowed = facts[f"{what}_allowed"]
        yield f"{facts[f'{what}_used']:,} {what}" + ("" if allowed is None else f" of {allowed:,}")
    if facts["cost_used_usd"]:
        yield amounts.money(facts["cost_used_usd"])


def _document(document: Mapping[str, Any]) -> Iterator[str]:
    for part in (document["id"], document["source"]):
        if part:
            yield f"{part}  "
    yield _short(document["text"]) if document["text"] is not None else f"sha256 {document['digest']}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."

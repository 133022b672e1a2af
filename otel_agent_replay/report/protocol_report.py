"""What a protocol replay found, for eyes and for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from otel_agent_replay.payload.difference import MISSING, Difference
from otel_agent_replay.protocols import Folded
from otel_agent_replay.replay.protocol import AS_RECORDED, Compared, Judged, Rechunked, around
from otel_agent_replay.report.safe_text import shortened, value_text
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_SHOWN_TEXT = 200  # characters
_SHOWN = 10  # differences, cuts


def judged_json(judged: Judged, *, seed: int) -> dict[str, Any]:
    """One exchange as JSON values: where it lies, our message (see `protocols.message_json`), and what differs."""
    exchange, folded = judged.exchange, judged.folded
    return {
        "source": exchange.source,
        "api": judged.protocol or None,
        "status": exchange.status,
        "media_type": exchange.media_type,
        "bytes": len(exchange.body),
        "streamed": judged.streamed,
        **({} if folded is None else judged.values["ours"]),
        "response_id": None if folded is None else folded.response_id,
        "model": None if folded is None else folded.model,
        "problems": [] if folded is None else list(folded.problems),
        "notes": list(exchange.notes),
        "same": judged.same,
        "adapters": {name: value for name, value in judged.values.items() if name != "ours"},
        "compared": [_compared_json(pair) for pair in judged.compared],
        "rechunked": [_rechunked_json(item, seed) for item in judged.rechunked],
        "unjudged": judged.unjudged or None,
    }


def _compared_json(pair: Compared) -> dict[str, Any]:
    return {
        "left": pair.left,
        "right": pair.right,
        "differences": [_difference_json(item) for item in pair.differences],
        "not_compared": list(pair.not_compared),
    }


def _rechunked_json(item: Rechunked, seed: int) -> dict[str, Any]:
    return {
        "parser": item.parser,
        "chunkings": item.count,
        "seed": seed,
        "same": item.same,
        "failed": None if item.number is None else _which(item),
        "cut_at": list(item.cuts),
        "differences": [_difference_json(difference) for difference in item.differences],
    }


def _difference_json(difference: Difference) -> dict[str, Any]:
    found: dict[str, Any] = {"path": difference.path}
    if difference.before is not MISSING:
        found["before"] = difference.before
    if difference.after is not MISSING:
        found["after"] = difference.after
    return found


def _which(item: Rechunked) -> str | int | None:
    return "recorded" if item.number == AS_RECORDED else item.number


def judged_lines(judged: Judged, *, seed: int) -> Iterator[Text]:
    """One exchange for the terminal: its message, then what differs and where it was cut."""
    exchange = judged.exchange
    pieces = f" in {len(exchange.sizes)} pieces" if len(exchange.sizes) > 1 else ""
    yield line(
        (exchange.source, STRONG),
        f"  {judged.protocol or 'unknown API'}  {exchange.status}",
        f"  {len(exchange.body)} bytes{pieces}{'' if judged.streamed or not judged.protocol else ', no stream'}",
    )
    for note in exchange.notes:
        yield line((f"  note: {note}", QUIET))
    if judged.folded is not None:
        yield from _message_lines(judged.folded)
    if judged.unjudged:
        yield line((f"  not compared: {judged.unjudged}", BAD))
    for pair in judged.compared:
        yield from _compared_lines(pair)
    for item in judged.rechunked:
        yield from _rechunked_lines(judged, item, seed)


def _message_lines(folded: Folded) -> Iterator[Text]:
    usage = folded.usage
    tokens = "" if usage is None else f", {_count(usage.input_tokens)} tokens in, {_count(usage.output_tokens)} out"
    state = ("complete", GOOD) if folded.complete else ("not complete", BAD)
    yield line("  ", state, f", finish reason {folded.finish_reason or '-'}{tokens}")
    for what, text in (("text", folded.text), ("reasoning", folded.reasoning), ("refusal", folded.refusal)):
        if text:
            yield line(f"  {what}: {shortened(text, _SHOWN_TEXT)}")
    for call in folded.tool_calls:
        broken = "" if call.arguments_valid_json else "  (arguments are no JSON)"
        yield line(
            f"  calls {call.name}({shortened(call.arguments_raw, _SHOWN_TEXT)}) {call.id or 'without an id'}{broken}"
        )
    if folded.error is not None:
        yield line((f"  error {folded.error.type}: {folded.error.message or '-'}", BAD))
    for problem in folded.problems:
        yield line((f"  problem: {problem}", BAD))


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _compared_lines(pair: Compared) -> Iterator[Text]:
    if pair.differences:
        yield line((f"  {pair.left} and {pair.right} differ:", BAD))
        yield from _difference_lines(pair.differences)
    else:
        yield line((f"  {pair.left} and {pair.right} read the same", GOOD))
    if pair.not_compared:
        yield line((f"    not compared, only one side has it: {', '.join(pair.not_compared)}", QUIET))


def _difference_lines(differences: Any) -> Iterator[Text]:
    for difference in differences[:_SHOWN]:
        sides = f"{value_text(difference.before)} -> {value_text(difference.after)}"
        yield line(f"    {difference.path or 'the whole'}: {sides}")
    if len(differences) > _SHOWN:
        yield line(f"    and {len(differences) - _SHOWN} more")


def _rechunked_lines(judged: Judged, item: Rechunked, seed: int) -> Iterator[Text]:
    if item.number is None:
        yield line((f"  {item.parser}: the same in {item.count} chunkings", GOOD))
        return
    which = "the recorded pieces" if item.number == AS_RECORDED else f"chunking {item.number} of seed {seed}"
    if not item.cuts:
        yield line((f"  {item.parser} does not give the same twice for the same body, uncut", BAD))
    else:
        cut = ", ".join(map(str, item.cuts[:_SHOWN])) + (", ..." if len(item.cuts) > _SHOWN else "")
        yield line((f"  {item.parser} reads {which} otherwise than the whole body; least: cut at {cut}", BAD))
        for place in item.cuts[:_SHOWN]:
            before, after = around(judged.exchange.body, place)
            yield line(f"    {before!r} | {after!r}")
    yield from _difference_lines(item.differences)

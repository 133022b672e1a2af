"""The verdict of a replay on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from otel_agent_replay.replay.verdict import ReplayVerdict, VerdictStatus
from otel_agent_replay.report.amounts import counted
from otel_agent_replay.report.terminal import BAD, GOOD, QUIET, STRONG, line

_LISTED = 10


def verdict_lines(verdict: ReplayVerdict) -> list[Text]:
    """Return the verdict in words: one line when all was the same, else where and why."""
    return list(_lines(verdict))


def verdict_sentence(verdict: ReplayVerdict) -> str:
    """Return the verdict in one line."""
    steps = f"{verdict.steps_replayed} of {counted(verdict.steps_recorded, 'step')} answered from the recording"
    if verdict.status is VerdictStatus.SAME:
        return f"Same: {steps}, {counted(verdict.reads_replayed, 'read')}; nothing departed."
    if verdict.status is VerdictStatus.CANNOT_JUDGE:
        return f"Cannot judge: {verdict.reason or 'the replay gave no verdict'} ({steps})."
    departure = verdict.departure
    if departure is None:
        return f"Departed: {verdict.reason or 'the run did not end as recorded'} ({steps})."
    where = "a call that is not on the tape" if departure.step is None else f"step {departure.step}"
    return f"Departed at {where} ({steps})."


def _lines(verdict: ReplayVerdict) -> Iterator[Text]:
    for loss in verdict.losses:
        yield line((f"note: the recording lost {loss}", BAD))
    yield line((verdict_sentence(verdict), GOOD if verdict.status is VerdictStatus.SAME else BAD))
    departure = verdict.departure
    if departure is not None:
        if departure.path:
            yield line((f"  at {'/'.join(departure.path)}", QUIET))
        yield line(f"  expected: {departure.expected}")
        yield line(f"  came:     {departure.came}")
        if departure.location:
            yield line(f"  asked at: {departure.location}")
        yield from _listed("differs", departure.differences)
        for candidate in departure.candidates:
            step = "-" if candidate.step is None else str(candidate.step)
            yield line(f"  nearest:  step {step}: {'; '.join(candidate.reasons)}")
    yield from _listed("input differs", verdict.input_differences)
    if verdict.output_same is False:
        yield from _listed("output differs", verdict.output_differences or ("the content was not kept",))
    yield from _listed("recorded, never asked for", [_missed(item.step, item.path) for item in verdict.never_asked])
    if verdict.reads_never_made:
        yield line(f"  {verdict.reads_never_made} recorded reads were never made")
    if verdict.tape_ended:
        yield line("  the recording itself ends here: its process died")
    if verdict.order_not_imposed:
        yield line(f"  order let go, as nothing moved any more: {_let_go(verdict.order_not_imposed)}")
    if verdict.canonical_matches:
        yield line(f"  matched in canonical form only: steps {', '.join(map(str, verdict.canonical_matches))}")
    if verdict.volatile:
        yield line(f"  not compared: {', '.join(verdict.volatile)}")
    yield from _listed("refused", [f"{attempt.what} at {attempt.location}" for attempt in verdict.attempts])
    yield from _listed("closed before the replay", verdict.closed_sockets)
    yield line((f"  fences: {', '.join(verdict.fences) or 'none stood'}", QUIET))
    if verdict.sources:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(verdict.sources.items()))
        yield line((f"  answered from: {counts}", QUIET))
    for other in verdict.others:
        style = QUIET if other.status is VerdictStatus.SAME else STRONG
        yield line((f"  other run of the process: {other.agent} {other.run_id}: {other.status}", style))
    if verdict.replay_run_id:
        yield line((f"  recorded as run {verdict.replay_run_id}", QUIET))


def _missed(step: int | None, path: Sequence[str]) -> str:
    return f"step {step} {path[-1] if path else ''}".rstrip() if step is not None else "/".join(path)


def _let_go(steps: Sequence[int]) -> str:
    """Return in words whose recorded order was let go."""
    named = [f"step {step}" for step in steps if step]
    threads = steps.count(0)
    return ", ".join([*named, *([f"{counted(threads, 'end')} of threads, puts or waits"] if threads else [])])


def _listed(title: str, items: Sequence[str]) -> Iterator[Text]:
    for item in items[:_LISTED]:
        yield line(f"  {title}: {item}")
    if len(items) > _LISTED:
        yield line((f"  {title}: and {len(items) - _LISTED} more; --json lists them", QUIET))

"""What was lost or not looked at, said before any claim about a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_agent_replay.compare.change_list import Sides
from otel_agent_replay.compare.changes import Changed, Placed
from otel_agent_replay.compare.node_changes import stopped_early
from otel_agent_replay.compare.substance import RunSubstance
from otel_agent_replay.compare.tree import Tree
from otel_agent_replay.model import Fidelity, Kind, OutcomeStatus, RecordedRun, RunStatus
from otel_agent_replay.payload.difference import WORK


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to know before reading on. `run` is "A", "B" or "A and B"; `code` is stable for scripts.

    `is_standing` marks the limits of recording as such, which say nothing of these two runs.
    """

    code: str
    run: str
    text: str

    @property
    def is_standing(self) -> bool:
        """Whether it holds of every recording alike, rather than of something that was lost."""
        return self.code == "not_covered"


def notices_of(
    a: RecordedRun, b: RecordedRun, sides: Sides, substance_a: RunSubstance, substance_b: RunSubstance
) -> list[Notice]:
    """Return the notices of both recordings and of the comparison itself."""
    notices: list[Notice] = []
    for name, run, tree, substance, hidden in (
        ("A", a, sides.tree_a, substance_a, sides.alignment.unobserved_a),
        ("B", b, sides.tree_b, substance_b, sides.alignment.unobserved_b),
    ):
        notices += _of_run(name, run, tree)
        if substance.unreadable:
            text = f"{len(substance.unreadable)} payloads were not kept: they are compared by digest only"
            notices.append(Notice("digest_only", name, text))
        if hidden:
            text = f"{len(hidden)} spans lie below steps that the other run answered without running them: not compared"
            notices.append(Notice("not_run", name, text))
    notices = _merged(notices)
    if a.run.agent != b.run.agent:
        notices.append(Notice("agents", "A and B", f"different agents: {a.run.agent!r} and {b.run.agent!r}"))
    foreign = sum(1 for node in sides.tree_a.nodes if node.recorded is not None and node.recorded.node is None)
    if foreign:
        text = f"{foreign} spans of other libraries in A are compared by name and status only"
        notices.append(Notice("foreign", "A and B", text))
    if not sides.alignment.in_budget:
        text = "a list of steps is too long to be aligned step by step: only steps that occur once in it were paired"
        notices.append(Notice("budget", "A and B", text))
    return notices


def notice_of_forms(in_one_form: bool) -> list[Notice]:
    """Return a notice where model calls of two forms were compared in one."""
    if not in_one_form:
        return []
    text = "model calls were recorded in different forms: their messages, tools and sampling are compared, nothing else"
    return [Notice("forms", "A and B", text)]


def notice_of_work(changes: Sequence[Placed]) -> list[Notice]:
    """Return a notice where payloads were too large to be compared to their end."""
    count = sum(isinstance(item.change, Changed) and stopped_early(item.change) for item in changes)
    if not count:
        return []
    text = f"{count} steps hold more than could be compared to the end ({WORK:,} values): more places may differ"
    return [Notice("value_budget", "A and B", text)]


def _merged(notices: Sequence[Notice]) -> list[Notice]:
    """Say once what is said of both runs in the same words."""
    said = {(notice.code, notice.text) for notice in notices if notice.run == "B"}
    merged = []
    for notice in notices:
        both = (notice.code, notice.text) in said
        if notice.run == "A":
            merged.append(Notice(notice.code, "A and B" if both else "A", notice.text))
        elif not any(other.text == notice.text and other.code == notice.code for other in merged):
            merged.append(notice)
    return merged


def _of_run(name: str, run: RecordedRun, tree: Tree) -> list[Notice]:
    notices: list[Notice] = []
    if run.run.status is RunStatus.PENDING:
        notices.append(Notice("pending", name, "the run never ended: its process died, or it still runs"))
    if run.run.status is RunStatus.DEPARTED:
        notices.append(Notice("departed", name, "a replay that left its tape: it stopped there"))
    lost: Counter[tuple[str, str]] = Counter()
    for loss in run.losses:
        lost[loss.reason.value, loss.what] += loss.count
    notices += [
        Notice(f"loss_{reason}", name, f"{count} {what.replace('_', ' ')} {_REASONS.get(reason, reason)}")
        for (reason, what), count in sorted(lost.items())
    ]
    uncovered = [entry.what for entry in run.run.coverage.entries if entry.state != "captured"]
    if uncovered:
        notices.append(Notice("not_covered", name, f"not captured, or in part: {', '.join(uncovered)}"))
    notices += _incomplete(name, run)
    notices += _less_than_wire(name, run)
    if tree.orphans:
        notices.append(Notice("orphans", name, f"{tree.orphans} spans without their parent were hung on the run"))
    if tree.sharing:
        text = f"{tree.sharing} spans share their id with another: all are compared, what lies below them is uncertain"
        notices.append(Notice("shared_ids", name, text))
    if tree.cycles:
        notices.append(Notice("cycles", name, f"{tree.cycles} circles of parents were cut"))
    return notices


def _less_than_wire(name: str, run: RecordedRun) -> Iterator[Notice]:
    """Yield what the fidelity of model calls leaves unsaid: no difference found there is not the same as none."""
    calls = Counter(node.fidelity for node in run.nodes if node.kind is Kind.MODEL)
    for fidelity, limit in _LIMITS.items():
        if calls[fidelity]:
            text = f"{calls[fidelity]} model calls have fidelity `{fidelity}`: {limit}"
            yield Notice(f"fidelity_{fidelity}", name, text)


_LIMITS = {
    Fidelity.EXCHANGE: "headers, chunks and the exact bytes were not recorded",
    Fidelity.MESSAGES: "what their requests and answers hold beside messages was not recorded",
    Fidelity.TEXT: "of what was said there is text only, or nothing: only that, models and counts are compared",
}


def _incomplete(name: str, run: RecordedRun) -> Sequence[Notice]:
    nodes = run.nodes
    lossy = sum(
        1
        for node in nodes
        if (node.call and not node.call.round_trips) or (node.outcome and not node.outcome.round_trips)
    )
    masked = sum(1 for node in nodes if node.outcome is not None and not node.outcome.exact)
    pending = sum(1 for node in nodes if node.outcome is not None and node.outcome.status is OutcomeStatus.PENDING)
    notices = []
    if lossy:
        notices.append(Notice("not_whole", name, f"{lossy} steps hold values that could only be kept as text"))
    if masked:
        notices.append(Notice("masked", name, f"{masked} answers had a secret masked"))
    if pending:
        notices.append(Notice("pending_steps", name, f"{pending} steps never ended"))
    return notices


_REASONS = {
    "dropped": "were dropped: they could not be written",
    "truncated": "were cut: over the size limit",
    "sampled": "were left out by policy",
    "redacted": "were replaced by a redaction rule",
    "unparsable": "were kept but not understood",
    "torn": "were cut off by a crash",
    "not_covered": "crossed where nothing was recorded",
    "late": "came after the run had ended",
    "damaged": "in the spans as they came",
    "internal": "were lost by a defect of the recorder",
}

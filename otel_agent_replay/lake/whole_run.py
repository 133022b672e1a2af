"""The attempts of a run, and what a fork shares with its origin -> one run. Pure.

What a later attempt did in the place of an earlier one's call counts instead of it. A scope that several attempts were
in is one scope: it begins with the first and ends with the last. Who recorded what stays in the spans themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace

from otel_agent_replay import semconv
from otel_agent_replay.model import (
    CLIENT_STRAND,
    AnswerSource,
    Attempt,
    Kind,
    Loss,
    LossReason,
    Node,
    OutcomeStatus,
    Read,
    RecordedRun,
    RecordedSpan,
    Run,
    Versions,
)

_SCOPES = frozenset({Kind.RUN, Kind.SCOPE})


def attempt_of(run: Run) -> Attempt:
    """Return what the facts of one attempt say of it."""
    return Attempt(
        run.attempt,
        run.trace_id,
        run.root_span_id,
        run.started_ns,
        run.ended_ns,
        run.status,
        run.process,
        run.mode,
        run.versions,
    )


def merged_facts(runs: Sequence[Run]) -> Run:
    """Return the facts of a run from those of its attempts, in order.

    How it began (ids, mode, process, hash seed, ...) is said by the first; how it ended, and which attempt that was, by
    the last. Versions are the first one's; what it did not know (its process died) is taken from later ones. Where
    they differ, each attempt's own lie in `RecordedRun.attempts`.
    """
    first, last = runs[0], runs[-1]
    if len(runs) == 1:
        return first
    return replace(
        first,
        ended_ns=last.ended_ns,
        status=last.status,
        attempt=last.attempt,
        coverage=last.coverage if last.coverage.entries else first.coverage,
        versions=_versions([run.versions for run in runs]),
        format_version=max(run.format_version for run in runs),
        reader_version=max(run.reader_version for run in runs),
        quirks=tuple(sorted({quirk for run in runs for quirk in run.quirks})),
    )


def merged_attempts(parts: Sequence[RecordedRun]) -> RecordedRun:
    """Return the run whose attempts, each assembled alone, are `parts`, in any order."""
    parts = sorted(parts, key=_order)
    runs = [part.run for part in parts]
    attempts = tuple(map(attempt_of, runs))
    losses = (*(loss for part in parts for loss in part.losses), *_missing(runs))
    if len(parts) == 1:
        return RecordedRun(runs[0], parts[0].spans, parts[0].payload, losses, attempts)
    merging = _Merging()
    for part in parts:
        merging.add(part)
    return RecordedRun(
        merged_facts(runs),
        merging.spans(),
        _first_of([part.payload for part in parts]),
        losses,
        attempts,
        tuple(merging.superseded),
    )


def in_order_of_begin(recordings: Iterable[RecordedRun]) -> list[RecordedRun]:
    """Return runs in the order in which they began: process by process, each process's as it counted them."""
    runs = list(recordings)
    first: dict[str, int] = {}
    for one in runs:
        run = one.run
        first[run.process] = min(run.started_ns, first.get(run.process, run.started_ns))
    return sorted(runs, key=lambda one: (first[one.run.process], one.run.ordinal, one.run.run_id))


def with_prefix(fork: RecordedRun, origin: RecordedRun | None) -> RecordedRun:
    """Return a fork with what it shares with its origin: the steps before its own, their scopes, the reads before.

    What the fork recorded itself counts instead. Without an origin the fork stands alone, and a loss says so.
    """
    run = fork.run
    if origin is None:
        detail = (
            f"what came before step {run.fork_step} lies in run {run.origin_run_id.hex()}, which is not in this lake"
        )
        loss = Loss(LossReason.NOT_COVERED, "shared steps", run.fork_step - 1, detail, run.run_id)
        return replace(fork, losses=(*fork.losses, loss))
    return replace(
        fork,
        spans=_Prefix(fork, origin).spans(),
        payload=_first_of([fork.payload, origin.payload]),
        losses=(*origin.losses, *fork.losses),
    )


def _order(part: RecordedRun) -> tuple[int, int, bytes]:
    return part.run.attempt, part.run.started_ns, part.run.root_span_id


def _missing(runs: Sequence[Run]) -> list[Loss]:
    there = {run.attempt for run in runs}
    gone = sorted(set(range(1, max(there) + 1)) - there)
    if not gone:
        return []
    detail = f"attempts {', '.join(map(str, gone))} are not there: what they did is not known here"
    return [Loss(LossReason.NOT_COVERED, "attempt", len(gone), detail, runs[0].run_id)]


def _versions(all_of: Sequence[Versions]) -> Versions:
    known: dict[str, str] = {}
    packages: dict[str, str] = {}
    for versions in reversed(all_of):
        packages.update(versions.packages)
        for name in (field.name for field in fields(Versions) if field.name != "packages"):
            value = getattr(versions, name)
            if value:
                known[name] = value
    return Versions(**known, packages=packages)


def _first_of(readers: Sequence[Callable[[bytes], bytes | None]]) -> Callable[[bytes], bytes | None]:
    def payload(digest: bytes) -> bytes | None:
        for reader in readers:
            data = reader(digest)
            if data is not None:
                return data
        return None

    return payload


class _Merging:
    """Attempts put together, added in their order."""

    def __init__(self) -> None:
        self._ours: dict[tuple[str, ...], RecordedSpan] = {}
        self._others: list[RecordedSpan] = []  # a place may stand twice in one attempt where begins were lost
        self._foreign: dict[tuple[bytes, bytes], RecordedSpan] = {}
        self._instead: dict[bytes, bytes] = {}
        self.superseded: list[RecordedSpan] = []

    def add(self, part: RecordedRun) -> None:
        """Add one attempt."""
        new: dict[tuple[str, ...], RecordedSpan] = {}
        for item in part.spans:
            node, span = item.node, item.span
            if node is None:
                self._foreign.setdefault((span.trace_id, span.span_id), item)
            elif node.path in new:
                self._others.append(item)
            else:
                earlier = self._ours.get(node.path)
                new[node.path] = item if earlier is None else self._instead_of(earlier, item)
        self._ours.update(new)

    def _instead_of(self, earlier: RecordedSpan, later: RecordedSpan) -> RecordedSpan:
        """Return what stands at a place where an earlier attempt was before."""
        before, node = earlier.node, later.node
        if before is None or node is None:
            raise AssertionError("only nodes have a place")
        if node.kind in _SCOPES:
            self._instead[later.span.span_id] = earlier.span.span_id
            return _continued(earlier, later)
        self._instead[earlier.span.span_id] = later.span.span_id
        self.superseded.append(earlier)
        if before.outcome is None or before.outcome.status is OutcomeStatus.PENDING:
            # Its code ran again from the beginning: reads that were there already were not recorded a second time.
            return replace(later, node=replace(node, reads=_joined(before.reads, node.reads)))
        return later

    def spans(self) -> tuple[RecordedSpan, ...]:
        """Return all spans in order, each below the span that stands for its parent now."""
        return _in_order([*self._ours.values(), *self._others], self._foreign.values(), self._instead)


class _Prefix:
    """What a fork shares with its origin, and the fork itself."""

    def __init__(self, fork: RecordedRun, origin: RecordedRun) -> None:
        self._fork = fork
        self._origin = origin
        step = fork.run.fork_step
        self._step = step
        begins = (node.sequence for node in origin.nodes if node.step is not None and node.step >= step)
        self._cut: float = min(begins, default=math.inf)

    def spans(self) -> tuple[RecordedSpan, ...]:
        """Return all spans of the fork, in order."""
        own: dict[tuple[str, ...], RecordedSpan] = {}
        foreign = []
        others = []  # a place may stand twice where begins were lost
        for item in self._fork.spans:
            if item.node is None:
                foreign.append(item)
            elif item.node.path in own:
                others.append(item)
            else:
                own[item.node.path] = item
        answered = {path for path, item in own.items() if _is_answered(item.node)}
        instead: dict[bytes, bytes] = {}
        shared = []
        for item in self._origin.spans:
            node = item.node
            if node is None or not self._is_shared(node):
                continue
            cut = self._cut_reads(item, node)
            here = own.get(node.path)
            if here is not None:
                instead[item.span.span_id] = here.span.span_id
                if node.kind in _SCOPES:
                    own[node.path] = _same_scope(cut, here)
            elif not any(node.path[:length] in answered for length in range(2, len(node.path))):
                shared.append(cut)
        return _in_order([*own.values(), *others, *shared], foreign, instead)

    def _is_shared(self, node: Node) -> bool:
        if node.kind is Kind.RUN:
            return True
        return node.step < self._step if node.step is not None else node.sequence < self._cut

    def _cut_reads(self, item: RecordedSpan, node: Node) -> RecordedSpan:
        """Leave out what a scope read after the fork left; a crossing is shared whole."""
        cut = self._cut
        if node.kind not in _SCOPES or all(read.sequence < cut for read in node.reads):
            return item
        return replace(item, node=replace(node, reads=tuple(read for read in node.reads if read.sequence < cut)))


def _is_answered(node: Node | None) -> bool:
    """Whether its code did not run: somebody else's answer was given."""
    return node is not None and node.kind.is_crossing and node.source is not AnswerSource.LIVE


def _same_scope(shared: RecordedSpan, own: RecordedSpan) -> RecordedSpan:
    """Return a scope of a fork that its origin was in too: a span of the fork, in the place of the origin's."""
    before, node = shared.node, own.node
    if before is not None and node is not None and node.kind is Kind.RUN:
        # The fork is a run of its own, and its clients were built in its own environment.
        return replace(own, node=replace(node, reads=_joined(node.reads, before.reads)))
    joined = _continued(shared, own).node
    return replace(own, node=None if joined is None or node is None else replace(joined, run_id=node.run_id))


def _continued(earlier: RecordedSpan, later: RecordedSpan) -> RecordedSpan:
    """Return a scope that begins as `earlier` did and ends as `later`."""
    before, node = earlier.node, later.node
    if before is None or node is None:
        raise AssertionError("only nodes are scopes")
    attributes = dict(later.span.attributes)
    if semconv.RUN_MODE in earlier.span.attributes:
        attributes[semconv.RUN_MODE] = earlier.span.attributes[semconv.RUN_MODE]
    span = replace(
        earlier.span,
        end_ns=later.span.end_ns,
        status_code=later.span.status_code,
        status_message=later.span.status_message,
        attributes=attributes,
        events=(*earlier.span.events, *later.span.events),
        links=(*earlier.span.links, *later.span.links),
    )
    joined = replace(
        before,
        end_sequence=node.end_sequence,
        call=before.call or node.call,
        outcome=node.outcome,
        reads=_joined(before.reads, node.reads),
    )
    return RecordedSpan(span, joined)


def _joined(first: Sequence[Read], later: Sequence[Read]) -> tuple[Read, ...]:
    """Return both, in order; each process reads its clients' environment anew, the first one's counts."""
    has_clients = any(read.strand == CLIENT_STRAND for read in first)
    kept = (read for read in later if not (has_clients and read.strand == CLIENT_STRAND))
    return tuple(sorted((*first, *kept), key=lambda read: read.sequence))


def _in_order(
    ours: Iterable[RecordedSpan], foreign: Iterable[RecordedSpan], instead: dict[bytes, bytes]
) -> tuple[RecordedSpan, ...]:
    by_sequence = sorted(ours, key=lambda item: (0 if item.node is None else item.node.sequence, item.span.start_ns))
    by_start = sorted(foreign, key=lambda item: (item.span.start_ns, item.span.span_id))
    return tuple(_below(item, instead) for item in (*by_sequence, *by_start))


def _below(item: RecordedSpan, instead: dict[bytes, bytes]) -> RecordedSpan:
    parent = item.span.parent_span_id
    seen = set()
    while parent in instead and parent not in seen:
        seen.add(parent)
        parent = instead[parent]
    return item if parent == item.span.parent_span_id else replace(item, span=replace(item.span, parent_span_id=parent))

"""A tape: one recorded run's exchanges and bulk reads, indexed for playback.

Owns lookup and consumption: each recorded exchange and each recorded read is handed out once. It compares
nothing but keys and digests (that is `matching`), waits for nothing (`order`) and decides nothing (`playback`).
Payload bytes stay in the lake until an answer is served.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence

from otel_agent_replay.errors import DamagedRecording, MissingPayload
from otel_agent_replay.model import (
    Call,
    Kind,
    Node,
    Outcome,
    OutcomeStatus,
    Payload,
    RecordedRun,
    SideEffect,
    make_outcome,
)
from otel_agent_replay.replay.past import Past
from otel_agent_replay.replay.proved import proved
from otel_agent_replay.replay.tape_entry import Entry, Path, ThreadEnd, is_background_save
from otel_agent_replay.replay.tape_reads import TapeReads

_sha256 = hashlib.sha256
_NUMBER = re.compile(r"#\d+\Z")
_SCOPE = f"{Kind.SCOPE.value}:"
_MOST_SCANNED = 256  # how far an identical request is searched for its own strand's answer

_Place = tuple[Path, Kind, str]  # where a call was made, its kind and its name


class _Group:
    """The exchanges of one place, kind and name; those before `start` were all handed out."""

    __slots__ = ("entries", "start")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0


class Tape:
    """One run, ready for playback. Thread-safe.

    `entries` are its crossings in the order they began, `reads` its bulk reads.
    With `before_step` the tape ends just before that step begins, as if the process had died there. The steps in
    `without` are left out of it, and what failed or only read below them. What lies in the `past` is `skipped`: it
    happened, and nobody asks for it.
    """

    def __init__(
        self,
        recorded: RecordedRun,
        *,
        before_step: int | None = None,
        without: Collection[int] = (),
        past: Past | None = None,
    ) -> None:
        self.run = recorded.run
        self.past = past
        self._before_step = before_step
        self._cut = _begin_of(recorded, before_step)
        self._without = frozenset(without)
        self._without_paths = [node.path for node in recorded.nodes if node.step in self._without]
        self.losses = tuple(recorded.losses)
        self.root: Node | None = None
        self.entries: list[Entry] = []
        self.skipped: list[Entry] = []
        self.reads = TapeReads(self._cut, past)
        self.thread_ends: dict[int, ThreadEnd] = {}
        self._payload = recorded.payload
        self._nodes: list[Node] = []
        self._numbers: list[int] | None = None
        self._lock = threading.Lock()
        # By place, then by digest. Whoever takes an exchange out of `_alone` has it, and needs no lock for that.
        self._alone: dict[_Place, dict[bytes, Entry]] = defaultdict(dict)
        self._repeated: dict[tuple[_Place, bytes], deque[Entry]] = {}
        self._relaxed: dict[tuple[Path, Kind, str, bytes], list[Entry]] | None = None
        self._alike: dict[_Place, _Group] | None = None
        self._by_strand: dict[str, deque[Entry]] | None = None
        self._load(recorded)

    def _load(self, recorded: RecordedRun) -> None:
        covered: set[Path] = set()  # places inside a crossing, and crossings themselves
        nodes = [(item.node, item.span) for item in recorded.spans if item.node is not None]
        nodes.sort(key=lambda pair: len(pair[0].path))  # a later attempt's row of a call may follow what lies in it
        for node, span in nodes:
            if self._is_left_out(node):
                continue
            self._nodes.append(node)
            path = node.path
            parent = path[:-1]
            if node.reads:
                self.reads.add(node)
            if node.kind is Kind.RUN:
                if self.root is None:
                    self.root = node
                    self._keep_thread_ends(node)
                continue
            below = parent in covered
            # A checkpoint crosses nothing, but its state is held against the tape like a request.
            crosses = node.call is not None and (node.kind.is_crossing or node.kind is Kind.CHECKPOINT)
            if below or crosses:
                covered.add(path)
            else:
                self._keep_thread_ends(node)
            if crosses and node.call is not None:
                over = self.past is not None and self.past.has(node)
                entry = Entry(node, node.call, (span.start_ns, span.end_ns), below)
                (self.skipped if over else self.entries).append(entry)
        self.entries.sort(key=lambda entry: entry.node.sequence)
        self.skipped.sort(key=lambda entry: entry.node.sequence)
        for entry in self.entries:
            place, digest = _place_of(entry), entry.call.asked_digest
            same, alone = self._repeated.get((place, digest)), self._alone[place]
            if same is not None:
                same.append(entry)
            elif digest in alone:  # a queue is 600 bytes: only where requests repeat
                self._repeated[place, digest] = deque((alone.pop(digest), entry))
            else:
                alone[digest] = entry

    def _keep_thread_ends(self, node: Node) -> None:
        self.thread_ends.update({read.sequence: ThreadEnd(read) for read in self.reads.with_turns(node)})

    def _is_left_out(self, node: Node) -> bool:
        step = node.step
        if step is None:
            return node.sequence > self._cut
        if self._without and self._is_below_left_out(node):
            return True
        return step in self._without or (self._before_step is not None and step >= self._before_step)

    def _is_below_left_out(self, node: Node) -> bool:
        """Whether it is part of a call that is made again, and no write that went well: that is not made again."""
        if not any(node.path[: len(path)] == path for path in self._without_paths):
            return False
        outcome = node.outcome
        went_well = outcome is not None and outcome.status is OutcomeStatus.OK
        if went_well and outcome is not None and outcome.head is not None:
            went_well = outcome.head.status < 400
        return not went_well or node.side_effect in (SideEffect.NONE, SideEffect.READ)

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes of the recording that lie on it."""
        return self._nodes

    def numbers(self) -> list[int]:
        """Return every sequence number that the recording uses, sorted: begins, ends and bulk reads."""
        if self._numbers is None:
            used = []
            for node in self._nodes:
                used += [node.sequence, node.end_sequence, *(read.sequence for read in node.reads)]
            self._numbers = sorted(number for number in used if number)
        return self._numbers

    @property
    def died(self) -> bool:
        """Whether the recorded process died before the run ended."""
        outcome = None if self.root is None else self.root.outcome
        return outcome is None or outcome.status is OutcomeStatus.PENDING

    @property
    def steps(self) -> int:
        """How many steps the recording has, those below an answered crossing left out."""
        return sum(1 for entry in (*self.skipped, *self.entries) if not entry.below)

    def take(self, parent: Path, call: Call, strand: Callable[[], str]) -> Entry | None:
        """Hand out the recorded exchange of exactly this request at this place.

        Among identical requests the one that the same thread of control (`strand()`) made comes first, then begin
        order.
        """
        place = (parent, call.kind, call.name)
        alone = self._alone.get(place)
        if alone is None:
            return None
        digest = call.request.digest if call.head is None else call.digest
        entry = alone.pop(digest, None)
        if entry is not None:
            entry.taken = True
            return entry
        same = self._repeated.get((place, digest))
        if same is None:
            return None
        with self._lock:
            while same and same[0].taken:
                same.popleft()
            if not same:
                return None
            entry = same[0]
            if len(same) > 1 and entry.node.strand != (label := strand()):
                entry = _of_strand(same, label) or entry
            entry.taken = True
            return entry

    def take_relaxed(self, parent: Path, call: Call) -> Entry | None:
        """The same where only the numbers of the enclosing scopes differ: concurrent ones may begin in any order."""
        if self._relaxed is None:
            relaxed: dict[tuple[Path, Kind, str, bytes], list[Entry]] = {}
            for entry in self.entries:
                place = unnumbered(entry.node.path[:-1])
                made = entry.call
                relaxed.setdefault((place, made.kind, made.name, made.asked_digest), []).append(entry)
            self._relaxed = relaxed
        found = self._relaxed.get((unnumbered(parent), call.kind, call.name, call.digest), ())
        return next((entry for entry in found if self.claim(entry)), None)

    def alike(self, parent: Path, kind: Kind, name: str) -> Iterator[Entry]:
        """Yield the exchanges not yet handed out that were recorded at this place with this kind and name."""
        if self._alike is None:
            alike: dict[tuple[Path, Kind, str], _Group] = {}
            for entry in self.entries:
                key = (entry.node.path[:-1], entry.node.kind, entry.node.name)
                alike.setdefault(key, _Group()).entries.append(entry)
            self._alike = alike
        group = self._alike.get((parent, kind, name))
        if group is None:
            return
        entries = group.entries
        while group.start < len(entries) and entries[group.start].taken:
            group.start += 1
        for number in range(group.start, len(entries)):
            if not entries[number].taken:
                yield entries[number]

    def claim(self, entry: Entry) -> bool:
        """Hand out this entry; False when somebody else has it."""
        place, digest = _place_of(entry), entry.call.asked_digest
        with self._lock:
            if (place, digest) in self._repeated:
                if entry.taken:
                    return False
            elif self._alone[place].pop(digest, None) is None:
                return False
            entry.taken = True
            return True

    def has(self, node: Node) -> bool:
        """Whether a node of the recording lies on this tape."""
        return node.kind is Kind.RUN or not self._is_left_out(node)

    @property
    def taken_steps(self) -> int:
        """How many steps that have ended were handed out."""
        return sum(1 for entry in self.entries if entry.taken and entry.node.end_sequence)

    @property
    def taken(self) -> int:
        """How many exchanges were handed out."""
        return sum(1 for entry in self.entries if entry.taken)

    def left(self) -> Iterator[Entry]:
        """Yield what was recorded and never asked for, in begin order, leaving out what lies below a crossing."""
        return (entry for entry in self.entries if not entry.taken and not entry.below)

    def left_in(self, strand: str) -> Entry | None:
        """Return the first exchange of that thread of control which was not handed out, or None."""
        if self._by_strand is None:
            found: dict[str, deque[Entry]] = {}
            for entry in self.entries:
                if not entry.below and not is_background_save(entry.call):
                    found.setdefault(entry.node.strand, deque()).append(entry)
            self._by_strand = found
        waiting = self._by_strand.get(strand)
        while waiting and waiting[0].taken:
            waiting.popleft()
        return waiting[0] if waiting else None

    def count_reads_left(self) -> int:
        """Return how many recorded reads were never made, leaving out those inside a crossing."""
        return self.reads.count_left({entry.node.path for entry in self.entries})

    def result(self, entry: Entry) -> bytes | None:
        """Return the bytes of what came back, proved by their digest; None where nothing did.

        Raises MissingPayload, DamagedRecording.
        """
        outcome = entry.outcome
        result = None if outcome is None else outcome.result
        if result is None or result.data is not None:
            return None if result is None else result.data
        digest = result.digest
        data = self._payload(digest)
        if data is None or _sha256(data).digest() != digest:
            data = self.loaded(result, entry, "result").data  # the empty payload, or it says what is wrong
        return data

    def outcome(self, entry: Entry) -> Outcome:
        """Return the recorded outcome with its bytes. Raises MissingPayload, DamagedRecording."""
        if entry.outcome is None:
            raise DamagedRecording(f"step {entry.node.step} ({'/'.join(entry.node.path)}) has no outcome")
        return with_data(entry.outcome, self.result(entry))

    def request(self, entry: Entry) -> bytes | None:
        """Return the recorded request's bytes, or None when they are not kept."""
        try:
            return self.loaded(entry.call.request, entry, "request").data
        except (MissingPayload, DamagedRecording):
            return None

    def loaded(self, payload: Payload, entry: Entry | None, what: str) -> Payload:
        """Return the payload with its bytes, proved by the digest. Raises MissingPayload, DamagedRecording."""
        if payload.data is not None:
            return payload
        return proved(
            payload, self._payload, f"{what} of the run" if entry is None else f"{what} of step {entry.node.step}"
        )


def _place_of(entry: Entry) -> _Place:
    return entry.node.path[:-1], entry.call.kind, entry.call.name


def with_data(outcome: Outcome, data: bytes | None) -> Outcome:
    """Return the outcome with these as its result's bytes; as it is where it has them, or there are none."""
    result = outcome.result
    if data is None or result is None or result.data is not None:
        return outcome
    # `dataclasses.replace` costs more than everything else that playback does for a small answer.
    return make_outcome(
        outcome.status,
        result.with_data(data),
        outcome.head,
        outcome.chunks,
        outcome.trailers,
        outcome.failure,
        outcome.closed_early,
        outcome.exact,
        outcome.round_trips,
        outcome.notes,
        outcome.attributes,
    )


def _begin_of(recorded: RecordedRun, step: int | None) -> float:
    """Return the sequence number at which a step of the run begins; infinity for none."""
    if step is None:
        return math.inf
    begins = [node.sequence for node in recorded.nodes if node.step is not None and node.step >= step]
    return min(begins, default=math.inf)


def unnumbered(path: Path) -> Path:
    """Return a path without the numbers of its scopes among their like."""
    return tuple(_NUMBER.sub("", part) if part.startswith(_SCOPE) else part for part in path)


def _of_strand(same: deque[Entry], strand: str) -> Entry | None:
    for number, entry in enumerate(same):
        if number >= _MOST_SCANNED:
            return None
        if not entry.taken and entry.node.strand == strand:
            return entry
    return None

"""What recordings answer in a re-run: the run's own tape by arguments, then other runs' for reads.

Owns what holds of a recorded answer beyond its arguments: an approval is for the same action under the same policy, a
user's turn for a message that it still fits, a variable of the re-run's own identity is not the recorded one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Answer, Place
from otel_agent_replay.errors import CrossingRefused, ReplayInterrupt
from otel_agent_replay.model import EMPTY_DIGEST, Call, Kind, Outcome, Read, RecordedRun, digest_of
from otel_agent_replay.replay.by_arguments import ByArguments, RecordedAnswer
from otel_agent_replay.replay.pool import Found, Miss, Pool
from otel_agent_replay.replay.rerun.user_turns import RecordedTurns
from otel_agent_replay.replay.tape import Tape
from otel_agent_replay.replay.virtual_clock import VirtualClock
from otel_agent_replay.replay.writes import changes_the_world, repeats

MODE = "regression"


class TapeAnswers:
    """One recording's answers in a re-run. Thread-safe.

    `policy` is the version of the policy that the re-run goes by, `identity` the variables that are its own, `clock`
    what its clocks show. `missed` holds what was last asked, by name, of what the recording does not have: its
    arguments, redacted.
    """

    def __init__(
        self,
        recorded: RecordedRun,
        *,
        policy: str = "",
        identity: Collection[str] = (),
        clock: VirtualClock | None = None,
    ) -> None:
        self.by_arguments = ByArguments(recorded, clock=clock)
        self.turns = RecordedTurns(Tape(recorded))
        self._same_policy = recorded.run.versions.policy == policy
        self._identity = frozenset(f"os.environ[{name}]" for name in identity)
        self.missed: dict[str, bytes] = {}

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return what the recording says of this call, or None."""
        answer = self._answer(call, place)
        if answer is None:
            self.missed[call.name] = call.request.data or b""
        return answer

    def _answer(self, call: Call, place: Place) -> Answer | None:
        if call.kind is Kind.INPUT:
            return self.turns.answer(call, place)
        answer = self.by_arguments.answer(call, place)
        if answer is None or call.kind is not Kind.APPROVAL:
            return answer
        action = answer.outcome.attributes.get(semconv.APPROVAL_ACTION)
        same_action = action is None or action == call.attributes.get(semconv.APPROVAL_ACTION, call.name)
        return answer if same_action and self._same_policy else None

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return what was read at this place then, unless it is a variable of the re-run's own."""
        return None if name in self._identity else self.by_arguments.read(kind, name, place, strand)

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the refusal of what the recording does not have."""
        what = call.name if call is not None else read[1] if read is not None else place.name
        return CrossingRefused(place.step, what, MODE)


class PoolAnswers:
    """Other runs' answers to reads; implements `boundary.session.Answerer`. Thread-safe.

    `load` reads those runs, when they are first asked. `before_ns` is the latest moment at which an answer may have
    been got. `misses` tells, for each read that nobody answered, why.
    """

    def __init__(
        self,
        load: Callable[[], Sequence[RecordedRun]],
        *,
        before_ns: int,
        written: Callable[[], int],
        max_age_ns: int | None = None,
        own_worlds: bool = False,
    ) -> None:
        self._load = load
        self._before_ns = before_ns
        self._written = written
        self._max_age_ns = max_age_ns
        self._own_worlds = own_worlds
        self._lock = threading.Lock()
        self.misses: list[str] = []

    @cached_property
    def _pool(self) -> Pool:
        return Pool(self._load(), max_age_ns=self._max_age_ns, own_worlds=self._own_worlds)

    def answer(self, call: Call, place: Place) -> Answer | None:
        """Return another run's answer to this read, or None."""
        del place
        if not repeats(call):
            return None
        with self._lock:
            found = self._pool.find(call, self._before_ns, written=self._written())
        if isinstance(found, Miss):
            self.misses.append(f"{call.name}: {found.reason}")
            return None
        outcome = _outcome_of(found)
        if outcome is None:
            self.misses.append(f"{call.name}: the bytes of an answer to the same call are missing or were altered")
            return None
        return RecordedAnswer(outcome, None, same_request=True)

    def read(self, kind: Kind, name: str, place: Place, strand: str) -> Read | None:
        """Return None: what another run drew or saw on the clock is no answer."""
        del kind, name, place, strand
        return None

    def departed(self, call: Call | None, place: Place, read: tuple[Kind, str] | None) -> ReplayInterrupt:
        """Return the refusal of what nobody answers."""
        what = call.name if call is not None else read[1] if read is not None else place.name
        return CrossingRefused(place.step, what, MODE)


def latest_moment(recorded: RecordedRun) -> int:
    """Return until when other runs' answers are of the world that a re-run of this one lives in (Unix nanoseconds).

    What was read after the recorded run's first write may show it, and the re-run may not have made it.
    """
    begins = [
        item.span.start_ns
        for item in recorded.spans
        if item.node is not None and item.node.call is not None and changes_the_world(item.node.call)
    ]
    return min(begins, default=recorded.run.ended_ns or max((one.span.end_ns for one in recorded.spans), default=0))


def _outcome_of(found: Found) -> Outcome | None:
    """Return the outcome with its bytes, None where they are not there or are others."""
    outcome = found.node.outcome
    if outcome is None:
        raise AssertionError("the pool gives ended calls only")
    result = outcome.result
    if result is not None and result.data is None:
        data = b"" if result.digest == EMPTY_DIGEST else found.run.payload(result.digest)
        if data is None or digest_of(data) != result.digest:
            return None
        result = result.with_data(data)
    facts = {**outcome.attributes, semconv.POOL_RUN: found.run.run.run_id.hex()}
    return replace(outcome, result=result, attributes=facts)

"""A plan on its recording: the mode's table with its overrides, and who answers in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from otel_agent_replay import semconv
from otel_agent_replay.boundary.crossing import Crossing
from otel_agent_replay.boundary.policy import CALLED_THROUGH, REGRESSION, Cell, Mode
from otel_agent_replay.boundary.session import Answerer, Session
from otel_agent_replay.errors import ConfigurationError, ReplayInterrupt
from otel_agent_replay.model import AnswerSource, AttributeValue, Kind, Outcome, RecordedRun, SideEffect
from otel_agent_replay.replay.edited_requests import EditedRequests
from otel_agent_replay.replay.fork import LONGEST_SLEEP_S
from otel_agent_replay.replay.rerun.answers import PoolAnswers, TapeAnswers, latest_moment
from otel_agent_replay.replay.rerun.candidate_endpoint import CandidateEndpoint
from otel_agent_replay.replay.rerun.drift import DriftCheck
from otel_agent_replay.replay.rerun.plan import EVERYTHING, RerunPlan
from otel_agent_replay.replay.rerun.user_turns import GivenTurns, Simulator
from otel_agent_replay.replay.seeded import SeededReads
from otel_agent_replay.replay.spending import Meter, MeteredRequests
from otel_agent_replay.replay.virtual_clock import VirtualClock

_S = AnswerSource
_CHANGES = frozenset({SideEffect.WRITE, SideEffect.EXTERNAL})
_HARMLESS = (SideEffect.NONE, SideEffect.READ)
_STUBBED = (_S.TAPE, _S.POOL, _S.FIXTURE, _S.DRY_RUN, _S.REFUSED)
# A stub of everything leaves what makes the run: its model calls, its waits, its save-points.
_STUBBED_KINDS = frozenset({Kind.TOOL, Kind.HTTP, Kind.RETRIEVAL, Kind.DECISION})


def mode_of(plan: RerunPlan, recorded: RecordedRun) -> Mode:
    """Return the table of the re-run. Raises ConfigurationError for a name that is a write on record."""
    writes = {
        node.name for node in recorded.nodes if node.kind.is_crossing and node.call and node.side_effect in _CHANGES
    }
    changing = [name for name in plan.live if name in writes]
    if changing:
        raise ConfigurationError(
            f"--live {changing[0]!r} would let a write happen: on record it is declared write or external. Declare "
            "its tool as read or none if that is what it is, or give it a dry_run="
        )
    named: dict[tuple[str, SideEffect], Cell] = {
        (name, effect): (_S.LIVE,) for name in plan.live for effect in _HARMLESS
    }
    named |= {(name, effect): _STUBBED for name in plan.stub if name != EVERYTHING for effect in SideEffect}
    cells = REGRESSION.cells
    if EVERYTHING in plan.stub:
        cells = {
            key: (_STUBBED if key[0] in _STUBBED_KINDS and set(cell) & CALLED_THROUGH else cell)
            for key, cell in cells.items()
        }
    return replace(REGRESSION, cells=cells, named=named)


def _first_step(recorded: RecordedRun) -> int | None:
    """Return the sequence number at which a run's first step begins, None where it has none."""
    return min((node.sequence for node in recorded.nodes if node.step is not None), default=None)


class World:
    """What every run of one re-run shares: plan, clock, draws, other runs, what may be spent.

    `key` is the value of the candidate's key, `identity` the variables that are the re-run's own; `now_ns` is when it
    happens, Unix nanoseconds.
    """

    def __init__(
        self,
        plan: RerunPlan,
        target: RecordedRun,
        *,
        load_pool: Callable[[Sequence[str]], Sequence[RecordedRun]],
        simulator: Simulator | None,
        key: str,
        identity: Collection[str],
        now_ns: int,
    ) -> None:
        self.plan = plan
        self.target = target
        self.mode = mode_of(plan, target)
        self.meter = Meter(plan.spending, plan.candidate.price)
        self.clock = VirtualClock(target, until=_first_step(target))
        self._seeded: dict[bytes, SeededReads] = {}
        self.simulator = simulator
        self.key = key
        self.identity = identity
        self._load_pool = load_pool
        self._now_ns = now_ns
        self._pooled: Sequence[RecordedRun] | None = None

    def pooled(self) -> Sequence[RecordedRun]:
        """Return the other runs, read when first asked for."""
        if self._pooled is None:
            self._pooled = self._load_pool(self.plan.pool)
        return self._pooled

    def clock_of(self, recorded: RecordedRun) -> VirtualClock:
        """Return the clock of one of its runs; all show the same time."""
        if recorded is self.target:
            return self.clock
        return VirtualClock(recorded, until=_first_step(recorded), beside=self.clock)

    def seeded_of(self, recorded: RecordedRun) -> SeededReads:
        """Return what draws for the re-run of a run: the same each time, and another for each run."""
        run_id = recorded.run.run_id
        if run_id not in self._seeded:
            seed = f"{self.plan.seed}/{run_id.hex()}"
            self._seeded[run_id] = SeededReads(seed, now_ns=self.clock.now_ns)
        return self._seeded[run_id]

    def latest_ns(self, recorded: RecordedRun) -> int:
        """Return until when other runs may answer: where each has its own world, time says nothing."""
        return self._now_ns if self.plan.own_worlds else latest_moment(recorded)


class Route:
    """Who answers one run of a re-run: the wanted one, or one that its code begins."""

    def __init__(self, world: World, recorded: RecordedRun, *, policy: str) -> None:
        plan = world.plan
        self._world = world
        self._session: Session | None = None
        self.recorded = recorded
        clock = None if plan.live_clock else world.clock_of(recorded)
        self.tape = TapeAnswers(recorded, policy=policy, identity=world.identity, clock=clock)
        self._clock = clock
        self.drift = DriftCheck(recorded, lambda: self.tape.by_arguments.written)
        self.pool = PoolAnswers(
            world.pooled,
            before_ns=world.latest_ns(recorded),
            written=lambda: self.tape.by_arguments.written,
            max_age_ns=plan.pool_age_ns,
            own_worlds=plan.own_worlds,
        )
        edits = EditedRequests(plan.edits) if plan.edits else None
        self._edits = MeteredRequests(world.meter, edits, self._stop)
        self._endpoint = CandidateEndpoint(plan.candidate.base_url, world.key)
        turns = GivenTurns(plan.script, world.simulator, gone=lambda: self.tape.turns.why_not, stop=self._stop)
        self.answerers: Mapping[AnswerSource, Answerer] = {
            _S.TAPE: self.tape,
            **({_S.POOL: self.pool} if plan.pool else {}),
            _S.FIXTURE: turns,
            _S.SEEDED: world.seeded_of(recorded),
            **({_S.VIRTUAL: clock} if clock is not None else {}),
        }

    def take(self, session: Session) -> None:
        """Make an open session go this way."""
        plan = self._world.plan
        self._session = session
        session.edits = self._edits
        session.route = self._endpoint
        session.sleeps_at_most_s = LONGEST_SLEEP_S
        session.asleep = None if self._clock is None else self._clock.asleep
        session.watch = self._ended
        marks: dict[str, AttributeValue] = {semconv.RUN_LANE: plan.lane, semconv.RUN_REPEAT: plan.repeat}
        told = plan.told()
        session.marks = {**marks, semconv.RUN_CANDIDATE: told} if told else marks

    def _ended(self, crossing: Crossing, outcome: Outcome) -> None:
        self.tape.by_arguments.goes_beyond(crossing.call)
        self._world.meter.ended(crossing, outcome)
        self.drift.ended(crossing, outcome)

    def _stop(self, interrupt: ReplayInterrupt) -> ReplayInterrupt:
        session = self._session
        if session is None:
            return interrupt
        session.interrupt = session.interrupt or interrupt
        return session.interrupt

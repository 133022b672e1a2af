"""One run's way to the ledger: its lease, its intents and their results.

Owns how a call that was begun before is settled: from the ledger's result, by the same key again, by the tool's own
status query, by a person's decision; never by a guess. The ledger's rows and transactions are `ledger`'s.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from otel_agent_replay.boundary.approvals import Grant, action_digest
from otel_agent_replay.boundary.crossing import Answer, Place, WholeAnswer, outside_runs
from otel_agent_replay.boundary.effects import Terms
from otel_agent_replay.boundary.runs import Continuation
from otel_agent_replay.errors import (
    AgentReplayError,
    ApprovalRequired,
    EffectInDoubt,
    EffectRunning,
    KeyReused,
    LeaseLost,
    LedgerError,
    NotHappened,
)
from otel_agent_replay.ledger import Intent, IntentStatus, Lease
from otel_agent_replay.model import (
    Approval,
    Call,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    RunStatus,
)
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.payload.failure import failure_of

_log = logging.getLogger("otel_agent_replay")
_time_ns = time.time_ns  # bound at import: our own clock reads are never recorded
_VALUE = MediaType.VALUE.value
_PREVIEW = 2_000  # bytes of the arguments that a person sees when they have to decide


class KnownAnswer(WholeAnswer):
    """What the ledger, or a person, says of a call; implements `crossing.Answer`. It has no turn in any order."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.origin_step: int | None = None
        self.same_request = False

    def settle(self) -> None:
        """Wait for nothing."""

    async def settle_async(self) -> None:
        """Wait for nothing."""

    def done(self) -> None:
        """Tell nobody."""


class LedgerEffects:
    """Implements `boundary.effects.Effects` over a lease.

    `begun` are the effects (tool, key) that the ledger knows to be begun and not ended.
    """

    def __init__(self, lease: Lease, begun: Iterable[tuple[str, str]] = ()) -> None:
        self._lease = lease
        self._continuation: Continuation | None = None
        self._begun = set(begun)
        self._untold: deque[Callable[[], None]] = deque()  # ends that the ledger could not take down yet

    def goes_on_from(self, continuation: Continuation) -> None:
        """Tell what the run goes on from; see `boundary.effects.Effects`."""
        self._continuation = continuation

    def intend(self, call: Call, place: Place, terms: Terms) -> Answer | None:
        """Commit the intent of a call, or return what is known of it; see `boundary.effects.Effects`."""
        key = call.idempotency_key or self._key_of_step(place)
        try:
            return self._intended(call, place, key, terms)
        except (ApprovalRequired, EffectRunning, KeyReused, LedgerError) as error:  # recorded, and replayed, as answers
            return KnownAnswer(Outcome(OutcomeStatus.ERROR, failure=failure_of(error)))

    def _intended(self, call: Call, place: Place, key: str, terms: Terms) -> Answer | None:
        self._tell_late()
        made: dict[str, Any] = {
            "step": place.step or 0,
            "path": "/".join(place.path),
            "request_digest": call.digest,
            "arguments": (call.request.data or b"")[:_PREVIEW],
        }
        intent = self._lease.intend(
            tool=call.name, key=key, side_effect=call.side_effect.value, approval=terms.approval, **made
        )
        status = intent.status
        if status is IntentStatus.RUNNING:
            raise EffectRunning(call.name, key)
        if status is IntentStatus.DONE or (status is IntentStatus.DECIDED and intent.happened):
            return self._known(call, place, key, intent)
        begun = status is IntentStatus.NEW and self._continuation is not None and self._continuation.was_begun(place)
        if status is IntentStatus.PENDING or begun:
            takes_key = terms.takes_key or (call.kind is Kind.HTTP and bool(call.idempotency_key))
            answer = None if takes_key else self._settled(call, place, key, terms)
            if answer is not None:
                return answer
        if status is not IntentStatus.NEW:
            self._lease.again(tool=call.name, key=key, **made)
        place.effect = _LedgerEffect(self, call.name, key)
        return None

    def passed(self, call: Call, place: Place, outcome: Outcome, terms: Terms) -> None:
        """Commit the end of an effect that the recording has and the ledger has not: its worker died in between.

        An approval that the call used up is spent in the ledger too, which may not have held it then.
        """
        key = call.idempotency_key or self._key_of_step(place)
        if terms.approval is not None:
            self._lease.spent(tool=call.name, key=key, approval=terms.approval)
        if (call.name, key) in self._begun:
            self._begun.discard((call.name, key))
            if outcome.status is not OutcomeStatus.PENDING:
                self.ended(call.name, key, outcome)

    def decided(self, call: Call, place: Place) -> Answer | None:
        """Return a person's answer to the approval at this step, or None."""
        found = self._lease.decision(step=place.step or 0, digest=action_digest(call.name, call.request.data or b""))
        if found is None:
            return None
        value = Approval(found.granted, found.by, found.policy, found.allowed)
        return KnownAnswer(Outcome(OutcomeStatus.OK, Payload.of(encode(value).data, _VALUE)))

    def awaits(self, place: Place, call: Call) -> None:
        """Take down that the run waits for a person's answer to this approval."""
        self._lease.await_decision(
            step=place.step or 0,
            name=call.name,
            digest=action_digest(call.name, call.request.data or b""),
            arguments=(call.request.data or b"")[:_PREVIEW],
        )

    def granted(self, place: Place, grant: Grant) -> None:
        """Take down a person's approval of one action, once."""
        self._lease.grant(
            step=place.step or 0,
            action=grant.action,
            digest=grant.digest,
            by=grant.by,
            at_ns=grant.at_ns,
            state_digest=grant.state,
            policy=grant.policy,
            allowed=tuple(grant.allowed),
        )

    def closed(self, status: RunStatus) -> None:
        """Give the run back."""
        try:
            self._tell_late()
            self._lease.release(status.value)
        except (AgentReplayError, LeaseLost) as error:
            _log.warning("the run's lease was not given back, it runs out by itself: %s", error)

    def ended(self, tool: str, key: str, outcome: Outcome) -> None:
        """Commit the end of an effect, now or, where the ledger is away, before the run's next word to it.

        The call is over and its recording has the result: the agent must not take a ledger's fault for the call's.
        Raises LeaseLost.
        """
        result = outcome.result
        finish = partial(
            self._lease.finish,
            tool=tool,
            key=key,
            failed=outcome.failure is not None or outcome.status is OutcomeStatus.CANCELLED,
            result_digest=b"" if result is None else result.digest,
            result=None if result is None else result.data,
        )
        try:
            finish()
        except LedgerError as error:
            self._untold.append(finish)
            _log.warning("the end of an effect is not in the ledger yet; the run goes on, it is told later: %s", error)

    # --- inside ---

    def _tell_late(self) -> None:
        """Commit the ends that the ledger could not take down, until one fails again."""
        while self._untold:
            finish = self._untold.popleft()
            try:
                finish()
            except LedgerError:
                self._untold.appendleft(finish)
                return

    def _settled(self, call: Call, place: Place, key: str, terms: Terms) -> Answer | None:
        """Return what the tool's status query says; None: it never happened. Raises EffectInDoubt."""
        run_id = self._lease.run_id.hex()
        if terms.recover is None:
            self._lease.doubt(tool=call.name, key=key)
            raise EffectInDoubt(run_id, place.step, call.name, key)
        try:
            value = _asked(terms.recover, key)
        except NotHappened:
            return None
        except Exception as error:
            self._lease.doubt(tool=call.name, key=key)
            raise EffectInDoubt(run_id, place.step, call.name, key) from error
        data, round_trips, notes = encode(value)
        result = Payload.of(data, _VALUE)
        self._lease.finish(tool=call.name, key=key, failed=False, result_digest=result.digest, result=result.data)
        return KnownAnswer(Outcome(OutcomeStatus.OK, result, round_trips=round_trips, notes=notes))

    def _known(self, call: Call, place: Place, key: str, intent: Intent) -> Answer:
        data = intent.result
        if data is None and intent.result_digest and self._continuation is not None:
            data = self._continuation.payload(intent.result_digest)
        if call.kind is Kind.HTTP or (data is None and intent.result_digest):
            raise EffectInDoubt(self._lease.run_id.hex(), place.step, call.name, key)
        return KnownAnswer(Outcome(OutcomeStatus.OK, Payload.of(data or encode(None).data, _VALUE)))

    def _key_of_step(self, place: Place) -> str:
        text = f"{self._lease.run_id.hex()}/{place.step}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _asked(recover: Callable[[str], Any], key: str) -> Any:
    """Return what a status query says. It is no part of the run; an async one gets an event loop of its own."""
    with outside_runs():
        value = recover(key)
        if not inspect.isawaitable(value):
            return value
        waited = _awaited(value)
        with ThreadPoolExecutor(1) as pool:  # the agent's own loop may be running here
            return pool.submit(copy_context().run, asyncio.run, waited).result()


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


class _LedgerEffect:
    """A call whose intent is committed."""

    __slots__ = ("_effects", "_key", "_tool")

    def __init__(self, effects: LedgerEffects, tool: str, key: str) -> None:
        self._effects = effects
        self._tool = tool
        self._key = key

    def finish(self, outcome: Outcome) -> None:
        """Commit what came of it; a call that never ended stays intended."""
        if outcome.status is not OutcomeStatus.PENDING:
            self._effects.ended(self._tool, self._key, outcome)

"""Declared functions as crossings: tools, decisions, retrievers, approvals.

One `Declaration` a function; `call`, `call_async`, `iterate` and `iterate_async` are the four fronts over the
same three steps: describe the call, run or serve it, end the crossing. Arguments are taken by value before
the function runs.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from otel_agent_replay import semconv
from otel_agent_replay.boundary.approvals import Grant, action_digest
from otel_agent_replay.boundary.crossing import Answer, Crossing, Place
from otel_agent_replay.boundary.effects import Terms
from otel_agent_replay.boundary.http_faults import report
from otel_agent_replay.boundary.outcomes import (
    NOT_KEPT,
    error_outcome,
    failed_items,
    items_outcome,
    value_outcome,
)
from otel_agent_replay.boundary.served_items import serve_items, serve_items_async
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.errors import AwaitingPerson
from otel_agent_replay.model import (
    AnswerSource,
    Approval,
    AttributeValue,
    Call,
    CaptureLevel,
    Kind,
    MediaType,
    Outcome,
    OutcomeStatus,
    Payload,
    SideEffect,
    make_call,
)
from otel_agent_replay.payload.arguments import PlainArguments
from otel_agent_replay.payload.codec import decode, encode
from otel_agent_replay.payload.failure import rebuild

_VALUE = MediaType.VALUE.value
_NO_NOTES: tuple[str, ...] = ()
_CHANGES = frozenset({SideEffect.WRITE, SideEffect.EXTERNAL})
_APPROVAL = Kind.APPROVAL  # naming a member costs 70 ns before Python 3.12
_time_ns = time.time_ns  # bound at import: our own clock reads are never recorded
KEY_PARAMETER = "idempotency_key"
"""Name under which a tool may ask for its key, and under which its status query gets it."""


@dataclass(frozen=True, slots=True)
class Safeguards:
    """What a tool or approval declared beyond its side effect.

    `recover` is asked, with the key as `idempotency_key` and the call's arguments, what became of a call that was cut
    off. `dry_run` rehearses the call where it must not happen; with `sandbox`, a URL, the function itself does, all its
    HTTP sent there. `needs_approval` lets no call pass without an approval
    of exactly its arguments; `approves` names the tool whose calls an approval is for. `key_parameter` is the
    parameter of the function that wants the key, "" for none.
    """

    recover: Callable[..., Any] | None = None
    dry_run: Callable[..., Any] | None = None
    sandbox: str = ""
    needs_approval: bool = False
    approves: str = ""
    key_parameter: str = ""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a decorated function was declared to be.

    `parameters` are its positional parameter names without self; `is_method` tells that the first argument is
    the instance, which is not recorded. `idempotency_key` is a parameter name or a function of the arguments.
    `plainly` writes arguments that are JSON as they are. `safeguards` is None where none was declared; with `capture`
    None as much is kept as of the run.
    """

    kind: Kind
    name: str
    side_effect: SideEffect
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    is_method: bool = False
    idempotency_key: str | Callable[..., str] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    safeguards: Safeguards | None = None
    capture: CaptureLevel | None = None
    plainly: PlainArguments = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plainly", PlainArguments(self.parameters))

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the call's arguments by parameter name, extra positional ones as `*args`."""
        given = args[1:] if self.is_method else args
        named = dict(zip(self.parameters, given))  # noqa: B905 - the rest is `*args`
        if len(given) > len(self.parameters):
            named["*args"] = list(given[len(self.parameters) :])
        named.update(kwargs)
        return named

    def key(self, session: Session, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the call's idempotency key, redacted; "" where it has none. What fails is told."""
        key = self.idempotency_key
        try:
            value = key(*args, **kwargs) if callable(key) else self._argument(key or "", args, kwargs)
            text = "" if value is None else str(value)
        except Exception as error:
            report(session, "asking for an idempotency key", error)
            return ""
        return session.redaction.text(text)

    def _argument(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return one argument of a call, also one that the caller left to its default; None for none."""
        given = self.arguments(args, kwargs)
        if name in given:
            return given[name]
        parameter = inspect.signature(self.function).parameters.get(name)
        return None if parameter is None or parameter.default is parameter.empty else parameter.default


def _begin(
    declaration: Declaration, here: tuple[Session, Place], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Crossing:
    """Take the arguments down by value now, and ask the session who answers the call, under the declared terms.

    Arguments that cannot be taken down do not stop the call: that is told, and they are not kept.
    """
    session, place = here
    capture = declaration.capture
    try:
        rules = session.redaction if capture is None else session.redaction.at(capture)
        round_trips, notes = True, _NO_NOTES
        data = declaration.plainly.encoded(args[1:] if declaration.is_method else args, kwargs)
        if data is None:
            data, round_trips, notes = encode(declaration.arguments(args, kwargs))
        made = make_call(
            declaration.kind,
            declaration.name,
            declaration.side_effect,
            Payload.of(rules.value_bytes(data), _VALUE),
            None,
            declaration.attributes,
            "" if declaration.idempotency_key is None else declaration.key(session, args, kwargs),
            round_trips,
            notes,
        )
    except Exception as error:
        made = _not_taken_down(declaration, session, error)
    if declaration.safeguards is None and (session.effects is None or made.side_effect not in _CHANGES):
        return session.begin(made if capture is None else _as_kept(declaration, made), place)
    return _begin_guarded(declaration, here, made, args, kwargs)


def _not_taken_down(declaration: Declaration, session: Session, error: Exception) -> Call:
    report(session, "taking down the arguments of a declared function", error)
    kind, name, side_effect = declaration.kind, declaration.name, declaration.side_effect
    notes = (f"the arguments were not kept: {type(error).__name__}",)
    return Call(kind, name, side_effect, NOT_KEPT, None, declaration.attributes, round_trips=False, notes=notes)


def _as_kept(declaration: Declaration, made: Call) -> Call:
    """Return the call with as much of its arguments as is to be kept: an approval is held against all of them."""
    return (
        made if declaration.capture is not CaptureLevel.DIGEST else replace(made, request=made.request.without_data())
    )


def _begin_guarded(
    declaration: Declaration,
    here: tuple[Session, Place],
    made: Call,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Crossing:
    session, place = here
    safeguards = declaration.safeguards or Safeguards()
    takes_key = bool(made.idempotency_key or safeguards.key_parameter)
    derives_key = not made.idempotency_key and declaration.kind is not Kind.APPROVAL
    if derives_key and not takes_key:
        made = replace(made, attributes={**made.attributes, semconv.IDEMPOTENCY_KEY_UNUSED: True})
    approval = None
    if safeguards.needs_approval:
        approval = action_digest(made.name, made.request.data or b"")
        session.approvals.spend(made.name, approval)
    recover = None
    if safeguards.recover is not None:
        recover = partial(_recovered, safeguards.recover, args, kwargs)
    terms = Terms(takes_key, recover, approval, derives_key)
    rehearses = safeguards.dry_run is not None or bool(safeguards.sandbox)
    crossing = session.begin(_as_kept(declaration, made), place, terms=terms, rehearses=rehearses)
    if crossing.source is AnswerSource.DRY_RUN:
        crossing.place.sandbox = safeguards.sandbox
    return crossing


def _recovered(recover: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], key: str) -> Any:
    return recover(*args, **{**kwargs, KEY_PARAMETER: key})


def _through(declaration: Declaration, crossing: Crossing, kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Return what is called: the function, with its key where it wants one, or its rehearsal."""
    safeguards = declaration.safeguards
    if safeguards is None:
        return declaration.function
    if crossing.source is AnswerSource.DRY_RUN and safeguards.dry_run is not None:
        return safeguards.dry_run
    key = safeguards.key_parameter
    if key and key not in kwargs and crossing.call.idempotency_key:
        return partial(declaration.function, **{key: crossing.call.idempotency_key})
    return declaration.function


def _ended(declaration: Declaration, crossing: Crossing, value: Any) -> None:
    """End a called-through crossing with its value."""
    session = crossing.session
    outcome = value_outcome(session, value, declaration.capture)
    if declaration.kind is _APPROVAL:
        grant, facts = _grant(declaration, crossing, value)
        crossing.finish(replace(outcome, attributes=facts))
        _granted(crossing, grant)
    else:
        crossing.finish(outcome)


def _failed(declaration: Declaration, crossing: Crossing, error: BaseException) -> None:
    """End a called-through crossing with what it raised; one that waits for a person does not end."""
    if isinstance(error, AwaitingPerson):
        session = crossing.session
        session.interrupt = session.interrupt or error
        if session.effects is not None:
            session.effects.awaits(crossing.place, crossing.call)
        crossing.finish(Outcome(OutcomeStatus.PENDING, notes=("it waits for a person's answer",)))
    else:
        crossing.finish(error_outcome(crossing.session, error, declaration.capture))


def _grant(
    declaration: Declaration, crossing: Crossing, value: Any
) -> tuple[Grant | None, Mapping[str, AttributeValue]]:
    """Return what an approval's answer grants (None: nothing), and its facts."""
    session, made = crossing.session, crossing.call
    given = value if isinstance(value, Approval) else Approval(bool(value))
    action = declaration.safeguards.approves if declaration.safeguards is not None else ""
    text = session.redaction.text
    digest = action_digest(action or made.name, made.request.data or b"")
    facts: dict[str, AttributeValue] = {
        semconv.APPROVAL_GRANTED: bool(given),
        semconv.APPROVAL_ACTION: action or made.name,
        semconv.APPROVAL_ACTION_DIGEST: digest.hex(),
        semconv.APPROVAL_STATE_DIGEST: session.last_state.hex(),
        semconv.APPROVAL_BY: text(given.by),
        semconv.APPROVAL_POLICY: text(given.policy),
        semconv.APPROVAL_ALLOWED: [text(one) for one in given.allowed],
    }
    if not given or not action:
        return None, facts
    state = session.last_state
    at_ns = 0 if crossing.source is AnswerSource.TAPE else _time_ns()  # when that was, the recording tells
    return Grant(digest, action, text(given.by), text(given.policy), given.allowed, at_ns, state), facts


def _granted(crossing: Crossing, grant: Grant | None) -> None:
    session = crossing.session
    if grant is not None:
        session.approvals.grant(grant)
        if session.effects is not None:  # also of one on the tape: the ledger spends none that it does not hold
            session.effects.granted(crossing.place, grant)


def _served_value(declaration: Declaration, crossing: Crossing, answer: Answer) -> Any:
    """End an answered crossing as recorded: return its value or raise its error.

    An approval on the tape is granted again: this session spends it, and a replay has no ledger to tell.
    """
    outcome, data = answer.bare, answer.data
    crossing.finish(outcome)
    if outcome.failure is not None:
        raise rebuild(outcome.failure)
    value = None if data is None else decode(data)
    if declaration.kind is _APPROVAL:
        _granted(crossing, _grant(declaration, crossing, value)[0])
    return value


def call(declaration: Declaration, here: tuple[Session, Place], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Cross with a plain function: return its value, live or served, or raise its error."""
    crossing = _begin(declaration, here, args, kwargs)
    answer = crossing.answer
    if answer is not None:
        answer.settle()
        return _served_value(declaration, crossing, answer)
    try:
        with crossing.inside():
            value = _through(declaration, crossing, kwargs)(*args, **kwargs)
    except BaseException as error:
        _failed(declaration, crossing, error)
        raise
    _ended(declaration, crossing, value)
    return value


async def call_async(
    declaration: Declaration, here: tuple[Session, Place], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Cross with a coroutine function: return its value, live or served, or raise its error."""
    crossing = _begin(declaration, here, args, kwargs)
    if crossing.answer is not None:
        try:
            await crossing.settle_async()
        except asyncio.CancelledError as error:
            _failed(declaration, crossing, error)
            raise
        return _served_value(declaration, crossing, crossing.answer)
    try:
        with crossing.inside():
            value = await _through(declaration, crossing, kwargs)(*args, **kwargs)
    except BaseException as error:
        _failed(declaration, crossing, error)
        raise
    _ended(declaration, crossing, value)
    return value


def iterate(
    declaration: Declaration, here: tuple[Session, Place], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Generator[Any, Any, Any]:
    """Cross with a generator function. Its items are recorded as they pass; the crossing ends when it does."""
    session, level = here[0], declaration.capture
    crossing = _begin(declaration, here, args, kwargs)
    if crossing.answer is not None:
        return (yield from serve_items(crossing))
    items: list[Any] = []
    crossing.leave = lambda: crossing.finish(items_outcome(session, level, items, None, closed_early=True))
    inner = _through(declaration, crossing, kwargs)(*args, **kwargs)
    try:
        with crossing.inside():
            item = next(inner)
        while True:
            items.append(encode(item))
            try:
                sent = yield item
            except GeneratorExit:
                with crossing.inside():
                    inner.close()
                crossing.finish(items_outcome(session, level, items, None, closed_early=True))
                raise
            except BaseException as thrown:  # thrown in by the consumer: the generator may answer it
                with crossing.inside():
                    item = inner.throw(thrown)
            else:
                with crossing.inside():
                    item = inner.send(sent)
    except StopIteration as stop:
        crossing.finish(items_outcome(session, level, items, stop.value))
        return stop.value
    except BaseException as error:
        crossing.finish(failed_items(session, level, items, error))
        raise


def iterate_async(
    declaration: Declaration, here: tuple[Session, Place], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AsyncGenerator[Any, Any]:
    """Cross with an async generator function: to be called when its first item is asked for."""
    crossing = _begin(declaration, here, args, kwargs)
    if crossing.answer is not None:
        return serve_items_async(crossing)
    return _live_items_async(declaration, crossing, args, kwargs)


async def _live_items_async(
    declaration: Declaration, crossing: Crossing, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AsyncGenerator[Any, Any]:
    session, level = crossing.session, declaration.capture
    items: list[Any] = []
    crossing.leave = lambda: crossing.finish(items_outcome(session, level, items, None, closed_early=True))
    inner = _through(declaration, crossing, kwargs)(*args, **kwargs)
    try:
        item = await _resumed(crossing, inner.__anext__())
        while True:
            items.append(encode(item))
            try:
                sent = yield item
            except GeneratorExit:
                with crossing.inside():
                    await inner.aclose()
                crossing.finish(items_outcome(session, level, items, None, closed_early=True))
                raise
            except BaseException as thrown:
                item = await _resumed(crossing, inner.athrow(thrown))
            else:
                item = await _resumed(crossing, inner.asend(sent))
    except StopAsyncIteration:
        crossing.finish(items_outcome(session, level, items, None))
    except BaseException as error:
        crossing.finish(failed_items(session, level, items, error))
        raise


async def _resumed(crossing: Crossing, step: Coroutine[Any, Any, Any]) -> Any:
    with crossing.inside():
        return await step

"""The decorators people write: agent, tool, decision, retriever, approval, user turn.

Each works on plain functions, coroutines, generators, async generators and methods, with or without
parentheses. Outside a run a decorated function is the function itself plus one comparison.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, NoReturn, TypeVar, overload
from urllib.parse import urlsplit

from otel_agent_replay import semconv
from otel_agent_replay.boundary import tools
from otel_agent_replay.boundary.effects import key_above
from otel_agent_replay.boundary.session import active_for_declared
from otel_agent_replay.capture.agents import AgentDeclaration, wrap
from otel_agent_replay.capture.relay import relayed
from otel_agent_replay.capture.signatures import parameters_of, takes
from otel_agent_replay.capture.surroundings import add_source
from otel_agent_replay.errors import AwaitingPerson, ConfigurationError
from otel_agent_replay.model import CaptureLevel, Kind, SideEffect
from otel_agent_replay.wire.text import whole_text

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def agent(function: Function, /) -> Function: ...
@overload
def agent(
    *,
    name: str | None = ...,
    version: str = ...,
    prompt_version: str = ...,
    policy_version: str = ...,
    index_version: str = ...,
    thread_id: str | Callable[..., str] | None = ...,
    subject: str | Callable[..., str] | None = ...,
    capture: CaptureLevel | str | None = ...,
    max_steps: int = ...,
    enter: Callable[..., Any] | None = ...,
) -> Callable[[Function], Function]: ...
def agent(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "",
    prompt_version: str = "",
    policy_version: str = "",
    index_version: str = "",
    thread_id: str | Callable[..., str] | None = None,
    subject: str | Callable[..., str] | None = None,
    capture: CaptureLevel | str | None = None,
    max_steps: int = 0,
    enter: Callable[..., Any] | None = None,
) -> Any:
    """Make each call of the function a run.

    `name` defaults to the function's. `thread_id` (the conversation) and `subject` (whose data it is) are the
    name of a parameter, a text, or a function of the call's arguments. `capture` is digest, redacted or full. A run
    that wants more than `max_steps` steps (0: no limit) is aborted.

        @replay.agent(version="7", thread_id="conversation")
        def support(question: str, conversation: str) -> str: ...

    With `enter` the agent can be entered at any of its resumable checkpoints: a fork then calls `enter(checkpoint,
    ...)` with the call's arguments in the place of the function, and nothing before the checkpoint runs.
    `checkpoint.name` says which one it is, `checkpoint.state` is what was handed over there. An agent that yields
    cannot be entered.

        def from_plan(checkpoint: replay.Checkpoint, question: str) -> str:
            return answer(question, checkpoint.state["plan"])

        @replay.agent(enter=from_plan)
        def support(question: str) -> str: ...
    """

    def decorate(inner: Callable[..., Any]) -> Callable[..., Any]:
        declaration = AgentDeclaration(
            inner,
            name=name,
            versions={
                "agent": version,
                "prompt": prompt_version,
                "policy": policy_version,
                "index": index_version,
            },
            thread_id=thread_id,
            subject=subject,
            capture=None if capture is None else CaptureLevel(capture),
            max_steps=max_steps,
            enter=enter,
        )
        return wrap(declaration)

    return decorate if function is None else decorate(function)


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str | None = ...,
    side_effect: SideEffect | str = ...,
    idempotency_key: str | Callable[..., str] | None = ...,
    recover: Callable[..., Any] | None = ...,
    dry_run: Callable[..., Any] | None = ...,
    sandbox: str = ...,
    approval: bool = ...,
    capture: CaptureLevel | str | None = ...,
) -> Callable[[Function], Function]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    side_effect: SideEffect | str = SideEffect.EXTERNAL,
    idempotency_key: str | Callable[..., str] | None = None,
    recover: Callable[..., Any] | None = None,
    dry_run: Callable[..., Any] | None = None,
    sandbox: str = "",
    approval: bool = False,
    capture: CaptureLevel | str | None = None,
) -> Any:
    """Declare a tool. `side_effect` is none, read, write or external (the default: the safest guess).

    `idempotency_key` is the name of a parameter that holds it, or a function of the call's arguments. With a ledger,
    one that is used again with other arguments raises KeyReused, unless the first call failed. A tool with a parameter
    named `idempotency_key` of its own that the caller leaves out is given one, the same at each attempt.
    `recover` is called with the arguments and `idempotency_key=` when an attempt died in the middle of a call: it
    returns the call's result or raises `NotHappened`. `dry_run` rehearses the call, with the same arguments, where
    forks and re-runs may not let it happen; with `sandbox`, the URL of a test system, the tool itself runs there: each
    of its HTTP requests is sent below that URL and nowhere else (its host has to be allowed to a fenced replay). With
    `approval` no call passes without an approval of exactly its arguments (`@replay.approval(action=...)`), which it
    uses up; else it raises ApprovalRequired. `capture` is how much is kept of its arguments and result, and of what it
    sends (default: as of the run): `full`, `redacted`, or `digest` for what must not be kept at all; a tool of which no
    result is kept cannot be answered in an exact replay. Raises ConfigurationError for a sandbox that is no URL.

        @replay.tool(side_effect="write", idempotency_key="order_id")
        def refund(order_id: str, cents: int) -> dict: ...
    """
    _check_rehearsal(dry_run, sandbox)

    def decorate(inner: Callable[..., Any]) -> Any:
        wants_key = idempotency_key is None and takes(inner, tools.KEY_PARAMETER)
        safeguards = None
        if recover is not None or dry_run is not None or sandbox or approval or wants_key:
            safeguards = tools.Safeguards(
                recover, dry_run, sandbox, approval, key_parameter=tools.KEY_PARAMETER if wants_key else ""
            )
        effect = SideEffect(side_effect)
        return _declare(
            inner,
            Kind.TOOL,
            name,
            effect,
            idempotency_key,
            operation="execute_tool",
            safeguards=safeguards,
            capture=None if capture is None else CaptureLevel(capture),
        )

    return decorate if function is None else decorate(function)


def decision(function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Declare a router, planner or classifier: its arguments and its choice are recorded."""
    return _declare(function, Kind.DECISION, name, SideEffect.NONE, None)


def retriever(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    capture: CaptureLevel | str | None = None,
) -> Any:
    """Declare a search for context: the query and the documents are recorded, as `capture` says (see `tool`)."""
    level = None if capture is None else CaptureLevel(capture)
    return _declare(function, Kind.RETRIEVAL, name, SideEffect.READ, None, operation="retrieval", capture=level)


def approval(function: Callable[..., Any] | None = None, /, *, name: str | None = None, action: str = "") -> Any:
    """Declare a function that asks a person: the action asked about and the answer are recorded, never asked twice.

    `action` is the name of the tool that is asked about: the function then takes the tool's arguments, and what it
    grants is good for one call of that tool with exactly these. It returns true or false, or an `Approval` that says
    who answered. A function that cannot wait calls `replay.suspend()`: the run stops, a person answers with
    `agent-replay decide`, and `agent-replay resume` goes on from there.
    """
    safeguards = tools.Safeguards(approves=action) if action else None
    return _declare(function, Kind.APPROVAL, name, SideEffect.EXTERNAL, None, safeguards=safeguards)


def user_turn(function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Declare a function that says something to the user and returns what they answer: a later turn of the same run.

    Its arguments are what the agent said. A re-run (`agent-replay rerun`) takes the recorded answer while what the
    agent says still fits it, and never asks anybody.
    """
    return _declare(function, Kind.INPUT, name, SideEffect.READ, None)


def suspend() -> NoReturn:
    """Stop the run until a person has answered the approval whose function this is called in.

    Raises AwaitingPerson, which ends the run as pending; ConfigurationError outside an approval.
    """
    here = active_for_declared()
    place = None if here is None else here[1]
    if here is None or place is None or place.kind is not Kind.APPROVAL:
        raise ConfigurationError("suspend() is for functions declared with @replay.approval, called inside a run")
    raise AwaitingPerson(here[0].run_id.hex(), place.step, place.name)


def idempotency_key() -> str:
    """Return the key of the tool call that the running code belongs to, "" outside one or where it has none."""
    here = active_for_declared()
    return "" if here is None else key_above(here[1])


def _check_rehearsal(dry_run: Callable[..., Any] | None, sandbox: str) -> None:
    """Raise ConfigurationError for what is no place to rehearse a call at."""
    if not sandbox:
        return
    if dry_run is not None:
        raise ConfigurationError("a tool has a dry_run= or a sandbox=, not both: which of them would be rehearsed?")
    parts = urlsplit(sandbox)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(f"sandbox={sandbox!r} is not like https://sandbox.example or https://host/path")


def _declare(
    function: Callable[..., Any] | None,
    kind: Kind,
    name: str | None,
    side_effect: SideEffect,
    idempotency_key: str | Callable[..., str] | None,
    operation: str = "",
    safeguards: tools.Safeguards | None = None,
    capture: CaptureLevel | None = None,
) -> Any:
    def decorate(inner: Callable[..., Any]) -> Callable[..., Any]:
        add_source(inner)
        called = whole_text(name or inner.__name__)
        attributes: dict[str, Any] = {}
        if operation:
            attributes[semconv.OPERATION_NAME] = operation
        if kind is Kind.TOOL:
            attributes[semconv.TOOL_NAME] = called
            attributes[semconv.TOOL_TYPE] = "function"
        if safeguards is not None and safeguards.approves:
            attributes[semconv.APPROVAL_ACTION] = whole_text(safeguards.approves)
        if capture is not None:
            attributes[semconv.CAPTURE] = capture.value
        parameters, is_method = parameters_of(inner)
        declaration = tools.Declaration(
            kind, called, side_effect, inner, parameters, is_method, idempotency_key, attributes, safeguards, capture
        )
        front = _front(inner, declaration)
        functools.update_wrapper(front, inner)
        return front

    return decorate if function is None else decorate(function)


def _front(inner: Callable[..., Any], declaration: tools.Declaration) -> Callable[..., Any]:
    if inspect.isasyncgenfunction(inner):

        def iterate_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            here = active_for_declared()
            if here is None:
                found: AsyncGenerator[Any, Any] = inner(*args, **kwargs)
                return found
            return tools.iterate_async(declaration, here, args, kwargs)

        return relayed(iterate_async)
    if inspect.isgeneratorfunction(inner):

        def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            here = active_for_declared()
            items = inner(*args, **kwargs) if here is None else tools.iterate(declaration, here, args, kwargs)
            return (yield from items)

        return iterate
    if inspect.iscoroutinefunction(inner):

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            here = active_for_declared()
            if here is None:
                return await inner(*args, **kwargs)
            return await tools.call_async(declaration, here, args, kwargs)

        return call_async

    def call(*args: Any, **kwargs: Any) -> Any:
        here = active_for_declared()
        if here is None:
            return inner(*args, **kwargs)
        return tools.call(declaration, here, args, kwargs)

    return call

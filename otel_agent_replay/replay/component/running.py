"""One case, run once in this process: hooks and fence up, the entry called, the log judged, everything put back.

`run_case` is what the command line's child and the test tool share. It imports the entry that the case names; the case
is the word of whoever runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from otel_agent_replay.boundary import ambient, clock, frameworks, transports, virtual_locks, virtual_time
from otel_agent_replay.boundary.runs import opening_runs
from otel_agent_replay.errors import (
    CannotJudge,
    ConfigurationError,
    FenceViolation,
    ReplayDeparture,
    ReplayInterrupt,
)
from otel_agent_replay.model import MediaType, Payload
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.replay.component.case import Case
from otel_agent_replay.replay.component.event_log import END, Event, seconds
from otel_agent_replay.replay.component.expected import expected_lines, log_differs, unmet
from otel_agent_replay.replay.component.invariants import Broken, broken_rules, states
from otel_agent_replay.replay.component.result import ComponentResult, ComponentStatus
from otel_agent_replay.replay.component.runs import ComponentRuns
from otel_agent_replay.replay.entry import load_entry
from otel_agent_replay.replay.fence import NAME as IN_PROCESS
from otel_agent_replay.replay.fence import Fence

_Function = Callable[..., Any]


class Refusing(Protocol):
    """A fence that stands; it tells `refused` what it refused the code of a run."""

    refused: Callable[[FenceViolation], None] | None


def run_case(case: Case, *, function: _Function | None = None, fence: Refusing | None = None) -> ComponentResult:
    """Run the case's entry (or `function` in its place) and judge it.

    `fence` stands already; without one the network and other processes are fenced off for as long as it takes. Raises
    ConfigurationError for a case that cannot be run as it is, CannotJudge inside a running event loop.
    """
    if asyncio._get_running_loop() is not None:
        raise CannotJudge("a component run starts an event loop of its own: call it from a function that is not async")
    with _environment(case):
        entry = load_entry(case.entry) if function is None else function
        _fits_input(case, entry)
        callbacks = {
            one.calls_back.entry: load_entry(one.calls_back.entry)
            for fixture in case.fixtures
            for one in fixture.attempts
            if one.calls_back is not None
        }
        expected = expected_lines(case)
        runs = ComponentRuns(case, callbacks)
        standing = Fence() if fence is None else fence
        standing.refused = runs.refused
        with component_hooks(), _virtual_time(), _seeded(case.seed), opening_runs(runs):
            try:
                if isinstance(standing, Fence):
                    standing.install()
                _call(runs, entry, case)
                runs.deliver_what_is_left()
            finally:
                if isinstance(standing, Fence):
                    standing.lift()
    return _judged(case, runs, expected)


def _call(runs: ComponentRuns, entry: _Function, case: Case) -> None:
    """Call the entry; one that is no agent gets a run around it. How it ended is in the event log."""
    session = None if getattr(entry, "agent_replay_agent", "") else runs.begin(getattr(entry, "__name__", case.entry))
    error: BaseException | None = None
    output = None
    try:
        with contextlib.nullcontext() if session is None else session.entered():
            output = _used(entry(**case.input))
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        error = raised
    if session is not None:
        kept = None if error is not None else Payload.of(encode(output).data, MediaType.VALUE.value)
        runs.close(session, output=kept, error=error)
    elif error is not None and not any(event.kind == END and event.run == 1 for event in runs.log.events):
        raise error  # it never became a run


def _used(result: Any) -> Any:
    """Return what a caller would have of a result: awaited, or the items of a generator."""
    if inspect.isasyncgen(result):
        return asyncio.run(_items(result))
    if inspect.isawaitable(result):
        return asyncio.run(_awaited(result))
    return list(result) if inspect.isgenerator(result) else result


async def _awaited(result: Any) -> Any:
    return await result


async def _items(result: Any) -> list[Any]:
    return [item async for item in result]


def _fits_input(case: Case, entry: _Function) -> None:
    try:
        inspect.signature(entry).bind(**case.input)
    except TypeError as error:
        raise ConfigurationError(f"the input of case {case.folder} does not fit {case.entry}: {error}") from error


# --- what stands around it ---


@contextlib.contextmanager
def component_hooks() -> Iterator[None]:
    """Keep what intercepts in place for several runs: putting it up and away again takes longer than most of them.

    Where it stands already (a configured process, another such block) nothing is put up or taken down.
    """
    stood = bool(clock.hooks)
    if not stood:
        transports.install()
        frameworks.install()
    _bind_new_names()
    try:
        yield
    finally:
        if not stood:
            ambient.uninstall()
            frameworks.uninstall()
            transports.uninstall()


_modules_known = 0


def _bind_new_names() -> None:
    """Install the hooks of clocks, waits and draws, also under the names that modules imported since then have."""
    global _modules_known
    if not clock.hooks or len(sys.modules) != _modules_known:
        ambient.install()
        _modules_known = len(sys.modules)


@contextlib.contextmanager
def _virtual_time() -> Iterator[None]:
    virtual_time.install()
    virtual_locks.install()
    try:
        yield
    finally:
        virtual_locks.uninstall()
        virtual_time.uninstall()


@contextlib.contextmanager
def _seeded(seed: str) -> Iterator[None]:
    """Seed what libraries draw from (the jitter of a client's retries), and give the generator back as it was."""
    before = random.getstate()
    random.seed(f"agent-replay {seed}")
    try:
        yield
    finally:
        random.setstate(before)


@contextlib.contextmanager
def _environment(case: Case) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in case.environment}
    os.environ.update(case.environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# --- the verdict ---


def _judged(case: Case, runs: ComponentRuns, expected: Any) -> ComponentResult:
    events = runs.log.events
    log = [event.line() for event in events]
    broken = broken_rules(case, events)
    diff: list[str] = []
    status, reason = ComponentStatus.HOLDS, ""
    interrupt = runs.interrupt
    if interrupt is not None:
        broken.insert(0, Broken(_rule(interrupt), 0, str(interrupt)))
        if type(interrupt) is ReplayInterrupt:
            status, reason = ComponentStatus.CANNOT_JUDGE, str(interrupt)
    else:
        broken += unmet(case, events)
    if expected is not None:
        diff = log_differs(expected, log)
    if status is ComponentStatus.HOLDS and (broken or diff):
        status = ComponentStatus.BROKEN
    end: Event | None = next((one for one in reversed(events) if one.kind == END and one.run == 1), None)
    return ComponentResult(
        case=str(case.folder),
        entry=case.entry,
        status=status,
        reason=reason,
        outcome="pending" if end is None else end.status,
        result=None if end is None else end.result,
        error="" if end is None else f"{end.error}: {end.message}" if end.error else "",
        states=[name for _, name in states(case.transitions, events)],
        elapsed_s=seconds(runs.waits.elapsed_ns),
        broken=broken if status is ComponentStatus.BROKEN else (),
        diff=diff,
        log=log,
        events=[event.document() for event in events],
        notes=[*runs.fixtures.unused(), *([] if expected is not None else ["no event log is expected: see --update"])],
        walls=(f"{IN_PROCESS} only",),
    )


def _rule(interrupt: ReplayInterrupt) -> str:
    return "no_fixture" if isinstance(interrupt, ReplayDeparture) else interrupt.code

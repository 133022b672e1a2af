"""`@replay.agent`: a function whose every call is a run. Sync, async, generators and async generators.

A run's context is entered anew for each resume of a generator and left before each `yield`, so that nothing
of ours is current in foreign code.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from typing import Any, TypeVar

from otel_agent_replay.boundary.callers import count_as_application
from otel_agent_replay.boundary.runs import RunFactory, RunRequest, run_factory
from otel_agent_replay.boundary.session import Session
from otel_agent_replay.boundary.tools import Declaration
from otel_agent_replay.capture.relay import relayed
from otel_agent_replay.capture.signatures import defaults_of, parameters_of
from otel_agent_replay.capture.surroundings import add_source
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import CaptureLevel, Kind, MediaType, Payload, SideEffect
from otel_agent_replay.payload.codec import encode
from otel_agent_replay.wire.text import whole_text

Function = TypeVar("Function", bound=Callable[..., Any])
_log = logging.getLogger("otel_agent_replay")
_said: set[object] = set()
_OURSELVES = __name__.partition(".")[0]
_VALUE = MediaType.VALUE.value


class AgentDeclaration:
    """What `@replay.agent` was told about a function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None,
        versions: Mapping[str, str],
        thread_id: str | Callable[..., str] | None,
        subject: str | Callable[..., str] | None,
        capture: CaptureLevel | None,
        max_steps: int = 0,
        enter: Callable[..., Any] | None = None,
    ) -> None:
        self.function = function
        self.max_steps = max_steps
        self._enter = enter
        add_source(function)
        if enter is not None:
            _check_entrance(function, enter)
            add_source(enter)
        self.name = whole_text(name or function.__name__)
        self.versions = {key: whole_text(str(value)) for key, value in versions.items() if value}
        self.thread_id = thread_id
        self.subject = subject
        self.capture = capture
        names, is_method = parameters_of(function)
        self._defaults = defaults_of(function)
        self._call = Declaration(Kind.RUN, self.name, SideEffect.NONE, function, names, is_method)
        package = function.__module__.partition(".")[0]
        if package != _OURSELVES:  # the agents of our own demo count as they are
            count_as_application(package)
        self.entry = f"{function.__module__}:{function.__qualname__}"

    def request(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RunRequest:
        """Return what is known of the run that this call starts."""
        named = self._call.arguments(args, kwargs)
        return RunRequest(
            agent=self.name,
            entry=self.entry,
            input=Payload.of(encode(named).data, _VALUE),
            thread_id=_text(self.thread_id, {**self._defaults, **named}, args, kwargs),
            subject=_text(self.subject, {**self._defaults, **named}, args, kwargs),
            capture=self.capture,
            versions=self.versions,
            max_steps=self.max_steps,
            enters=self._enter is not None,
        )

    def body(self, session: Session) -> Callable[..., Any]:
        """Return what a run of the agent calls: its function, or what enters it at a checkpoint."""
        enter, checkpoint = self._enter, session.entered_at
        if enter is None or checkpoint is None:
            return self.function
        first = 1 if self._call.is_method else 0
        return lambda *args, **kwargs: enter(*args[:first], checkpoint, *args[first:], **kwargs)


def _check_entrance(function: Callable[..., Any], enter: Callable[..., Any]) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"agent {function.__qualname__} yields, so that it cannot be entered: what it had yielded would be missing"
        )
    if inspect.iscoroutinefunction(function) != inspect.iscoroutinefunction(enter):
        name = getattr(enter, "__qualname__", repr(enter))
        raise ConfigurationError(
            f"{name} must be `async` exactly if the agent that it enters is: {function.__qualname__}"
        )


def _text(
    given: str | Callable[..., str] | None, named: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    """Resolve a name: of a parameter, else the text itself; a function is asked with the call's arguments."""
    if given is None:
        return ""
    try:
        found = given(*args, **kwargs) if callable(given) else named.get(given, given)
        return "" if found is None else str(found)
    except Exception as error:
        if given not in _said:
            _said.add(given)
            _log.warning("runs are recorded without a thread id or subject: asking for it failed", exc_info=error)
        return ""


def wrap(declaration: AgentDeclaration) -> Callable[..., Any]:
    """Return the function that opens a run around each call of the declared one."""
    function = declaration.function
    if inspect.isasyncgenfunction(function):
        wrapped = _async_generator_front(declaration)
    elif inspect.isgeneratorfunction(function):
        wrapped = _generator_front(declaration)
    elif inspect.iscoroutinefunction(function):
        wrapped = _coroutine_front(declaration)
    else:
        wrapped = _plain_front(declaration)
    functools.update_wrapper(wrapped, function)
    vars(wrapped)["agent_replay_agent"] = declaration.name  # tells callers that it opens a run by itself
    return wrapped


def open_run(declaration: AgentDeclaration, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _OpenRun | None:
    """Open the run of a call, or return None when nothing records here."""
    factory = run_factory()
    if factory is None:
        return None
    session = factory.open(declaration.request(args, kwargs))
    return None if session is None else _OpenRun(factory, session)


class _OpenRun:
    """A run between its begin and its one end."""

    def __init__(self, factory: RunFactory, session: Session) -> None:
        self._factory = factory
        self.session = session
        self._closed = False

    def succeed(self, value: Any) -> None:
        self._close(Payload.of(encode(value).data, _VALUE), None)

    def succeed_with(self, items: _Items, end: str, value: Any) -> None:
        """End a run that yielded: `end` tells how it ended (`returned`, or `closed` by its consumer)."""
        self._close(items.payload(end, value), None)

    def fail(self, error: BaseException) -> None:
        self._close(None, error)

    def _close(self, output: Payload | None, error: BaseException | None) -> None:
        if not self._closed:
            self._closed = True
            self._factory.close(self.session, output=output, error=error)


class _Items:
    """What a generator has given so far, each item taken by value: the consumer may go on to change it."""

    def __init__(self) -> None:
        self._taken: list[bytes] = []

    def append(self, item: Any) -> None:
        """Take one."""
        self._taken.append(encode(item).data)

    def payload(self, end: str, value: Any) -> Payload:
        """Return the items and how they ended as one typed value."""
        return Payload.of(
            b'{"yielded":[%s],"%s":%s}' % (b",".join(self._taken), end.encode(), encode(value).data), _VALUE
        )


def _plain_front(declaration: AgentDeclaration) -> Callable[..., Any]:
    function = declaration.function

    def agent(*args: Any, **kwargs: Any) -> Any:
        run = open_run(declaration, args, kwargs)
        if run is None:
            return function(*args, **kwargs)
        try:
            with run.session.entered():
                value = declaration.body(run.session)(*args, **kwargs)
        except BaseException as error:
            run.fail(error)
            raise
        run.succeed(value)
        return value

    return agent


def _coroutine_front(declaration: AgentDeclaration) -> Callable[..., Any]:
    function = declaration.function

    async def agent(*args: Any, **kwargs: Any) -> Any:
        run = open_run(declaration, args, kwargs)
        if run is None:
            return await function(*args, **kwargs)
        try:
            with run.session.entered():
                value = await declaration.body(run.session)(*args, **kwargs)
        except BaseException as error:
            run.fail(error)
            raise
        run.succeed(value)
        return value

    return agent


def _generator_front(declaration: AgentDeclaration) -> Callable[..., Any]:
    function = declaration.function

    def agent(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        run = open_run(declaration, args, kwargs)
        inner = function(*args, **kwargs)
        if run is None:
            return (yield from inner)
        items = _Items()
        try:
            with run.session.entered():
                item = next(inner)
            while True:
                items.append(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    with run.session.entered():
                        inner.close()
                    run.succeed_with(items, "closed", True)
                    raise
                except BaseException as thrown:  # thrown in by the consumer
                    with run.session.entered():
                        item = inner.throw(thrown)
                else:
                    with run.session.entered():
                        item = inner.send(sent)
        except StopIteration as stop:
            run.succeed_with(items, "returned", stop.value)
            return stop.value
        except BaseException as error:
            run.fail(error)
            raise

    return agent


def _async_generator_front(declaration: AgentDeclaration) -> Callable[..., Any]:
    function = declaration.function

    def agent(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run = open_run(declaration, args, kwargs)
        inner = function(*args, **kwargs)
        return inner if run is None else recorded(run, inner)

    async def recorded(run: _OpenRun, inner: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
        items = _Items()
        left = False  # a consumer that leaves, or a loop that ends, may come as either of two exceptions
        try:
            item = await _resumed(run.session, inner.__anext__())
            while True:
                items.append(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    left = True
                    await _resumed(run.session, inner.aclose())
                    run.succeed_with(items, "closed", True)
                    raise
                except BaseException as thrown:  # thrown in by the consumer
                    left = isinstance(thrown, asyncio.CancelledError)
                    item = await _resumed(run.session, inner.athrow(thrown))
                else:
                    item = await _resumed(run.session, inner.asend(sent))
        except StopAsyncIteration:
            run.succeed_with(items, "returned", None)
        except BaseException as error:
            if left and isinstance(error, (GeneratorExit, asyncio.CancelledError)):
                run.succeed_with(items, "closed", True)
            else:
                run.fail(error)
            raise

    return relayed(agent)


async def _resumed(session: Session, step: Coroutine[Any, Any, Any]) -> Any:
    with session.entered():
        return await step

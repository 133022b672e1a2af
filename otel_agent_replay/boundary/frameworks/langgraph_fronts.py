"""The methods that stand before those of a LangGraph saver: thin, one for each way that a method can be called.

Each makes its `original` a method of the same signature, and calls it as it was called. What is recorded is
`langgraph_saves`' and `langgraph_loads`'. `module` is `langgraph.checkpoint.base`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

from otel_agent_replay.boundary import tools
from otel_agent_replay.boundary.frameworks.langgraph_loads import Load
from otel_agent_replay.boundary.frameworks.langgraph_savers import here_outside_a_saver, unrecorded
from otel_agent_replay.boundary.frameworks.langgraph_saves import SavedChange, SavedState, SavedWrites, saving

Method = Callable[..., Any]


def _save(original: Method, module: ModuleType) -> Method:
    @functools.wraps(original)
    def put(self: Any, config: Any, checkpoint: Any, metadata: Any, *more: Any, **options: Any) -> Any:
        here = here_outside_a_saver(self, config)
        if here is None:
            return original(self, config, checkpoint, metadata, *more, **options)
        saved = SavedState(module, config, checkpoint, metadata)
        with saving(here, saved, self) as target:
            if target is None:
                return saved.config
            write = original if target is self else type(target).put
            return write(target, config, checkpoint, metadata, *more, **options)

    return put


def _save_async(original: Method, module: ModuleType) -> Method:
    @functools.wraps(original)
    async def aput(self: Any, config: Any, checkpoint: Any, metadata: Any, *more: Any, **options: Any) -> Any:
        here = here_outside_a_saver(self, config)
        if here is None:
            return await original(self, config, checkpoint, metadata, *more, **options)
        saved = SavedState(module, config, checkpoint, metadata)
        with saving(here, saved, self) as target:
            if target is None:
                return saved.config
            write = original if target is self else type(target).aput
            return await write(target, config, checkpoint, metadata, *more, **options)

    return aput


def _save_writes(original: Method, module: ModuleType) -> Method:  # noqa: ARG001 - as the other fronts
    @functools.wraps(original)
    def put_writes(self: Any, config: Any, writes: Any, task_id: str, *more: Any, **options: Any) -> None:
        here = here_outside_a_saver(self, config)
        if here is None:
            original(self, config, writes, task_id, *more, **options)
            return
        with saving(here, SavedWrites(config, writes, task_id, _path(more, options)), self) as target:
            if target is not None:
                write = original if target is self else type(target).put_writes
                write(target, config, writes, task_id, *more, **options)

    return put_writes


def _save_writes_async(original: Method, module: ModuleType) -> Method:  # noqa: ARG001 - as the other fronts
    @functools.wraps(original)
    async def aput_writes(self: Any, config: Any, writes: Any, task_id: str, *more: Any, **options: Any) -> None:
        here = here_outside_a_saver(self, config)
        if here is None:
            await original(self, config, writes, task_id, *more, **options)
            return
        with saving(here, SavedWrites(config, writes, task_id, _path(more, options)), self) as target:
            if target is not None:
                write = original if target is self else type(target).aput_writes
                await write(target, config, writes, task_id, *more, **options)

    return aput_writes


def _path(more: tuple[Any, ...], options: dict[str, Any]) -> str:
    return str(more[0] if more else options.get("task_path", ""))


def _change(original: Method, module: ModuleType) -> Method:
    name = original.__name__

    @functools.wraps(original)
    def change(self: Any, *args: Any, **options: Any) -> None:
        here = here_outside_a_saver(self)
        if here is None:
            original(self, *args, **options)
            return
        with saving(here, SavedChange(name, original, (self, *args), options), self) as target:
            if target is self:
                original(self, *args, **options)
            elif target is not None and _can(target, name, module):
                getattr(target, name)(*args, **options)

    return change


def _change_async(original: Method, module: ModuleType) -> Method:
    name = original.__name__

    @functools.wraps(original)
    async def change(self: Any, *args: Any, **options: Any) -> None:
        here = here_outside_a_saver(self)
        if here is None:
            await original(self, *args, **options)
            return
        with saving(here, SavedChange(name.removeprefix("a"), original, (self, *args), options), self) as target:
            if target is self:
                await original(self, *args, **options)
            elif target is not None and _can(target, name, module):
                await getattr(target, name)(*args, **options)

    return change


def _can(saver: Any, name: str, module: ModuleType) -> bool:
    """Whether a saver has a method of its own for this; the interface's says only that there is none."""
    return getattr(type(saver), name) is not getattr(module.BaseCheckpointSaver, name, None)


def _load(original: Method, module: ModuleType) -> Method:  # noqa: ARG001 - as the other fronts
    name = original.__name__

    @functools.wraps(original)
    def load(self: Any, *args: Any, **options: Any) -> Any:
        here = here_outside_a_saver(self, options.get("config", args[0] if args else None))
        if here is None:
            return original(self, *args, **options)
        asked = Load(here, self, name, inspect.signature(original).bind(self, *args, **options).arguments)

        def call(**_: Any) -> Any:
            with unrecorded():
                for target in asked.targets():
                    method = original if target is self else getattr(type(target), name)
                    if asked.took(method(target, *args, **options)):
                        break
            return asked.kept()

        if asked.takes_restored():
            return asked.given(call())
        return asked.given(tools.call(asked.declaration(call), here, (), asked.request))

    return load


def _load_async(original: Method, module: ModuleType) -> Method:  # noqa: ARG001 - as the other fronts
    name = original.__name__

    @functools.wraps(original)
    async def load(self: Any, *args: Any, **options: Any) -> Any:
        here = here_outside_a_saver(self, options.get("config", args[0] if args else None))
        if here is None:
            return await original(self, *args, **options)
        asked = Load(here, self, name, inspect.signature(original).bind(self, *args, **options).arguments)

        async def call(**_: Any) -> Any:
            with unrecorded():
                for target in asked.targets():
                    method = original if target is self else getattr(type(target), name)
                    if asked.took(await method(target, *args, **options)):
                        break
            return asked.kept()

        if asked.takes_restored():
            return asked.given(await call())
        return asked.given(await tools.call_async(asked.declaration(call), here, (), asked.request))

    return load


def _list(original: Method, module: ModuleType) -> Method:  # noqa: ARG001 - as the other fronts
    @functools.wraps(original)
    def list_tuples(self: Any, *args: Any, **options: Any) -> Iterator[Any]:
        here = here_outside_a_saver(self, options.get("config", args[0] if args else None))
        if here is None:
            yield from original(self, *args, **options)
            return
        asked = Load(here, self, "list", inspect.signature(original).bind(self, *args, **options).arguments)

        def items(**_: Any) -> Iterator[Any]:
            for target in asked.targets():
                method = original if target is self else type(target).list
                found = iter(method(target, *args, **options))
                while True:
                    with unrecorded():
                        one = next(found, None)
                    if one is None:
                        break
                    asked.took(one)
                    yield asked.kept()

        for kept in tools.iterate(asked.declaration(items), here, (), asked.request):
            yield asked.given(kept)

    return list_tuples


def _list_async(original: Method, module: ModuleType) -> Method:  # noqa: ARG001 - as the other fronts
    @functools.wraps(original)
    async def list_tuples(self: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        here = here_outside_a_saver(self, options.get("config", args[0] if args else None))
        if here is None:
            async for one in original(self, *args, **options):
                yield one
            return
        asked = Load(here, self, "alist", inspect.signature(original).bind(self, *args, **options).arguments)

        async def items(**_: Any) -> AsyncIterator[Any]:
            for target in asked.targets():
                method = original if target is self else type(target).alist
                found = method(target, *args, **options).__aiter__()
                while True:
                    try:
                        with unrecorded():
                            one = await found.__anext__()
                    except StopAsyncIteration:
                        break
                    asked.took(one)
                    yield asked.kept()

        async for kept in tools.iterate_async(asked.declaration(items), here, (), asked.request):
            yield asked.given(kept)

    return list_tuples


FRONTS: dict[str, Callable[[Method, ModuleType], Method]] = {
    "put": _save,
    "aput": _save_async,
    "put_writes": _save_writes,
    "aput_writes": _save_writes_async,
    **dict.fromkeys(("delete_thread", "delete_for_runs", "copy_thread", "prune"), _change),
    **dict.fromkeys(("adelete_thread", "adelete_for_runs", "acopy_thread", "aprune"), _change_async),
    "get_tuple": _load,
    "aget_tuple": _load_async,
    "get_delta_channel_history": _load,
    "aget_delta_channel_history": _load_async,
    "list": _list,
    "alist": _list_async,
}
"""By the name of the method."""

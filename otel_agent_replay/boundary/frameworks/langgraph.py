"""LangGraph's checkpointers: what a graph saves becomes checkpoints of the run, what it loads is an answer on the tape.

Hooked at the one interface that LangGraph documents for them: the methods of every subclass of `BaseCheckpointSaver`,
as it is defined. A saver's own work is never changed while recording; its `delete_thread`, `copy_thread` and `prune`
are not stood in front of. A replay, a fork or a re-run writes nothing into a saver that outlives the process: what it
saves goes to a saver of its own in memory (`langgraph_savers`), and what it loads is looked for there first.

Which node runs when is LangGraph's affair. By default it saves in the background, while the next nodes run already,
so a checkpoint's step may come after that of a call which those have begun.
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
from otel_agent_replay.boundary.frameworks.langgraph_saves import SavedState, SavedWrites, saving
from otel_agent_replay.boundary.hooks import Hooks

Method = Callable[..., Any]

hooks = Hooks()


def hook(module: ModuleType) -> None:
    """Stand in front of every saver that is there or is defined later; `module` is `langgraph.checkpoint.base`."""
    saver = module.BaseCheckpointSaver
    inherited = vars(saver).get("__init_subclass__")

    def init_subclass(cls: type[Any], /, **options: Any) -> None:
        if inherited is None:
            super(saver, cls).__init_subclass__(**options)
        else:
            inherited.__get__(None, cls)(**options)
        _stand_before(cls, module)

    hooks.replace(saver, "__init_subclass__", classmethod(init_subclass))
    for cls in _below(saver):
        _stand_before(cls, module)


def unhook(module: ModuleType) -> None:  # noqa: ARG001 - every framework's hooks are taken out by one call
    """Put every original back."""
    hooks.undo()


def _below(cls: type[Any]) -> Iterator[type[Any]]:
    child: type[Any]
    for child in cls.__subclasses__():
        yield child
        yield from _below(child)


def _stand_before(cls: type, module: ModuleType) -> None:
    """Replace the methods that this class adds; those of a mix-in that is no saver count as its own."""
    saver = module.BaseCheckpointSaver
    for name, front in _FRONTS.items():
        owner = next((one for one in cls.__mro__ if name in vars(one)), None)
        if owner is cls or (owner is not None and not issubclass(owner, saver) and not issubclass(saver, owner)):
            hooks.replace(cls, name, front(getattr(cls, name), module))


def _save(original: Method, module: ModuleType) -> Method:
    @functools.wraps(original)
    def put(self: Any, config: Any, checkpoint: Any, metadata: Any, *more: Any, **options: Any) -> Any:
        here = here_outside_a_saver()
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
        here = here_outside_a_saver()
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
        here = here_outside_a_saver()
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
        here = here_outside_a_saver()
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


def _load(original: Method, module: ModuleType) -> Method:  # noqa: ARG001 - as the other fronts
    name = original.__name__

    @functools.wraps(original)
    def load(self: Any, *args: Any, **options: Any) -> Any:
        here = here_outside_a_saver()
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

        return asked.given(tools.call(asked.declaration(call), here, (), asked.request))

    return load


def _load_async(original: Method, module: ModuleType) -> Method:  # noqa: ARG001 - as the other fronts
    name = original.__name__

    @functools.wraps(original)
    async def load(self: Any, *args: Any, **options: Any) -> Any:
        here = here_outside_a_saver()
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

        return asked.given(await tools.call_async(asked.declaration(call), here, (), asked.request))

    return load


def _list(original: Method, module: ModuleType) -> Method:  # noqa: ARG001 - as the other fronts
    @functools.wraps(original)
    def list_tuples(self: Any, *args: Any, **options: Any) -> Iterator[Any]:
        here = here_outside_a_saver()
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
        here = here_outside_a_saver()
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


_FRONTS: dict[str, Callable[[Method, ModuleType], Method]] = {
    "put": _save,
    "aput": _save_async,
    "put_writes": _save_writes,
    "aput_writes": _save_writes_async,
    "get_tuple": _load,
    "aget_tuple": _load_async,
    "get_delta_channel_history": _load,
    "aget_delta_channel_history": _load_async,
    "list": _list,
    "alist": _list_async,
}

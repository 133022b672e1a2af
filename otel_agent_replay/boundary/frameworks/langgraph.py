"""LangGraph's checkpointers: what a graph saves becomes checkpoints of the run, what it loads is an answer on the tape.

Hooked at the one interface that LangGraph documents for them: the methods of every subclass of `BaseCheckpointSaver`,
as it is defined. A saver's own work is never changed while recording. A replay, a fork or a re-run writes nothing into
a saver that outlives the process: what it saves goes to a saver of its own in memory (`langgraph_savers`), and what it
loads is looked for there first.

Which node runs when is LangGraph's affair. By default it saves in the background, while the next nodes run already,
so a checkpoint's step may come after that of a call which those have begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from otel_agent_replay.boundary.frameworks.langgraph_fronts import FRONTS
from otel_agent_replay.boundary.hooks import Hooks

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
    for name, front in FRONTS.items():
        owner = next((one for one in cls.__mro__ if name in vars(one)), None)
        if owner is cls or (owner is not None and not issubclass(owner, saver) and not issubclass(saver, owner)):
            hooks.replace(cls, name, front(getattr(cls, name), module))

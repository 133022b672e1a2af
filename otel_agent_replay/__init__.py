"""The flight recorder and the time machine for AI agents, on the OpenTelemetry you already have.

    import otel_agent_replay as replay

    replay.configure()

    @replay.tool(side_effect="write", idempotency_key="order_id")
    def refund(order_id: str, cents: int) -> dict: ...

    @replay.agent(version="7")
    def support(question: str) -> str: ...

Importing it is light: each name is loaded when it is first asked for, storage and analysis when they are used.
"""

# ruff: noqa: TC004 - `__getattr__` loads them

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agent_replay.capture.checkpoints import checkpoint
    from otel_agent_replay.capture.decorators import (
        agent,
        approval,
        decision,
        idempotency_key,
        retriever,
        suspend,
        tool,
        user_turn,
    )
    from otel_agent_replay.capture.kept_states import flag
    from otel_agent_replay.capture.scopes import step, versions
    from otel_agent_replay.configure import configure, shutdown
    from otel_agent_replay.errors import (
        AgentReplayError,
        ApprovalRequired,
        AwaitingPerson,
        CannotJudge,
        ConfigurationError,
        CrossingRefused,
        EffectInDoubt,
        EffectRunning,
        FenceViolation,
        FingerprintChanged,
        KeyReused,
        LeaseLost,
        LedgerError,
        NotHappened,
        ReplayDeparture,
        ReplayInterrupt,
        RunBusy,
        RunNotFound,
        StepLimit,
    )
    from otel_agent_replay.model import Approval, CaptureLevel, Checkpoint, SideEffect
    from otel_agent_replay.resume import resume

__all__ = [
    "AgentReplayError",
    "Approval",
    "ApprovalRequired",
    "AwaitingPerson",
    "CannotJudge",
    "CaptureLevel",
    "Checkpoint",
    "ConfigurationError",
    "CrossingRefused",
    "EffectInDoubt",
    "EffectRunning",
    "FenceViolation",
    "FingerprintChanged",
    "KeyReused",
    "LeaseLost",
    "LedgerError",
    "NotHappened",
    "ReplayDeparture",
    "ReplayInterrupt",
    "RunBusy",
    "RunNotFound",
    "SideEffect",
    "StepLimit",
    "agent",
    "approval",
    "checkpoint",
    "configure",
    "decision",
    "flag",
    "idempotency_key",
    "resume",
    "retriever",
    "shutdown",
    "step",
    "suspend",
    "tool",
    "user_turn",
    "versions",
]

_PLACES = {
    "capture.checkpoints": ("checkpoint",),
    "capture.decorators": (
        "agent",
        "approval",
        "decision",
        "idempotency_key",
        "retriever",
        "suspend",
        "tool",
        "user_turn",
    ),
    "capture.kept_states": ("flag",),
    "capture.scopes": ("step", "versions"),
    "configure": ("configure", "shutdown"),
    "model": ("Approval", "CaptureLevel", "Checkpoint", "SideEffect"),
    "resume": ("resume",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}


class _Package(ModuleType):
    """This package: a command that needs none of its names (`agent-replay runs`) waits for none of them."""

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_PLACE_OF.get(name, 'errors')}"), name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds a submodule here once it is loaded: `configure` and `resume` stay the functions.
        if not (isinstance(value, ModuleType) and name in __all__):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package

"""The flight recorder and the time machine for AI agents, on the OpenTelemetry you already have.

    import otel_agent_replay as replay

    replay.configure()

    @replay.tool(side_effect="write", idempotency_key="order_id")
    def refund(order_id: str, cents: int) -> dict: ...

    @replay.agent(version="7")
    def support(question: str) -> str: ...

Importing it is light: storage and analysis load only when they are used.
"""

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

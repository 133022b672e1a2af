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
from otel_agent_replay.capture.decorators import agent, approval, decision, retriever, tool
from otel_agent_replay.capture.scopes import step, versions
from otel_agent_replay.configure import configure, shutdown
from otel_agent_replay.errors import (
    AgentReplayError,
    CannotJudge,
    ConfigurationError,
    FenceViolation,
    ReplayDeparture,
    ReplayInterrupt,
    RunNotFound,
)
from otel_agent_replay.model import CaptureLevel, SideEffect

__all__ = [
    "AgentReplayError",
    "CannotJudge",
    "CaptureLevel",
    "ConfigurationError",
    "FenceViolation",
    "ReplayDeparture",
    "ReplayInterrupt",
    "RunNotFound",
    "SideEffect",
    "agent",
    "approval",
    "checkpoint",
    "configure",
    "decision",
    "retriever",
    "shutdown",
    "step",
    "tool",
    "versions",
]

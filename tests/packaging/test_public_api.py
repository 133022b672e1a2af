"""The public surface is a decision, not an accident."""

import otel_agent_replay as replay

GOLDEN = [
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


def test_exported_names_are_the_golden_list() -> None:
    """`__all__` is exactly what was decided to be public."""
    assert list(replay.__all__) == GOLDEN


def test_every_exported_name_exists_and_is_documented() -> None:
    """Each public name resolves and has a docstring of its own."""
    for name in GOLDEN:
        assert getattr(replay, name).__doc__, name

"""The public surface is a decision, not an accident."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

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


def test_a_type_checker_is_told_the_places_that_the_names_come_from() -> None:
    """Each name is imported for type checkers from where it is loaded."""
    tree = ast.parse(Path(replay.__file__).read_text(encoding="utf-8"))
    told = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("otel_agent_replay")
        for alias in node.names
    }
    assert sorted(told) == sorted(GOLDEN)
    for name, place in told.items():
        assert getattr(replay, name) is getattr(import_module(place), name), name


def test_a_module_of_the_same_name_does_not_take_a_functions_place() -> None:
    """`replay.configure` and `replay.resume` are functions, whoever loaded the modules that they live in, and when."""
    code = (
        "import otel_agent_replay as replay, otel_agent_replay.configure, otel_agent_replay.resume\n"
        "from otel_agent_replay import configure, resume\n"
        "assert replay.configure is configure and replay.resume is resume\n"
        "print(type(configure).__name__, type(resume).__name__, set(replay.__all__) <= set(dir(replay)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["function", "function", "True"]


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    """A typing error is an AttributeError that names it, also to `hasattr`."""
    assert not hasattr(replay, "recrod")

"""Component cases in a test: `run_component("cases/refund-timeout").check()`.

Light to import: what runs a case is loaded when one is run. It runs in the test's own process, so that a test may patch
and inspect what it likes; the network and other processes are fenced off meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agent_replay.replay.component.result import ComponentResult


def run_component(case: str | Path | dict[str, Any], *, function: Callable[..., Any] | None = None) -> ComponentResult:
    """Run a case (its folder, or what its `case.yaml` would say) and return what came of it.

    `function` is called in place of the case's entry. The result's `holds`, `broken`, `diff`, `log` and `events` say
    what came of it; `check()` raises AssertionError where the case does not hold. Raises ConfigurationError for a case
    that cannot be run as it is, CannotJudge when it is called in a running event loop.

        def test_a_refund_that_times_out_is_not_made_twice():
            run_component("cases/refund-timeout").check()
    """
    from otel_agent_replay.replay.component.case import Case
    from otel_agent_replay.replay.component.running import run_case

    loaded = Case.of(case, Path.cwd()) if isinstance(case, dict) else Case.load(case)
    return run_case(loaded, function=function)


def component_hooks() -> AbstractContextManager[None]:
    """Return a block in which what intercepts stays in place, so that many cases run quicker: for a session's fixture.

    Where it stands already, in a configured process say, the block changes nothing.
    """
    from otel_agent_replay.replay.component import running

    return running.component_hooks()

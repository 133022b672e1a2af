"""What pytest calls: the mark `replay`, the fixture `replay_run`, the option `--replay-record`.

    @pytest.mark.replay("cases/refund-twice", entry="app.agents:support")
    def test_no_refund_twice(replay_run):
        replay_run.check()

Loads nothing of storage or replay until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from otel_agent_replay.pytest_plugin.replayed import ReplayedCase

MARK = (
    "replay(case, *, entry='', agent=None, **options): replay a kept case (a folder) with today's code; entry is "
    "pkg.mod:func, agent the function itself, both before the case's own entry"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--replay-record`."""
    group = parser.getgroup("agent-replay", "kept cases of agents")
    group.addoption(
        "--replay-record",
        action="store_true",
        help="Go on live where a case departs, and keep the run that holds as the one that is replayed from now on. "
        "Models are asked and cost money; nothing is written by the agent's tools.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", MARK)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marked test that never looks at its replay: it would pass whatever the agent does."""
    if item.get_closest_marker("replay") is not None and "replay_run" not in getattr(item, "fixturenames", ()):
        pytest.fail(
            f"{item.name} is marked replay and does not take the fixture replay_run: nothing would be replayed",
            pytrace=False,
        )


@pytest.fixture
def replay_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ReplayedCase:
    """Return the marked case, replayed with today's code: `.run`, `.verdict`, `.check()`."""
    mark = request.node.get_closest_marker("replay")
    if mark is None:
        pytest.fail("replay_run needs the mark: @pytest.mark.replay('cases/x')", pytrace=False)
    from otel_agent_replay.errors import AgentReplayError
    from otel_agent_replay.pytest_plugin.replayed import replayed

    try:
        case, options = _asked(*mark.args, **mark.kwargs)
        return replayed(
            case,
            options,
            places=(request.node.path.parent, request.config.rootpath),
            work=tmp_path_factory.mktemp("replay") / "trials",
            record=request.config.getoption("--replay-record"),
        )
    except AgentReplayError as error:
        pytest.fail(f"{error.code}: {error}", pytrace=False)
    except TypeError as error:
        pytest.fail(f"@pytest.mark.replay is {MARK}; {error}", pytrace=False)


def _asked(
    case: str, *, entry: str = "", agent: Callable[..., Any] | None = None, **options: Any
) -> tuple[str, dict[str, Any]]:
    if agent is not None and not entry:
        entry = f"{agent.__module__}:{agent.__qualname__}"
    return case, {"entry": entry, **options}

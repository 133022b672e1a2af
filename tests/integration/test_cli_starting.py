"""Commands that start an agent: what is asked of them wrongly is told before anything starts."""

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main

STARTING = {
    "replay": ("replay", "0198"),
    "fork": ("fork", "0198", "--at", "2"),
    "resume": ("resume", "0198"),
    "rerun": ("rerun", "0198", "--baseline"),
    "verify": ("verify", "0198", "--replay"),
    "gate": ("gate", "cases"),
    "calibrate": ("calibrate",),
}
WALLED = ("replay", "fork", "rerun", "gate")


def refused(*arguments):
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error[usage]: ")
    return result.stderr


@pytest.mark.parametrize("command", STARTING)
@pytest.mark.parametrize("entry", ["app.agents", "app:", ":support", "app/agents.py:support", "app.agents:support()"])
def test_an_entry_of_no_form_is_a_usage_error(command, entry):
    """What cannot name a function is told with the form that is wanted."""
    assert f"'--entry': {entry!r} is not like pkg.mod:func" in refused(*STARTING[command], "--entry", entry)


@pytest.mark.parametrize("command", STARTING)
@pytest.mark.parametrize("seconds", ["0", "-4"])
def test_a_timeout_is_above_nothing(command, seconds):
    """No agent can end in no time, so that none is started to be killed."""
    assert "'--timeout'" in refused(*STARTING[command], "--entry", "app.agents:it", "--timeout", seconds)


@pytest.mark.parametrize("command", WALLED)
@pytest.mark.parametrize("endpoint", ["localhost", "localhost:http", ":80"])
def test_an_endpoint_of_no_form_is_a_usage_error(command, endpoint):
    """What names no host and port is told before a wall is built with it."""
    told = refused(*STARTING[command], "--entry", "app.agents:it", "--allow", endpoint)
    assert f"'--allow': allowed endpoint {endpoint!r} is not like `host:port` or `unix:/path`" in told


@pytest.mark.parametrize("command", WALLED)
def test_an_identity_that_is_not_there_is_a_usage_error(command, tmp_path):
    """A file of variables that does not exist is named."""
    missing = str(tmp_path / "keys.env")
    assert missing in refused(*STARTING[command], "--entry", "app.agents:it", "--env-file", missing)

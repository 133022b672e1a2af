"""Options of the receiver: where they come from, and what is said of wrong ones."""

import pytest
from otel_agent_replay_collector.options import Address, CollectorOptions

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.settings import Settings


def load(arguments=None, file=None, **environment):
    return CollectorOptions.load(arguments, file=file, environment=environment)


def test_arguments_come_before_the_environment_and_that_before_the_file(tmp_path):
    """The strongest source wins, and each value says where it came from."""
    file = tmp_path / "collector.toml"
    file.write_text('http = "127.0.0.1:1"\nquiet_s = 3\nkeep = ["failed"]\nfsync = false\n')
    options = load(
        {"http": "[::1]:5"}, file, AGENT_REPLAY_COLLECTOR_HTTP="127.0.0.1:2", AGENT_REPLAY_COLLECTOR_QUIET_S="4"
    )
    assert options.http == Address("::1", 5)
    assert str(options.http) == "[::1]:5"
    assert (options.quiet_s, options.keep, options.fsync) == (4.0, ("failed",), False)
    assert options.sources["http"] == "argument"
    assert options.sources["quiet_s"] == "environment variable AGENT_REPLAY_COLLECTOR_QUIET_S"
    assert options.sources["keep"] == str(file)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"htpp": "x"}, "did you mean 'http'"),
        ({"http": "8080"}, "expected HOST:PORT"),
        ({"http": "a:99999"}, "expected HOST:PORT"),
        ({"keep_rate": "1.5"}, "expected a number from 0 to 1"),
        ({"quiet_s": "nan"}, "expected seconds above 0"),
        ({"max_request_mb": "0"}, "expected a number above 0"),
        ({"fsync": "perhaps"}, "expected on or off"),
        ({"keep": "failed,odd"}, "expected some of failed"),
        ({"tls_key": "key.pem"}, "wanted together"),
        ({"tls_client_ca": "ca.pem"}, "tls_certificate must be given"),
        ({"http": "off", "grpc": "off"}, "nothing to receive by"),
    ],
)
def test_a_wrong_option_is_named_with_its_value_and_what_to_do(given, said):
    """Every wrong or unknown option ends in one error that says so."""
    with pytest.raises(ConfigurationError, match=said):
        load(given)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    """The message holds the path."""
    with pytest.raises(ConfigurationError, match=r"absent\.toml"):
        load(file=tmp_path / "absent.toml")


def test_the_librarys_own_settings_take_the_receivers_variables_for_nothing():
    """A process with options of the receiver in its environment can still be recorded."""
    Settings.load(environment={"AGENT_REPLAY_COLLECTOR_HTTP": "off"})

"""Which variables of an environment a replay gets, and how an `--env-file` is read."""

import pytest

from otel_agent_replay.boundary.environment import PLACEHOLDER
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.replay.scrub import read_env_file, scrubbed

SECRETS = (
    "OPENAI_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",
    "DB_PASSWORD",
    "SENTRY_DSN",
    "my_secret",
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_credential_gives_way_to_a_placeholder(name):
    """The variable stays, its value is nowhere, and the redaction masks that value from now on."""
    redaction = Redaction.default()
    assert scrubbed({name: "hunter2hunter2"}, redaction) == {name: PLACEHOLDER}
    assert "hunter2hunter2" not in redaction.text("say hunter2hunter2 to enter")


@pytest.mark.parametrize(
    "name",
    ["AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "SSH_AUTH_SOCK", "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG"]
    + ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"],
)
def test_what_leads_to_credentials_opens_nothing(name):
    """It is left out, or holds the placeholder."""
    assert set(scrubbed({name: "/home/ann/somewhere"}).values()) <= {PLACEHOLDER}


def test_a_password_inside_an_address_is_masked():
    """The rest of the address stays, so that code which takes it apart goes on."""
    assert scrubbed({"DATABASE_URL": "postgres://ann:hunter22@db/shop"}) == {
        "DATABASE_URL": "postgres://ann:[masked]@db/shop"
    }


def test_what_a_program_needs_stays_as_it_is():
    """Paths, the working folder, regions and our own options are no credentials, whatever the secrets are."""
    kept = {
        "PATH": "/usr/bin:/opt/python/bin",
        "PWD": "/home/ann/python",
        "PYTHONPATH": "/opt/python",
        "AWS_REGION": "eu-west-1",
        "AGENT_REPLAY_HASH_KEY": "key-of-the-hashes",
        "TOKENIZERS_PARALLELISM": "false",
        "LANG": "C.UTF-8",
    }
    assert scrubbed({"API_KEY": "python", **kept}) == {"API_KEY": PLACEHOLDER, **kept}


def test_an_env_file_is_read_line_by_line(tmp_path):
    """Comments, `export`, quotes and escapes are known; nothing is expanded."""
    path = tmp_path / "identity.env"
    path.write_text(
        '# who we are\n\nexport API_KEY=abc # ours\nQUOTED="a \\"b\\"\\n$HOME"\n'
        "PLAIN='it # stays'\nEMPTY=\nURL=a=b#c\n"
    )
    assert read_env_file(path) == {
        "API_KEY": "abc",
        "QUOTED": 'a "b"\n$HOME',
        "PLAIN": "it # stays",
        "EMPTY": "",
        "URL": "a=b#c",
    }


@pytest.mark.parametrize("line", ["just words", "1A=b", "A='open", 'A="open', 'A="b" c', "AGENT_REPLAY_MODE=record"])
def test_a_wrong_line_is_named_by_its_number_alone(tmp_path, line):
    """The message has the line's number and never its content, which may be a secret."""
    path = tmp_path / "identity.env"
    path.write_text(f"A=b\n{line}\n")
    with pytest.raises(ConfigurationError, match="line 2") as raised:
        read_env_file(path)
    said = str(raised.value).replace(str(path), "")
    assert "open" not in said
    assert "just" not in said

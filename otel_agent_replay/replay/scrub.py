"""The environment of a replay: without the credentials of whoever starts it, with an identity of its own if it has one.

The run that is repeated read its secrets masked; what the replay finds in their place is a word that opens nothing.
Owns which variables are credentials beyond what redaction knows by name and shape, and the form of an `--env-file`.
It does not touch files: a credential that lies in the home folder can be read, but the walls let it go nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from otel_agent_replay.boundary.environment import PLACEHOLDER
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.payload import credentials
from otel_agent_replay.payload.redaction import Redaction

_OURS = "AGENT_REPLAY_"
_FOLDERS = frozenset(("PWD", "OLDPWD"))  # the shell's, not passwords
_LEADS_TO_CREDENTIALS = frozenset(
    (
        "AZURE_CONFIG_DIR",
        "CLOUDSDK_CONFIG",
        "DOCKER_CONFIG",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "KRB5CCNAME",
        "KUBECONFIG",
        "NETRC",
        "PGPASSFILE",
        "PGSERVICEFILE",
        "SSH_AUTH_SOCK",
    )
)
_HARMLESS_AWS = re.compile(
    r"AWS_(?:DEFAULT_)?REGION\Z|AWS_(?:IGNORE_CONFIGURED_)?ENDPOINT_URL|AWS_EC2_METADATA_DISABLED\Z"
)
_EXPORT_HEADERS = re.compile(r"OTEL_EXPORTER_OTLP_(?:\w+_)?HEADERS\Z")
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*\Z", re.DOTALL)
_COMMENT = re.compile(r"\s+#.*\Z")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def scrubbed(environment: Mapping[str, str], redaction: Redaction | None = None) -> dict[str, str]:
    """Return the environment without credentials.

    A variable that holds one keeps its name and gets a placeholder, so that code which only wants one to be there
    goes on; a password inside an address is masked; one that leads to credentials elsewhere is left out. `redaction`
    has the rules of the user; it is told of every secret that is taken out, so that it masks them from now on.
    """
    kept: dict[str, str] = {}
    for name, value in environment.items():
        if name.startswith(_OURS) or name in _FOLDERS:
            kept[name] = value
        elif credentials.is_secret_variable(name, value):
            kept[name] = PLACEHOLDER
            if redaction is not None:
                redaction.learn(value)
        elif not _leads_to_credentials(name):
            kept[name] = _masked(name, value, redaction)
    return kept


def _leads_to_credentials(name: str) -> bool:
    if name in _LEADS_TO_CREDENTIALS or _EXPORT_HEADERS.match(name):
        return True
    return name.startswith("AWS_") and not _HARMLESS_AWS.match(name)


def _masked(name: str, value: str, redaction: Redaction | None) -> str:
    # New for each variable: what one of them teaches must not be searched for in PATH.
    rules = Redaction(() if redaction is None else redaction.rules)
    shown, masked = rules.env(name, value)
    return shown if masked else value


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a dotenv file: a line each, `KEY=VALUE`; `#` comments, quotes and `export` are known.

    Nothing is expanded. Raises ConfigurationError naming the line, never its content.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--env-file {path} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line)
        value = None if match is None else _value(match[2])
        if match is None or value is None:
            raise ConfigurationError(f"--env-file {path}, line {number}: expected KEY=VALUE")
        if match[1].startswith(_OURS):
            raise ConfigurationError(f"--env-file {path}, line {number}: {match[1]} is an option, not an identity")
        found[match[1]] = value
    return found


def _value(text: str) -> str | None:
    """Return a value without its quotes and comment, None for a quote that is not closed."""
    quote = text[:1]
    if quote not in ("'", '"'):
        return _COMMENT.sub("", text)
    pattern = r"'([^']*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"'
    match = re.match(pattern + r"\s*(?:#.*)?\Z", text)
    if match is None:
        return None
    if quote == "'":
        return match[1]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), match[1])

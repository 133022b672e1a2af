"""Whose key opens an endpoint, and in which header it travels. Recordings hold no credentials: keys come from here.

A key is sent to the hosts of its own provider only, or where the user named its variable for that very candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.protocols.providers import provider_at

KEY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure.ai.openai": ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
    "azure.ai.inference": ("AZURE_INFERENCE_CREDENTIAL", "AZURE_AI_API_KEY"),
    "aws.bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "gcp.gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "mistral_ai": ("MISTRAL_API_KEY",),
    "perplexity": ("PERPLEXITY_API_KEY",),
    "x_ai": ("XAI_API_KEY",),
    "moonshot_ai": ("MOONSHOT_API_KEY",),
    "cohere": ("CO_API_KEY", "COHERE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "alibaba_cloud": ("DASHSCOPE_API_KEY",),
    "z_ai": ("ZAI_API_KEY",),
    "sambanova": ("SAMBANOVA_API_KEY",),
    "nvidia": ("NVIDIA_API_KEY",),
    "github": ("GITHUB_TOKEN",),
}
"""The environment variables that hold the key of a provider, the first that is set counts."""

_HEADERS = {
    "anthropic": "x-api-key",
    "azure.ai.openai": "api-key",
    "azure.ai.inference": "api-key",
    "gcp.gemini": "x-goog-api-key",
}
_OWN_HOSTS = {"anthropic.messages": "anthropic"}  # who else serves the protocol takes its key in the same header


class NoKey(ConfigurationError):
    """An endpoint needs a key that is not there; the message names the variable to set."""


def key_headers(
    url: str, protocol: str, environment: Mapping[str, str], key_variable: str = ""
) -> list[tuple[str, str]]:
    """Return the headers that open `url`: none for a host that nobody knows, unless `key_variable` names a variable.

    Raises NoKey, naming the variable, where a key is needed and not in `environment`.
    """
    provider = provider_at(url)
    names = (key_variable,) if key_variable else KEY_VARIABLES.get(provider or "", ())
    if not names:
        if provider is None:
            return []
        raise NoKey(f"no variable is known that holds a key of {provider} ({_host(url)}); name it: key_env=VARIABLE")
    key = next((environment[name] for name in names if environment.get(name)), "")
    if not key:
        raise NoKey(
            f"{_host(url)} needs a key: set {' or '.join(names)} in the environment or in --env-file, or name another "
            "variable (key_env=VARIABLE)"
        )
    header = _HEADERS.get(provider or _OWN_HOSTS.get(protocol, ""), "authorization")
    return [(header, f"Bearer {key}" if header == "authorization" else key)]


def variables(key_variable: str = "") -> list[str]:
    """Return every variable that may hold a key."""
    return sorted({key_variable, *(name for names in KEY_VARIABLES.values() for name in names)} - {""})


def _host(url: str) -> str:
    return urlsplit(url).hostname or url

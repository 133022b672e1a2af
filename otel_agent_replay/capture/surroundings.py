"""What a run ran with: revision of the code, packages, hash seed. Read from files and memory, no child process."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from otel_agent_replay.boundary.environment import real_variable
from otel_agent_replay.version import VERSION

_DISTRIBUTIONS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "httpx": "httpx",
    "httpx2": "httpx2",
    "requests": "requests",
    "urllib3": "urllib3",
    "aiohttp": "aiohttp",
    "botocore": "botocore",
    "google.genai": "google-genai",
    "mistralai": "mistralai",
    "cohere": "cohere",
    "litellm": "litellm",
    "langchain_core": "langchain-core",
    "langgraph": "langgraph",
    "agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
    "mcp": "mcp",
    "opentelemetry.sdk": "opentelemetry-sdk",
}
CLIENT_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "AZURE_OPENAI_AD_TOKEN",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_ENDPOINT",
    "OPENAI_API_KEY",
    "OPENAI_API_VERSION",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
)
"""Variables that model clients read by themselves: a replay on another machine needs them to build the same client."""


@functools.cache
def _version(distribution: str) -> str:
    from importlib import metadata  # 15 ms, which a process without any of them does not spend

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def packages() -> dict[str, str]:
    """Return the versions of the model clients and agent frameworks that this process has imported."""
    found = {name: _version(name) for module, name in _DISTRIBUTIONS.items() if module in sys.modules}
    return {**{name: version for name, version in found.items() if version}, "otel-agent-replay": VERSION}


def client_environment() -> dict[str, str]:
    """Return the model clients' own variables that are set. Not yet redacted."""
    found = {name: real_variable(name) for name in CLIENT_VARIABLES}
    return {name: value for name, value in found.items() if value is not None}


@functools.lru_cache(maxsize=1)
def code_revision() -> str:
    """Return the commit checked out in the nearest git repository above the working directory, or ""."""
    try:
        folder = Path.cwd()
        for candidate in (folder, *folder.parents):
            git = candidate / ".git"
            if git.is_file():  # a worktree or submodule names its directory
                git = (candidate / git.read_text().partition("gitdir:")[2].strip()).resolve()
            if (git / "HEAD").is_file():
                return _resolve(git, (git / "HEAD").read_text().strip())
    except OSError:
        return ""
    return ""


def _resolve(git: Path, head: str) -> str:
    if not head.startswith("ref:"):
        return head
    name = head.partition(":")[2].strip()
    roots = [git]
    common = git / "commondir"
    if common.is_file():
        roots.append((git / common.read_text().strip()).resolve())
    for root in roots:
        loose = root / name
        if loose.is_file():
            return loose.read_text().strip()
        packed = root / "packed-refs"
        if packed.is_file():
            for line in packed.read_text().splitlines():
                if line.endswith(f" {name}"):
                    return line.split(" ", 1)[0]
    return ""


_sources: dict[str, str] = {}  # files that declare agents and tools, and their digests once they were read


def add_source(function: Callable[..., Any]) -> None:
    """Count the file that declares this function among the run's source."""
    file = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_filename", "")
    if file and not file.startswith("<"):
        _sources.setdefault(file, "")


def source_digest() -> str:
    """Return a digest (16 hexadecimal digits) of the files that declare this process's agents and tools; "" for none.

    A program without any is the file that it was started as.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    files = _sources or ({str(main): ""} if main else {})
    digests = []
    for file, known in list(files.items()):
        digest = known or _file_digest(file)
        if files is _sources:
            _sources[file] = digest
        digests.append(digest)
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:16] if digests else ""


def _file_digest(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return "unreadable"


@functools.lru_cache(maxsize=1)
def hash_seed() -> str:
    """Return PYTHONHASHSEED as at the start: a number, or "random": then the order of sets cannot be had again."""
    if not sys.flags.hash_randomization:
        return "0"
    return real_variable("PYTHONHASHSEED") or "random"

"""Whose code is calling: the application's or a library's.

Clocks, draws and environment reads count only when the application made them, so that a library's retry jitter
or a framework's housekeeping never shifts what the application sees again. The answer hangs on the file that
the calling code was compiled from and is remembered by file name. This module decides; it intercepts nothing.
"""

# File names are compared as text, thousands of times.
# ruff: noqa: PTH100, PTH117, PTH118, PTH120, PTH122
from __future__ import annotations

import contextlib
import enum
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Container, Iterable
from types import FrameType

from otel_agent_replay.patterns import late

DEFAULT_PACKAGES = (
    "agent_framework*",
    "agents",
    "agno",
    "autogen*",
    "crewai*",
    "dspy*",
    "google.adk",
    "griptape",
    "haystack*",
    "langchain*",
    "langgraph*",
    "llama_index*",
    "marvin",
    "otel_agent_replay.demo",
    "pydantic_ai*",
    "pydantic_graph",
    "semantic_kernel",
    "smolagents",
    "strands",
)
"""Installed packages that count as the application: agent frameworks, whose ids and times are the agent's own."""

_PASSING_PACKAGES = (
    "anyio",
    "arrow",
    "attr",
    "attrs",
    "backoff",
    "decouple",
    "delorean",
    "django.utils.timezone",
    "environs",
    "nanoid",
    "pendulum",
    "pydantic",
    "shortuuid",
    "stamina",
    "tenacity",
    "ulid",
    "uuid6",
)
# They read on behalf of whoever calls them: `pendulum.now()`, a model's `default_factory`, a retry's wait.

_CLIENTS = (
    "aioboto3",
    "anthropic",
    "boto3",
    "botocore",
    "cohere",
    "google.genai",
    "groq",
    "litellm",
    "mistralai",
    "ollama",
    "openai",
    "requests",
    "urllib3",
)

_CONCURRENCY = ("asyncio", "concurrent", "threading.py", "contextvars.py", "functools.py")


class Verdict(enum.Enum):
    """What a file's code is."""

    APPLICATION = "application"
    FRAMEWORK = "framework"  # of agents: its ids and times are the application's, its waits are its own
    LIBRARY = "library"
    PASSES = "passes"  # acts for its caller: look one frame up
    CLIENT = "client"  # a client of models or servers: a library whose waits are those between its tries
    CONCURRENCY = "concurrency"  # asyncio and its like: a library, but acts for its caller when it starts something


# Bound here: a member looked up on its enum at every read costs more than the rest of the check.
_IS_APPLICATION = Verdict.APPLICATION
_IS_FRAMEWORK = Verdict.FRAMEWORK
_PASSES = Verdict.PASSES


def _pattern(packages: Iterable[str]) -> re.Pattern[str]:
    """Return what matches the dotted name of everything in `packages`."""
    names = "|".join(re.escape(name).replace(r"\*", "[^.]*") for name in packages)
    return late(rf"(?:{names})(?:\.|\Z)")


_verdicts: dict[str, Verdict] = {}
verdict_known: Callable[[str], Verdict | None] = _verdicts.get
"""Return what is known of a file's code; None: it was not judged yet, or is generated. A look-up in C."""
_generated: dict[tuple[str, str | None], Verdict] = {}
_passing = _pattern(_PASSING_PACKAGES)
_clients = _pattern(_CLIENTS)
_frameworks = _pattern(DEFAULT_PACKAGES)
_named = _pattern(())
_extra: tuple[str, ...] = ()
_counted: tuple[str, ...] = ()  # named one by one, by `count_as_application`
_MOST_REMEMBERED = 20_000  # generated code makes up file names without end
_getcwd = os.getcwd


# Between the application and asyncio: `with` of a generator, and our own hook of `as_completed`.
_AROUND_TIMERS = frozenset((contextlib.__file__, os.path.join(os.path.dirname(__file__), "threads.py")))


def _folders(*names: str) -> tuple[str, ...]:
    found = {sysconfig.get_path(name) for name in names} - {None}
    both = {path for folder in found for path in (os.path.abspath(folder), os.path.realpath(folder))}
    return tuple(os.path.normcase(path) + os.sep for path in sorted(both))


_STANDARD = _folders("stdlib", "platstdlib")
_INSTALLED = _folders("purelib", "platlib")
_OURSELVES = os.path.normcase(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def set_packages(extra: Iterable[str]) -> None:
    """Set which installed packages count as the application, beside the default list.

    A name is a top-level package (`langchain*` style patterns allowed) or a dotted one (`google.adk`).
    """
    global _extra
    names = tuple(extra)
    if names != _extra:
        _extra = names
        _relist()


def count_as_application(name: str) -> None:
    """Count one more package as the application's, e.g. the installed one that a decorated agent lives in."""
    global _counted
    if name not in _counted:
        _counted = (*_counted, name)
        _relist()


def _relist() -> None:
    global _named
    _named = _pattern((*_extra, *_counted))
    _verdicts.clear()
    _generated.clear()


def is_application(frame: FrameType | None) -> bool:
    """Whether the code running in `frame` is the application's, or acts for it."""
    while frame is not None:
        verdict = _verdicts.get(frame.f_code.co_filename) or _judge_frame(frame)
        if verdict is not _PASSES:
            return verdict is _IS_APPLICATION or verdict is _IS_FRAMEWORK
        frame = frame.f_back
    return False


def waits_as_application(frame: FrameType | None) -> bool:
    """Whether a wait made in `frame` is the application's: a framework looks into its queues as often as it likes."""
    while frame is not None:
        verdict = _verdicts.get(frame.f_code.co_filename) or _judge_frame(frame)
        if verdict is not _PASSES:
            return verdict is _IS_APPLICATION
        frame = frame.f_back
    return False


def application_place(frame: FrameType | None) -> str:
    """Return `file:line` of the innermost application code on the stack, "" where there is none."""
    while frame is not None and not is_application(frame):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def starts_for_application(frame: FrameType | None) -> bool:
    """Whether a task or thread started in `frame` is the application's, maybe by way of asyncio or an executor."""
    return _who_started(frame, ()) in (Verdict.APPLICATION, Verdict.FRAMEWORK)


def sets_timer_for_application(frame: FrameType | None) -> bool:
    """Whether a timer set in `frame` is the application's, maybe by way of asyncio or of `with anyio.fail_after(1)`."""
    return _who_started(frame, _AROUND_TIMERS) is Verdict.APPLICATION


def _who_started(frame: FrameType | None, between: Container[str]) -> Verdict | None:
    while frame is not None:
        name = frame.f_code.co_filename
        verdict = _verdicts.get(name) or _judge_frame(frame)
        passed_on = verdict is _PASSES or verdict is Verdict.CONCURRENCY or name in between
        if not passed_on or frame.f_code.co_name == "_run_once":
            return verdict
        frame = frame.f_back
    return None


def waits_between_tries(frame: FrameType | None) -> bool:
    """Whether the wait in `frame` is a client's between two tries, which a replay need not make."""
    while frame is not None:
        verdict = _verdicts.get(frame.f_code.co_filename) or _judge_frame(frame)
        if verdict is not _PASSES:
            return verdict is Verdict.CLIENT
        frame = frame.f_back
    return False


def is_application_file(path: str) -> bool:
    """Whether code in the file `path` is the application's."""
    return (_verdicts.get(path) or _remember(path, path)) in (Verdict.APPLICATION, Verdict.FRAMEWORK)


def _judge_frame(frame: FrameType) -> Verdict:
    name = frame.f_code.co_filename
    if not name.startswith("<"):
        return _remember(name, name)
    if name.startswith("<frozen "):
        return _remember(name, None)
    # Generated code belongs to the module whose names it sees: what dataclasses write, `exec`, a notebook's cell.
    file = frame.f_globals.get("__file__")
    key = (name, file if type(file) is str else None)
    verdict = _generated.get(key)
    if verdict is None:
        if len(_generated) >= _MOST_REMEMBERED:
            _generated.clear()
        verdict = _generated[key] = _judge_generated(*key)
    return verdict


def _judge_generated(name: str, file: str | None) -> Verdict:
    if file is None and name.startswith("<attrs generated "):
        file = _file_of_module(name.rstrip(">").rpartition(" ")[2])
    return Verdict.APPLICATION if file is None else _remember(file, file)


def _file_of_module(dotted: str) -> str | None:
    while dotted:
        module = sys.modules.get(dotted)
        if module is not None:
            return getattr(module, "__file__", None)
        dotted = dotted.rpartition(".")[0]
    return None


def _remember(key: str, path: str | None) -> Verdict:
    verdict = Verdict.LIBRARY if path is None else _judge_path(path)
    if len(_verdicts) >= _MOST_REMEMBERED:
        _verdicts.clear()
    _verdicts[key] = verdict
    return verdict


def _judge_path(path: str) -> Verdict:
    full = os.path.normcase(path if os.path.isabs(path) else os.path.join(_getcwd(), path))
    installed = _installed_part(full)
    if installed is not None:
        return _judge_dotted(_dotted(installed))
    if full.startswith(_OURSELVES):
        dotted = "otel_agent_replay." + _dotted(full[len(_OURSELVES) :])
        return Verdict.APPLICATION if _frameworks.match(dotted) or _named.match(dotted) else Verdict.LIBRARY
    for folder in _STANDARD:
        if full.startswith(folder):
            top = full[len(folder) :].split(os.sep, 1)[0]
            return Verdict.CONCURRENCY if top in _CONCURRENCY else Verdict.LIBRARY
    return Verdict.APPLICATION


def _installed_part(full: str) -> str | None:
    """Return the path below the folder of installed packages, or None when it lies in none."""
    for folder in _INSTALLED:
        if full.startswith(folder):
            return full[len(folder) :]
    for part in ("site-packages", "dist-packages"):
        _, found, below = full.rpartition(f"{os.sep}{part}{os.sep}")
        if found:
            return below
    return None


def _judge_dotted(dotted: str) -> Verdict:
    if _named.match(dotted):
        return Verdict.APPLICATION
    if _frameworks.match(dotted):
        return Verdict.FRAMEWORK
    if _passing.match(dotted):
        return Verdict.PASSES
    return Verdict.CLIENT if _clients.match(dotted) else Verdict.LIBRARY


def _dotted(below: str) -> str:
    return os.path.splitext(below)[0].replace(os.sep, ".")

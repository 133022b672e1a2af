"""Whose code is calling is told by the calling code's file."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
import threading
from dataclasses import dataclass, field

import pytest

from otel_agent_replay.boundary import callers, session
from otel_agent_replay.boundary.callers import count_as_application, is_application, set_packages, waits_as_application


@pytest.fixture(autouse=True)
def default_packages():
    yield
    callers._counted = ()
    callers._extra = ("anything else",)
    set_packages(())


def _judged(filename, **names):
    """The verdict on code compiled under `filename`."""
    namespace = {"is_application": is_application, "sys": sys, **names}
    exec(compile("verdict = is_application(sys._getframe())", filename, "exec"), namespace)
    return namespace["verdict"]


def _installed(*parts):
    return os.path.join(sysconfig.get_path("purelib"), *parts)


def _me():
    return is_application(sys._getframe(1))


def test_code_of_this_file_is_the_application():
    """A plain file outside every installation folder counts."""
    assert _me() is True


@pytest.mark.parametrize(
    "filename",
    [
        "/srv/app/main.py",
        "main.py",
        "/tmp/ipykernel_42/1.py",
        "<string>",
        "<stdin>",
        "<ipython-input-1-abc>",
        "<doctest x>",
    ],
)
def test_scripts_notebooks_and_generated_code_are_the_application(filename):
    """What has no file, or one outside every installation folder, counts."""
    assert _judged(filename, __name__="__main__") is True


@pytest.mark.parametrize(
    "filename",
    [
        asyncio.__file__,
        threading.__file__,
        os.path.join(sysconfig.get_path("stdlib"), "json", "decoder.py"),
        "<frozen os>",
        "<frozen importlib._bootstrap>",
        _installed("openai", "_base_client.py"),
        _installed("opentelemetry", "sdk", "trace", "__init__.py"),
        _installed("six.py"),
        "/somewhere/.venv/lib/python3.11/site-packages/requests/api.py",
        "/usr/lib/python3/dist-packages/yaml/__init__.py",
        callers.__file__,
        session.__file__,
    ],
)
def test_the_standard_library_installed_packages_and_ourselves_are_not(filename):
    """A library's own reads never count."""
    assert _judged(filename) is False


@pytest.mark.parametrize(
    "parts",
    [
        ("pydantic_ai", "run.py"),
        ("langchain_core", "runnables", "base.py"),
        ("langgraph", "pregel", "main.py"),
        ("agents", "run.py"),
        ("crewai", "crew.py"),
        ("autogen_core", "agent.py"),
        ("llama_index", "core", "agent.py"),
        ("smolagents", "agents.py"),
        ("dspy", "predict.py"),
        ("haystack", "core.py"),
        ("google", "adk", "runner.py"),
    ],
)
def test_agent_frameworks_count(parts):
    """The ids and times that an agent framework makes are the agent's."""
    assert _judged(_installed(*parts)) is True


def test_what_a_framework_waits_for_is_its_own_affair():
    """How often a framework looks into its queues differs from run to run: only code that was named waits itself."""
    waiting = {"is_application": waits_as_application}
    assert waits_as_application(sys._getframe()) is True
    assert _judged(_installed("langgraph", "pregel", "main.py"), **waiting) is False
    assert _judged(_installed("httpx", "_client.py"), **waiting) is False
    set_packages(["langgraph"])
    assert _judged(_installed("langgraph", "pregel", "main.py"), **waiting) is True


def test_a_neighbour_of_a_dotted_package_does_not_count():
    """Only the named part of a namespace package counts."""
    assert _judged(_installed("google", "protobuf", "message.py")) is False


def test_packages_can_be_listed():
    """A package in the settings counts from then on, and no longer when the list is reset."""
    filename = _installed("mycompany_agents", "flow.py")
    assert _judged(filename) is False
    set_packages(["mycompany_*"])
    assert _judged(filename) is True
    set_packages(())
    assert _judged(filename) is False


def test_the_package_of_a_decorated_agent_can_be_added():
    """An application that is installed as a package counts once its agent is known."""
    filename = _installed("refund_bot", "main.py")
    count_as_application("refund_bot")
    assert _judged(filename) is True


def test_a_part_of_ourselves_can_be_listed():
    """Our demo's agent is an application; another part of ourselves is one when it is listed."""
    package = os.path.dirname(os.path.dirname(callers.__file__))
    assert _judged(os.path.join(package, "demo", "support_agent.py")) is True
    filename = os.path.join(package, "examples", "agent.py")
    assert _judged(filename) is False
    count_as_application("otel_agent_replay.examples")
    assert _judged(filename) is True


def test_code_that_dataclasses_generate_belongs_to_the_classes_module():
    """A default factory called from a generated `__init__` is the application's call."""

    @dataclass
    class Event:
        mine: bool = field(default_factory=_me)

    assert Event().mine is True


def test_a_librarys_generated_code_is_the_librarys():
    """Generated code sees the names of its module, and shares its verdict."""
    assert _judged("<string>", __file__=_installed("somelib", "models.py")) is False


def test_code_that_attrs_generates_belongs_to_the_classes_module(monkeypatch):
    """The file name that attrs makes up names the module of the class."""
    assert _judged(f"<attrs generated init {__name__}.Event>") is True
    assert _judged("<attrs generated methods json.decoder.Event>") is False


def test_packages_that_act_for_their_caller_are_looked_through(library):
    """A date library's `now` called by the application is the application's, called by a library the library's."""
    source = "import sys\ndef now(judge): return judge(sys._getframe())"
    pendulum = library(source, "pendulum")
    other = library("def ask(now, judge): return now(judge)", "somelib")
    assert pendulum.now(is_application) is True
    assert other.ask(pendulum.now, is_application) is False


def test_the_verdict_is_remembered_within_bounds():
    """Generated code makes up file names without end; memory does not grow with them."""
    limit = callers._MOST_REMEMBERED
    for number in range(limit + 100):
        callers._remember(f"/made/up/{number}.py", None)
    assert len(callers._verdicts) <= limit

"""Originals that the application holds under names of its own are found, hooked, and put back."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import sysconfig
import time
import types
import uuid

import pytest

from otel_agent_replay.boundary import ambient, callers

_SOURCE = """
import time
from asyncio import sleep
from dataclasses import dataclass, field
from os import urandom
from random import choice, getrandbits, random as draw
from time import monotonic, time as now
from uuid import uuid1, uuid4

def stamped(clock=now, *, ticks=monotonic):
    return clock(), ticks()

class Agent:
    clock = now
    @staticmethod
    def started(at=now): return at()
    uid = staticmethod(uuid1)
    class Inner:
        clock = monotonic
    def read(self):
        return self.clock(), self.started(), self.uid(), self.Inner().clock()

@dataclass
class Event:
    at: float = field(default_factory=now)
    weight: float = field(default_factory=draw)

def read():
    event = Event()
    return now(), draw(), getrandbits(70), choice("abcdefgh"), uuid1(), uuid4(), urandom(4), stamped(), \\
        Agent().read(), event.at, event.weight
"""


def _module(name, file, source=_SOURCE):
    module = types.ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    exec(compile(source, str(file), "exec"), vars(module))
    return module


@pytest.fixture
def application(tmp_path):
    """A module of the application that was imported before the hooks came."""
    yield _module("replay_test_app", tmp_path / "app.py")
    ambient.uninstall()
    callers.set_packages(())
    for name in [name for name in sys.modules if name.startswith("replay_test_")]:
        del sys.modules[name]


def _names(module):
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


def test_names_bound_before_the_hooks_came_are_caught(application, stage):
    """Module names, class attributes, default arguments and default factories all replay."""
    ambient.install()
    recorded, replayed = stage.both(application.read)
    assert recorded == replayed
    assert stage.observer.names.count("time.time") == 5
    assert stage.observer.names.count("random.random") == 2


def test_a_sleep_bound_before_is_caught(application, stage):
    """`from asyncio import sleep` is a crossing like asyncio.sleep."""
    ambient.install()

    async def agent():
        await application.sleep(0.001)

    stage.both(lambda: asyncio.run(agent()))
    assert [crossing.call.name for crossing, _ in stage.observer.crossings] == ["asyncio.sleep"]


def test_uninstall_puts_every_name_back(application):
    """After uninstall the module, its classes and defaults hold exactly what they held."""
    before = _names(application)
    members, defaults = dict(vars(application.Agent)), application.stamped.__defaults__
    keywords = dict(application.stamped.__kwdefaults__)
    ambient.install()
    assert application.now is not before["now"]
    assert application.stamped.__defaults__ != defaults
    ambient.uninstall()
    assert _names(application) == before
    assert dict(vars(application.Agent)) == members
    assert application.stamped.__defaults__ == defaults
    assert application.stamped.__kwdefaults__ == keywords
    assert application.Event().at <= time.time()


def test_a_module_imported_while_the_hooks_are_in_is_put_back_too(application, tmp_path):
    """Names bound to hooks become the originals again."""
    ambient.install()
    later = _module("replay_test_later", tmp_path / "later.py")
    assert later.now is time.time
    ambient.uninstall()
    assert later.now is application.now is time.time


def test_installed_packages_keep_their_names_unless_listed(application):
    """A library's names stay as they are; those of a listed package are hooked."""
    folder = os.path.join(sysconfig.get_path("purelib"), "replay_test_lib")
    library = _module("replay_test_lib", os.path.join(folder, "mod.py"))
    original = library.now
    ambient.install()
    assert library.now is original
    ambient.install(packages=["replay_test_lib"])
    assert library.now is time.time is not original


def test_a_module_imported_between_two_installs_is_scanned_by_the_second(application, tmp_path):
    """Installing again hooks what has appeared since, e.g. a name copied from a library."""
    original = time.time
    ambient.install()
    later = _module("replay_test_copy", tmp_path / "copy.py", "")
    later.now = original
    ambient.install()
    assert later.now is time.time is not original


def test_lazy_modules_are_not_woken(application, tmp_path):
    """The scan computes no attribute: a module that loads itself on access stays asleep."""

    class Sleeping(types.ModuleType):
        def __getattribute__(self, name):
            raise AssertionError("woken")

    sleeping = Sleeping("replay_test_sleeping")
    sys.modules["replay_test_sleeping"] = sleeping
    ambient.install()
    ambient.uninstall()


def test_odd_entries_among_the_modules_do_no_harm(application):
    """None and objects of any kind in sys.modules are passed over."""
    sys.modules["replay_test_none"] = None
    sys.modules["replay_test_object"] = object()
    ambient.install()


def test_installing_twice_is_installing_once(application):
    """A second install wraps nothing again, and one uninstall undoes both."""
    originals = time.time, random.random, os.urandom, uuid.uuid1, asyncio.sleep
    ambient.install()
    hooks = time.time, random.random, os.urandom, uuid.uuid1, asyncio.sleep
    ambient.install()
    assert (time.time, random.random, os.urandom, uuid.uuid1, asyncio.sleep) == hooks
    ambient.uninstall()
    assert (time.time, random.random, os.urandom, uuid.uuid1, asyncio.sleep) == originals
    ambient.uninstall()


def test_hooks_work_outside_a_run_and_after_uninstall(application, stage):
    """A hook that somebody kept passes through for ever."""
    ambient.install()
    kept = application.now, application.draw, application.read
    ambient.uninstall()
    assert abs(kept[0]() - time.time()) < 5
    assert 0 <= kept[1]() < 1
    assert kept[2]()


def test_coverage_says_what_is_and_is_not_captured(application):
    """Each entry has one of the three states, and none is said twice."""
    entries = ambient.install()
    names = [entry.what for entry in entries]
    assert len(names) == len(set(names))
    assert {entry.state for entry in entries} <= {"captured", "partial", "not_captured"}
    assert {"time", "datetime", "sleep", "random", "entropy", "environment", "threads", "bound_names"} <= set(names)
    assert "clock.c_libraries" in names

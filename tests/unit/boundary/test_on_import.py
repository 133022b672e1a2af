"""A library that we wait for is noticed when the host imports it, and never imported by us."""

from __future__ import annotations

import importlib
import logging
import sys

import pytest

from otel_agent_replay.boundary.on_import import ImportNotice, loaded


@pytest.fixture
def fresh_module(tmp_path, monkeypatch):
    (tmp_path / "latecomer_lib.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "latecomer_lib"
    sys.modules.pop("latecomer_lib", None)


@pytest.fixture
def waiting(fresh_module):
    """Make a notice that waits for the fresh module, and take it away again."""
    made = []

    def wait(tell):
        notice = ImportNotice(lambda name: name == fresh_module, tell)
        notice.turn_on()
        made.append(notice)
        return notice

    yield wait
    for notice in made:
        notice.turn_off()


def test_an_imported_module_is_there_at_once(fresh_module):
    """What is imported need not be waited for; what is not is not imported for the asking."""
    assert loaded("json") is sys.modules["json"]
    assert loaded(fresh_module) is None
    assert fresh_module not in sys.modules


def test_a_later_import_is_noticed_once_and_complete(fresh_module, waiting):
    """The module is told of after its code has run, with its own loader in place."""
    seen = []
    waiting(lambda module: seen.append((module.__name__, module.loaded, module.__spec__.loader)))
    assert fresh_module not in sys.modules
    module = importlib.import_module(fresh_module)
    importlib.import_module(fresh_module)
    assert [(name, loaded) for name, loaded, _ in seen] == [(fresh_module, True)]
    own = type(sys.modules["json"].__loader__)
    assert type(seen[0][2]) is type(module.__loader__) is own


def test_who_waits_no_longer_is_not_told(fresh_module, waiting):
    """Once it is turned off an import goes unnoticed, and the interpreter's finders are as they were."""
    seen = []
    notice = waiting(seen.append)
    notice.turn_off()
    assert notice not in sys.meta_path
    importlib.import_module(fresh_module)
    assert seen == []


def test_an_error_of_ours_does_not_break_the_import(fresh_module, waiting, caplog):
    """The host's import succeeds and the failure is logged."""

    def tell(module):
        raise RuntimeError("boom")

    waiting(tell)
    with caplog.at_level(logging.ERROR, "otel_agent_replay"):
        assert importlib.import_module(fresh_module).loaded
    assert fresh_module in caplog.text

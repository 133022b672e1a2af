"""A library that we wait for is noticed when the host imports it, and never imported by us."""

from __future__ import annotations

import importlib
import logging
import sys

import pytest

from otel_agent_replay.boundary import arrivals
from otel_agent_replay.boundary.arrivals import forget, when_imported


@pytest.fixture
def fresh_module(tmp_path, monkeypatch):
    (tmp_path / "latecomer_lib.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "latecomer_lib"
    forget("latecomer_lib")
    sys.modules.pop("latecomer_lib", None)


def test_an_imported_module_is_told_of_at_once():
    """For what is there already one need not wait."""
    seen = []
    when_imported("json", seen.append)
    assert seen == [sys.modules["json"]]


def test_a_later_import_is_noticed_once_and_complete(fresh_module):
    """The module is told of after its code has run, with its own loader in place."""
    seen = []
    when_imported(fresh_module, lambda module: seen.append((module.__name__, module.loaded, module.__spec__.loader)))
    assert fresh_module not in sys.modules
    module = importlib.import_module(fresh_module)
    assert [(name, loaded) for name, loaded, _ in seen] == [(fresh_module, True)]
    assert type(seen[0][2]) is type(module.__loader__) is not arrivals._TellingLoader
    assert arrivals._finder not in sys.meta_path


def test_who_waits_no_longer_is_not_told(fresh_module):
    """After `forget` an import goes unnoticed."""
    seen = []
    when_imported(fresh_module, seen.append)
    forget(fresh_module)
    importlib.import_module(fresh_module)
    assert seen == []


def test_an_error_of_ours_does_not_break_the_import(fresh_module, caplog):
    """The host's import succeeds and the failure is logged."""

    def tell(module):
        raise RuntimeError("boom")

    when_imported(fresh_module, tell)
    with caplog.at_level(logging.ERROR, "otel_agent_replay"):
        assert importlib.import_module(fresh_module).loaded
    assert fresh_module in caplog.text

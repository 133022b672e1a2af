"""Cases as tests: the mark, the fixture, what a failure prints, recording anew, and many processes at once."""

from __future__ import annotations

import os
import shutil

import pytest
import yaml

from tests.support.agents import ROOT
from tests.support.gated_cases import CALM, MODULE, PROMPTED, Model, Shop

pytest_plugins = ["pytester"]

PLUGIN = "otel_agent_replay.pytest_plugin.hooks"
TESTS = f"""
import pytest
import {MODULE}

@pytest.mark.replay("cases/lost-order", entry="{MODULE}:support")
def test_lost(replay_run):
    replay_run.check()
    assert "refund" not in [node.name for node in replay_run.run.nodes]

@pytest.mark.replay("cases/paid-order", agent={MODULE}.support)
def test_paid(replay_run):
    assert replay_run.check().verdict.standing == "passed"
"""


@pytest.fixture(scope="module")
def model():
    """The model server of all tests here."""
    made = Model()
    with made.provider:
        yield made


@pytest.fixture(scope="module")
def kept(tmp_path_factory, model):
    """A shop with a bad case and a control."""
    shop = Shop.recorded(tmp_path_factory.mktemp("shop"), model.provider.url, "17", "18")
    shop.keep("lost-order", "17", must_not_call=["refund"])
    shop.keep("paid-order", "18", "--control", must_call=["refund"])
    return shop


@pytest.fixture
def shop(kept, model, pytester, monkeypatch):
    """A project of it, whose tests run in a process of their own with nothing loaded but the plugin."""
    for name in [one for one in os.environ if one.startswith(("PYTEST_XDIST", "COV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(pytester.path), str(ROOT)]))
    monkeypatch.setenv("SERVER", model.provider.url)
    model.asked.clear()
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\naddopts = ['--strict-markers']\n")
    pytester.makepyfile(test_cases=TESTS)
    return kept.copied(pytester.path)


def run(pytester, *arguments):
    """Run the project's tests."""
    return pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider", *arguments, timeout=300)


def test_a_case_is_a_test(shop, pytester, model):
    """Fixed code passes by entry and by function, offline; the code that failed fails, saying where."""
    shop.code(CALM)
    run(pytester).assert_outcomes(passed=2)
    shop.code(shop.folder.joinpath(f"{MODULE}.py").read_text().replace(' and found["state"] != "lost"', ""))
    told = run(pytester, "-k", "lost")
    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(["*case lost-order failed: an invariant is broken (must_not_call refund)*"])
    assert model.asked == []


def test_a_failure_prints_the_aligned_diff(shop, pytester, model):
    """A run that departs fails as not decided, with the departure, both values and the aligned steps."""
    shop.code(PROMPTED)
    told = run(pytester, "-k", "lost")
    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(
        ["*case lost-order unknown: departed: not decided*", "*departs from its recording at step 2*", "*careful*"]
    )
    assert model.asked == []


@pytest.mark.soak
def test_replay_record_keeps_the_run_that_holds(shop, pytester, model):
    """--replay-record goes live and accepts; the same tests then pass offline, also in many processes at once."""
    shop.code(PROMPTED)
    run(pytester, "--replay-record").assert_outcomes(passed=2)
    assert len(model.asked) == 2
    assert "baseline" in yaml.safe_load((shop.cases / "lost-order" / "case.yaml").read_text())
    model.asked.clear()
    pytester.makepyfile(test_more=TESTS)
    run(pytester, "-p", "xdist.plugin", "-n", "2").assert_outcomes(passed=4)
    assert model.asked == []


def test_tests_that_could_not_fail_are_refused(shop, pytester):
    """No fixture, no mark, no such case, no such option: each is refused, and says why."""
    pytester.makepyfile(
        test_cases=f"""
import pytest

@pytest.mark.replay("cases/lost-order")
def test_never_looks():
    pass

def test_no_mark(replay_run):
    pass

@pytest.mark.replay("cases/nowhere", entry="{MODULE}:support")
def test_no_case(replay_run):
    pass

@pytest.mark.replay("cases/lost-order", entri="{MODULE}:support")
def test_no_such_option(replay_run):
    pass
"""
    )
    told = run(pytester)
    assert told.ret == 1
    told.assert_outcomes(errors=4)
    told.stdout.fnmatch_lines_random(
        [
            "*test_never_looks is marked replay and does not take the fixture replay_run*",
            "*replay_run needs the mark*",
            "*there is no case 'cases/nowhere'*",
            "*unexpected keyword argument 'entri'*",
        ]
    )


def test_a_tampered_case_fails_its_test(shop, pytester):
    """A recording that was altered is no test: it fails with that reason."""
    shop.code(CALM)
    shutil.rmtree(shop.cases / "lost-order" / "lake")
    told = run(pytester, "-k", "lost")
    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(["*its recording is missing*"])

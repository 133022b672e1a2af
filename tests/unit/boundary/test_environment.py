"""Reads of the environment are recorded, redacted, and come back."""

from __future__ import annotations

import logging
import os

import pytest

from otel_agent_replay.boundary import environment
from otel_agent_replay.errors import ReplayDeparture
from otel_agent_replay.model import Kind


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    environment.install()
    monkeypatch.setenv("REGION", "eu-west-1")
    monkeypatch.delenv("REPLAY_MISSING", raising=False)
    yield
    environment.uninstall()


def test_every_way_to_read_a_variable_replays(stage, monkeypatch):
    """Index, get, getenv, `in` and bytes give the recorded value, whatever the variable holds now."""

    def agent():
        return (
            os.environ["REGION"],
            os.environ.get("REGION"),
            os.getenv("REGION"),
            "REGION" in os.environ,
            os.environb[b"REGION"],
            os.getenv("REPLAY_MISSING", "fallback"),
            "REPLAY_MISSING" in os.environ,
        )

    recorded = stage.record(agent)
    assert recorded == ("eu-west-1", "eu-west-1", "eu-west-1", True, b"eu-west-1", "fallback", False)
    monkeypatch.setenv("REGION", "us-east-1")
    monkeypatch.setenv("REPLAY_MISSING", "set now")
    assert stage.replay(agent) == recorded


def test_reads_are_named_after_their_variable(stage):
    """A read says which variable, and a missing one has no value."""
    stage.record(lambda: (os.getenv("REGION"), os.getenv("REPLAY_MISSING")))
    assert [(read.kind, read.name, read.value) for _, read in stage.observer.reads] == [
        (Kind.ENV, "os.environ[REGION]", "eu-west-1"),
        (Kind.ENV, "os.environ[REPLAY_MISSING]", None),
    ]


def test_a_missing_variable_raises_its_key_error_again(stage, monkeypatch):
    """The recorded absence is an absence in the replay, although the variable is set by then."""

    def agent():
        with pytest.raises(KeyError) as caught:
            os.environ["REPLAY_MISSING"]
        return caught.value.args

    recorded = stage.record(agent)
    monkeypatch.setenv("REPLAY_MISSING", "now")
    assert stage.replay(agent) == recorded == ("REPLAY_MISSING",)


def test_a_secret_is_masked_and_taken_from_the_real_environment(stage, monkeypatch):
    """The observer never sees a secret's value; the replay uses the machine's own."""
    monkeypatch.setenv("REFUND_API_KEY", "sk-hunter2-hunter2")
    recorded = stage.record(lambda: os.environ["REFUND_API_KEY"])
    assert recorded == "sk-hunter2-hunter2"
    ((_, read),) = stage.observer.reads
    assert read.masked
    assert "hunter2" not in str(read.value)
    monkeypatch.setenv("REFUND_API_KEY", "sk-another")
    assert stage.replay(lambda: os.environ["REFUND_API_KEY"]) == "sk-another"


def test_a_secret_that_the_machine_lacks_is_a_placeholder(stage, monkeypatch):
    """Without the secret a replay still runs: the mask stands for it."""
    monkeypatch.setenv("REFUND_API_KEY", "sk-hunter2-hunter2")
    stage.record(lambda: os.environ["REFUND_API_KEY"])
    monkeypatch.delenv("REFUND_API_KEY")
    placeholder = stage.replay(lambda: os.environ["REFUND_API_KEY"])
    assert isinstance(placeholder, str)
    assert placeholder
    assert "hunter2" not in placeholder


def test_a_copy_holds_the_recorded_variables(stage, monkeypatch):
    """A copy of the whole environment has the recorded names and values."""

    def agent():
        return dict(os.environ), os.environ.copy(), sorted(os.environ), dict(os.environ.items())

    for name in list(os.environ):
        if any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL")):
            monkeypatch.delenv(name)
    recorded = stage.record(agent)
    assert recorded[0] == recorded[1] == recorded[3]
    masked = {read.name[len("os.environ[") : -1] for _, read in stage.observer.reads if read.masked}
    monkeypatch.setenv("APPEARED_SINCE", "1")
    monkeypatch.setenv("REGION", "moved")
    replayed = stage.replay(agent)
    assert replayed[2] == recorded[2]
    assert {k: v for k, v in replayed[0].items() if k not in masked} == {
        k: v for k, v in recorded[0].items() if k not in masked
    }


def test_what_the_run_sets_and_removes_works_in_a_replay(stage, monkeypatch):
    """Setting, popping and defaulting behave as recorded on a machine that has other variables."""

    def agent():
        os.environ["MADE_HERE"] = "1"
        found = [os.environ["MADE_HERE"], os.environ.pop("REGION"), os.environ.pop("REPLAY_MISSING", "none")]
        found.append(os.environ.setdefault("REPLAY_MISSING", "default"))
        del os.environ["MADE_HERE"]
        with pytest.raises(KeyError):
            del os.environ["MADE_HERE"]
        return found

    recorded = stage.record(agent)
    assert recorded == ["1", "eu-west-1", "none", "default"]
    monkeypatch.delenv("REGION", raising=False)
    monkeypatch.setenv("REPLAY_MISSING", "present")
    assert stage.replay(agent) == recorded


def test_values_that_are_not_utf8_replay(stage, monkeypatch):
    """A value of arbitrary bytes comes back as the same text with the same escapes."""
    monkeypatch.setitem(os.environb, b"ODD_BYTES", b"caf\xe9")
    recorded, replayed = stage.both(lambda: (os.environ["ODD_BYTES"], os.environb[b"ODD_BYTES"]))
    assert recorded == replayed
    assert replayed[1] == b"caf\xe9"
    assert stage.observer.values == [b"caf\xe9"] * 2


def test_a_variable_that_was_not_read_before_is_a_departure(stage):
    """Reading another variable than recorded stops the replay."""
    stage.record(os.getenv, "REGION")
    with pytest.raises(ReplayDeparture):
        stage.replay(lambda: os.getenv("ANOTHER"))


def test_a_librarys_reads_are_its_own(stage, library):
    """A client's look for its key or proxy is neither recorded nor replayed."""
    lib = library("import os\ndef setting(): return os.environ.get('REGION')")
    assert stage.both(lib.setting) == ("eu-west-1", "eu-west-1")
    assert stage.observer.reads == []


def test_wrong_keys_fail_as_before(stage):
    """A key that is no text is refused as it always was."""
    with pytest.raises(TypeError):
        stage.record(lambda: os.environ[3])


def test_a_redaction_that_fails_keeps_nothing(stage, monkeypatch, caplog):
    """When the rules cannot be applied the value is not told, and the host gets it all the same."""

    def broken(name, value):
        raise ValueError("bad rule")

    monkeypatch.setattr(stage.redaction, "env", broken)
    with caplog.at_level(logging.ERROR, "otel_agent_replay"):
        assert stage.record(lambda: os.environ["REGION"]) == "eu-west-1"
    ((_, read),) = stage.observer.reads
    assert read.masked
    assert read.value == ""
    assert "REGION" in caplog.text


def test_uninstall_puts_everything_back():
    """After uninstall the mapping's methods are its own."""
    environment.uninstall()
    assert type(os.environ).__getitem__ is environment._getitem
    assert type(os.environ).__delitem__ is environment._delitem
    assert type(os.environ).__iter__ is environment._iter

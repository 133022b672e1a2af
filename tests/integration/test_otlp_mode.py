"""A service that sends its runs to a collector: they replay there as they would have here, none is lost on the way."""

import json
import os
import subprocess
import sys

import pytest
from otel_agent_replay_collector.sealing import seal_requests

from otel_agent_replay.errors import ConfigurationError, ExportRefused
from otel_agent_replay.export.otlp_sender import OtlpDestination, send_until_done
from otel_agent_replay.export.otlp_target import Target
from otel_agent_replay.export.outgoing import sender_environment
from otel_agent_replay.export.sealer import SealReport
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.views import connect
from otel_agent_replay.settings import Settings
from tests.support.agents import ROOT
from tests.support.lake_runs import full_run
from tests.support.receiving import kept_requests, post, receiver, until

AGENT = """
import random, time
import otel_agent_replay as replay

@replay.tool(side_effect="read")
def look(place):
    return {"place": place, "open": random.random() < 2, "at": time.time(), "plan": "x" * 5_000_000}

@replay.agent
def guide(question):
    return str(look(question)["open"])

print(guide("museum"))
"""


def environment(folder, port):
    return {
        "AGENT_REPLAY_LAKE": str(folder / "here"),
        "AGENT_REPLAY_EXPORT": "otlp",
        "AGENT_REPLAY_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
    }


def clean(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENT_REPLAY_", "OTEL_"))}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def run(script, *words, **more):
    command = [sys.executable, "-m", "otel_agent_replay", *words]
    where = {"cwd": script.parent, "env": clean(**more)}
    return subprocess.run(command, **where, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return path


def replayed(script, lake):
    (recorded,) = [one.run for one in Lake(lake).runs() if one.run.agent == "guide"]
    return run(script, "replay", recorded.run_id.hex(), "--lake", str(lake), "--", sys.executable, script.name)


def test_a_service_sends_by_a_process_beside_it_and_its_run_replays_where_it_arrived(tmp_path, script):
    """Without any command of ours: when the service ends, its run is on its way, also a value larger than a message."""
    script.write_text("import otel_agent_replay\notel_agent_replay.configure()\n" + AGENT)
    there = tmp_path / "there"
    with receiver(there) as made:
        more = environment(tmp_path, made.http.bound.port)
        done = subprocess.run(
            [sys.executable, script.name], cwd=tmp_path, env=clean(**more), capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
        until(lambda: made.tally.get("acknowledged_requests") and not list((tmp_path / "here").rglob("*.log")))
    assert not (tmp_path / "here" / "spans").exists()
    assert seal_requests(there, all_of_them=True).runs == 1
    done = replayed(script, there)
    assert (done.returncode, "nothing departed" in done.stderr + done.stdout) == (0, True)


def test_what_was_not_taken_waits_and_is_sent_by_the_next(tmp_path, script):
    """While nobody listens the run stays in the journal, and says so; `agent-replay seal` sends it afterwards, once."""
    there = tmp_path / "there"
    with receiver(there) as made:
        port = made.http.bound.port
    first = run(script, "record", "--", sys.executable, script.name, **environment(tmp_path, port))
    assert first.returncode == 0
    assert "were not taken and wait" in first.stderr
    assert list((tmp_path / "here").rglob("*.log"))
    with receiver(there, http=f"127.0.0.1:{port}"):
        for _ in range(2):
            second = run(script, "seal", "--json", **environment(tmp_path, port))
            assert second.returncode == 0, second.stderr
    assert list((tmp_path / "here").rglob("*.log")) == []
    seal_requests(there, all_of_them=True)
    assert len(Lake(there).runs()) == 2
    assert replayed(script, there).returncode == 0


@pytest.mark.soak
def test_a_run_that_lands_before_all_of_it_was_sent_becomes_whole_afterwards(tmp_path, script):
    """The sender died between two messages and sends all again: one run, nothing doubled, and it replays."""
    there = tmp_path / "there"
    with receiver(tmp_path / "other") as made:
        port = made.http.bound.port
        assert run(script, "record", "--", sys.executable, script.name, **environment(tmp_path, port)).returncode == 0
    requests = kept_requests(tmp_path / "other")
    assert len(requests) >= 3
    for sent in (requests[:-1], requests):
        with receiver(there) as made:
            assert [post(made.http.bound.port, request)[0] for request in sent] == [200] * len(sent)
        seal_requests(there, all_of_them=True)
    assert len([one for one in Lake(there).runs() if one.run.agent == "guide"]) == 1
    with connect(there) as connection:
        ((spans, different),) = connection.execute("SELECT count(*), count(DISTINCT span_id) FROM spans").fetchall()
    assert spans == different == 3
    assert replayed(script, there).returncode == 0


# --- the sender ---


class Endpoint:
    """Stands for a receiver."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.messages = []

    def send(self, message):
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.messages.append(message)


def destination(tmp_path, endpoint):
    made = OtlpDestination(Target("http://127.0.0.1:1", {}, 3 << 20), tmp_path)
    made._sender = endpoint
    return made


def test_what_may_be_taken_later_stops_the_sealing_and_what_never_will_be_stays_here(tmp_path):
    """The first leaves the segment in place; the second is kept in the lake at hand and told as a loss."""
    recorded = full_run()
    later = Endpoint(ExportRefused("busy", may_try_again=True))
    with pytest.raises(OSError, match="busy"):
        destination(tmp_path, later).publish([recorded], ("s",), ())
    assert not (tmp_path / "spans").exists()
    destination(tmp_path, Endpoint(ExportRefused("never"))).publish([recorded], ("s",), ())
    stored = Lake(tmp_path).load(recorded.run.run_id)
    assert "run on its way" in {loss.what for loss in stored.losses}


def test_a_sender_tries_longer_and_longer_and_ends_when_nothing_is_left():
    """And gives up, for the next one, when nothing was taken for a quarter of an hour."""
    answers = [OSError("busy"), OSError("busy"), SealReport(segments_removed=2), OSError("busy"), SealReport()]
    waits, now = [], [0.0]

    def send():
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def wait(seconds):
        waits.append(seconds)
        now[0] += seconds

    assert send_until_done(send, wait=wait, clock=lambda: now[0])
    assert waits == [1, 2, 1]
    answers = [OSError("busy")] * 100
    assert not send_until_done(send, wait=wait, clock=lambda: now[0])
    assert max(waits) == 60


def test_where_to_send_is_ours_to_say_and_opentelemetrys_where_we_do_not():
    """Endpoint, headers with escapes, keys of TLS; an address that is none is refused."""
    standard = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://all:4318",
        "OTEL_EXPORTER_OTLP_HEADERS": "a=b%20c, d = e",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "ca.pem",
    }
    target = Target.of(Settings(), standard)
    assert (target.endpoint, target.headers, target.authority) == ("http://all:4318", {"a": "b c", "d": "e"}, "ca.pem")
    assert Target.of(Settings(otlp_endpoint="https://ours", otlp_headers="x=y"), standard).headers == {"x": "y"}
    assert Target.of(Settings(), {}).endpoint == "http://127.0.0.1:4318"
    for wrong in (Settings(otlp_endpoint="localhost:4318"), Settings(otlp_headers="nonsense")):
        with pytest.raises(ConfigurationError):
            Target.of(wrong, {})


def test_secrets_of_the_endpoint_are_not_on_the_senders_command_line():
    """They go by its environment, and `doctor` does not show them."""
    settings = Settings(otlp_headers="authorization=Bearer abc")
    assert sender_environment(settings)["AGENT_REPLAY_OTLP_HEADERS"] == "authorization=Bearer abc"
    done = subprocess.run(
        [sys.executable, "-m", "otel_agent_replay", "doctor", "--json"],
        env=clean(AGENT_REPLAY_OTLP_HEADERS="authorization=Bearer abc"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Bearer abc" not in done.stdout
    assert json.loads(done.stdout)["settings"]

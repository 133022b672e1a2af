"""A service's lake is sealed while it runs: by sealers that it starts itself, or by `agent-replay seal --watch`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import otel_agent_replay as replay
from otel_agent_replay.export import sealer
from otel_agent_replay.export.on_demand import ENOUGH_SEGMENTS
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import RunStatus
from tests.support.agents import PATIENCE_S, Script, wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are signalled")

SERVICE = """
import sys
import otel_agent_replay as replay
replay.configure()

@replay.tool(side_effect="read")
def look_up(order):
    return order * 2

@replay.agent
def answer(order):
    return look_up(order)

for line in sys.stdin:
    for order in range(int(line)):
        answer(order)
    print("answered", flush=True)
"""


class Service:
    """A recorded process that makes as many runs as it is asked for, and lives until it is closed."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.script = Script(folder, SERVICE)
        self.lake = self.script.lake
        self.process = subprocess.Popen(
            self.script.argv,
            env=self.script.recording_environment(**environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answer(self, runs: int) -> None:
        self.process.stdin.write(f"{runs}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "answered\n"

    def end(self) -> str:
        ended = wait_for(self.process)
        assert ended.status == 0, ended.stderr
        return ended.stderr


@pytest.fixture
def service(tmp_path):
    started = []

    def start(**environment):
        started.append(Service(tmp_path, **environment))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def sealed_runs(lake: Path) -> int:
    """Return how many runs lie in the Parquet files, without sealing anything."""
    return len(Lake(lake).runs(limit=10_000)) if (lake / "spans").is_dir() else 0


def until(happened) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def children_of(pid: int) -> list[str]:
    """Return the children of a process, zombies too."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:  # it ended while we looked
            continue
        if text.rpartition(")")[2].split()[1] == str(pid):
            found.append(text)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_services_lake_is_sealed_while_it_runs(service):
    """Once enough runs have ended they are in Parquet while the service lives; it has no child and no word of it."""
    shop = service(AGENT_REPLAY_SEAL="on_demand")
    shop.answer(ENOUGH_SEGMENTS - 1)
    assert sealed_runs(shop.lake) == 0
    shop.answer(11)
    until(lambda: sealed_runs(shop.lake) >= ENOUGH_SEGMENTS)
    assert shop.process.poll() is None
    until(lambda: not children_of(shop.process.pid))
    shop.answer(3)
    assert shop.end() == ""
    until(lambda: sealed_runs(shop.lake) == ENOUGH_SEGMENTS + 13)
    runs = [summary.run for summary in Lake(shop.lake).runs(limit=1000)]
    assert {run.agent for run in runs} == {"answer"}  # the sealers recorded nothing of themselves
    assert {run.status for run in runs} == {RunStatus.OK}
    assert len({run.process for run in runs}) == 1


def test_a_service_that_was_told_not_to_seal_starts_nothing(service):
    """With AGENT_REPLAY_SEAL=off all stays in the journal until somebody else seals it."""
    shop = service()
    shop.answer(ENOUGH_SEGMENTS + 10)
    assert shop.end() == ""
    assert not (shop.lake / "spans").exists()
    assert not (shop.lake / "journal" / ".seal.lock").exists()  # no sealer was ever there
    shop.script.seal()
    assert sealed_runs(shop.lake) == ENOUGH_SEGMENTS + 10


def test_no_run_waits_for_the_starting_of_a_sealer(tmp_path, monkeypatch):
    """While a sealer's start hangs, runs begin, end and reach the journal."""
    starting, go_on = threading.Event(), threading.Event()

    def hanging(lake):
        starting.set()
        assert go_on.wait(PATIENCE_S)

    monkeypatch.setattr(sealer, "spawn_sealer", hanging)
    lake = tmp_path / "lake"
    runtime = replay.configure(lake=lake, seal="on_demand")
    agent = replay.agent(lambda number: number, name="counting")
    try:
        for number in range(ENOUGH_SEGMENTS):
            agent(number)
        assert starting.wait(PATIENCE_S)
        assert [agent(number) for number in range(100)] == list(range(100))
        assert len(list((lake / "journal").glob("*.log"))) == ENOUGH_SEGMENTS + 100
        assert not go_on.is_set()
    finally:
        go_on.set()
        replay.shutdown()
    assert runtime.journal.losses == 0


SPY = """#!/bin/sh
for last; do :; done
{ ls -l /proc/$$/fd; echo "--"; env; echo "-- $@"; pwd; } > "$last/spy.new" 2>&1
mv "$last/spy.new" "$last/spy.txt"
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_a_sealer_inherits_nothing_of_its_host(tmp_path, monkeypatch):
    """It has no descriptor of the host, no tracer's start-up folder, no option of ours but the one that silences it."""
    spy = tmp_path / "python-spy"
    spy.write_text(SPY)
    spy.chmod(0o755)
    lake = tmp_path / "lake"
    lake.mkdir()
    tracer, library = tmp_path / "auto_instrumentation", tmp_path / "library"
    tracer.mkdir()
    library.mkdir()
    (tracer / "sitecustomize.py").write_text("raise SystemExit(1)")
    monkeypatch.setattr(sys, "executable", str(spy))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tracer), str(library))))
    monkeypatch.setenv("AGENT_REPLAY_MODE", "exact")
    monkeypatch.setenv("AGENT_REPLAY_CAPTURE", "full")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "agent_replay")
    with (tmp_path / "of-the-host").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        sealer.spawn_sealer(lake)
    until((lake / "spy.txt").exists)
    descriptors, _, rest = (lake / "spy.txt").read_text().partition("--\n")
    environment, _, command = rest.rpartition("-- ")
    assert "of-the-host" not in descriptors
    assert "/dev/null" in descriptors
    variables = dict(line.split("=", 1) for line in environment.splitlines() if "=" in line)
    ours = {name: value for name, value in variables.items() if name.startswith("AGENT_REPLAY_")}
    assert ours == {"AGENT_REPLAY_ENABLED": "false"}
    assert variables["OTEL_SDK_DISABLED"] == "true"
    assert variables["PYTHONPATH"] == str(library)
    assert command.splitlines() == [f"-m otel_agent_replay.export.sealer {lake}", str(lake)]


def test_a_server_that_embeds_python_is_not_taken_for_an_interpreter(tmp_path, monkeypatch):
    """Where `sys.executable` is the server's own program, the interpreter beside it is used, or none is started."""
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="uwsgi"):
        sealer.spawn_sealer(tmp_path)


class Watch:
    """`agent-replay seal --watch` on a lake."""

    def __init__(self, lake: Path, *options: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("AGENT_REPLAY_")}
        command = [sys.executable, "-m", "otel_agent_replay", "seal", "--watch", "--interval", "0.1"]
        self.process = subprocess.Popen(
            [*command, "--lake", str(lake), *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, number: int = signal.SIGTERM):
        self.process.send_signal(number)
        return wait_for(self.process)


@pytest.fixture
def watch():
    started = []

    def start(lake, *options):
        started.append(Watch(lake, *options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watch_seals_while_a_service_writes(service, watch, number):
    """Each batch of runs is told in a line of its own while the service goes on; a signal ends it with exit code 0."""
    shop = service()
    shop.answer(5)
    beside = watch(shop.lake)
    assert beside.process.stdout.readline().startswith("sealed 5 runs, 10 spans; 5 segments removed")
    shop.answer(7)
    told = 0
    while told < 7:
        line = beside.process.stdout.readline()
        told += int(line.split()[1])
    assert told == 7
    assert shop.process.poll() is None
    assert sealed_runs(shop.lake) == 12
    ended = beside.end(number)
    assert (ended.status, ended.stderr) == (0, "")
    assert shop.end() == ""


def test_watch_speaks_json_lines(service, watch):
    """With --json every line is one document that names its schema."""
    shop = service()
    beside = watch(shop.lake, "--json")
    first = json.loads(beside.process.stdout.readline())
    assert (first["schema"], first["runs"]) == ("agent-replay/seal", 0)
    shop.answer(4)
    told = 0
    while told < 4:
        document = json.loads(beside.process.stdout.readline())
        assert (document["schema"], document["schema_version"]) == ("agent-replay/seal", 1)
        told += document["runs"]
    ended = beside.end()
    assert (ended.status, ended.stdout, ended.stderr) == (0, "", "")


def test_watch_says_once_what_it_cannot_do_and_goes_on(service, watch, tmp_path):
    """A lake that cannot be written is told once, not each round; when it can be again, sealing goes on."""
    shop = service()
    shop.answer(2)
    spans = shop.lake / "spans"
    spans.write_text("in the way")
    beside = watch(shop.lake)
    assert beside.process.stderr.readline().startswith(f"error[seal]: {shop.lake} could not be sealed: ")
    shop.answer(1)
    time.sleep(0.5)  # rounds go by in which nothing more may be said
    spans.unlink()
    line = beside.process.stdout.readline()
    assert line.startswith("sealed 3 runs")
    ended = beside.end()
    assert (ended.status, ended.stderr) == (0, "")

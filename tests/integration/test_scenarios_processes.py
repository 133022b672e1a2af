"""Agents in processes that fork, spawn, are preloaded, are terminated or end in the middle of a stream."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import urllib.request

import pytest

from otel_agent_replay.model import Kind, OutcomeStatus, RunStatus
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat_stream
from tests.support.agents import Script, assert_same, nodes_of, wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and signalled")

WSGI = """
import os
import otel_agent_replay as replay
replay.configure()

@replay.tool(side_effect="read")
def look_up(order):
    return [order, os.getpid()]

@replay.agent(thread_id="order")
def answer(order):
    return [look_up(order), look_up(order + "!")]

answer("while preloading")

def app(environ, start_response):
    body = repr(answer(environ["PATH_INFO"])).encode()
    start_response("200 OK", [("content-type", "text/plain"), ("content-length", str(len(body)))])
    return [body]
"""


def test_gunicorn_preload_records_every_workers_runs(tmp_path):
    """Runs of workers forked after the application was imported and had recorded are all there, each whole."""
    pytest.importorskip("gunicorn")
    script = Script(tmp_path, WSGI, name="shop.py")
    command = ["-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0", "shop:app"]
    server = subprocess.Popen(
        [sys.executable, *command], env=script.recording_environment(), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        lines = []
        for line in server.stderr:
            lines.append(line)
            found = re.search(r"Listening at: (http://[\d.]+:\d+)", line)
            if found:
                break
        else:
            pytest.fail("".join(lines))
        drain = threading.Thread(target=server.stderr.read, daemon=True)
        drain.start()
        answers = [urllib.request.urlopen(f"{found[1]}/{n}", timeout=30).read().decode() for n in range(6)]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        drain.join(10)
        server.stderr.close()
    script.seal()
    runs = [script.load(run) for run in script.runs()]
    assert {run.run.thread_id for run in runs} == {"while preloading", *(f"/{n}" for n in range(6))}
    for run in runs:
        assert run.run.status is RunStatus.OK
        assert len(nodes_of(run, Kind.TOOL)) == 2
        assert run.losses == ()
    pids = {re.search(r"\['/\d', (\d+)\]", answer)[1] for answer in answers}
    assert str(server.pid) not in pids
    assert len({run.run.process for run in runs}) == 1 + len(pids)


FORKING = """
import os, sys, json, multiprocessing
import otel_agent_replay as replay
replay.configure()

@replay.tool(side_effect="read")
def look_up(order):
    return order.upper()

@replay.agent
def in_child(order):
    return look_up(order)

@replay.agent
def forking():
    found = [look_up("before")]
    pid = os.fork()
    if pid == 0:
        try:
            look_up("in the child")
            in_child("of the child")
        finally:
            os._exit(0)
    found.append(os.waitpid(pid, 0)[1])
    found.append(look_up("after"))
    return found

def work(queue):
    queue.put(in_child("spawned"))

@replay.agent
def spawning():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    found = queue.get(timeout=30)
    process.join(30)
    return [look_up("before"), found, process.exitcode]

if __name__ == "__main__":
    print(json.dumps({"forking": forking, "spawning": spawning}[sys.argv[1]]()))
"""


def test_fork_in_the_middle_of_a_run(tmp_path):
    """A run whose process forks goes on whole in the parent; what the child calls does not get mixed into it."""
    script = Script(tmp_path, FORKING)
    runs = script.record("forking")
    parent = runs["forking"]
    assert parent.run.status is RunStatus.OK
    asked = [parent.payload(node.call.request.digest) for node in nodes_of(parent, Kind.TOOL)]
    assert asked == [b'{"order":"before"}', b'{"order":"after"}']
    assert [node.step for node in nodes_of(parent, Kind.TOOL)] == [1, 2]
    child = runs["in_child"]
    assert child.run.status is RunStatus.OK
    assert len(nodes_of(child, Kind.TOOL)) == 1
    assert child.run.process != parent.run.process
    assert [loss.what for loss in parent.losses] == ["calls of a forked child"]
    verdict = script.replay(parent, "forking")
    assert verdict.exit_code == 1
    assert verdict.departure.message.startswith("fork the process at ")
    assert f"{script.path}:{FORKING[: FORKING.index('os.fork')].count(chr(10)) + 1}" in verdict.departure.message


def test_multiprocessing_spawn_records_the_childs_runs_as_its_own(tmp_path):
    """A spawned process records the agents that it runs; the parent's run holds its own calls only."""
    script = Script(tmp_path, FORKING)
    runs = script.record("spawning")
    assert len(nodes_of(runs["spawning"], Kind.TOOL)) == 1
    assert len(nodes_of(runs["in_child"], Kind.TOOL)) == 1
    assert runs["in_child"].run.process != runs["spawning"].run.process
    assert {run.run.status for run in runs.values()} == {RunStatus.OK}


LONG = """
import os, sys, time
import otel_agent_replay as replay
replay.configure()
import httpx

@replay.tool(side_effect="write")
def note(number):
    return number

@replay.agent
def long_running():
    for number in range(5):
        note(number)
    with httpx.Client(timeout=30) as client:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "tell"}]}
        with client.stream("POST", os.environ["SERVER"] + "/v1/chat/completions", json=body) as response:
            for number, piece in enumerate(response.iter_raw()):
                if "leave" in sys.argv:
                    sys.exit(3)
                print("streaming", flush=True)

long_running()
"""


def hanging_server():
    """Send two pieces of a stream, then nothing more."""
    body = openai_chat_stream(["one ", "two"]).body
    return ScriptedProvider([Reply.of_events(body, cuts=[body.index(b"\n\n") + 2], ending="silent")])


def test_sigterm_in_the_middle_of_a_run_loses_nothing_acknowledged(tmp_path):
    """After SIGTERM every finished step is in the lake, the call that was open is pending, and so is the run."""
    pytest.importorskip("httpx")
    with hanging_server() as server:
        script = Script(tmp_path, LONG, SERVER=server.url)
        process = script.start()
        assert process.stdout.readline() == "streaming\n"
        process.send_signal(signal.SIGTERM)
        assert wait_for(process).status == -signal.SIGTERM
    script.seal()
    (run,) = [script.load(one) for one in script.runs()]
    assert run.run.status is RunStatus.PENDING
    assert [node.outcome.status for node in nodes_of(run, Kind.TOOL)] == [OutcomeStatus.OK] * 5
    (call,) = nodes_of(run, Kind.MODEL)
    assert call.outcome.status is OutcomeStatus.PENDING
    verdict = script.replay(run)
    assert verdict.tape_ended
    assert verdict.steps_replayed == 6


def test_interpreter_exit_in_the_middle_of_a_stream(tmp_path):
    """`sys.exit` while a stream is open ends the run with what was read, and its replay ends the same."""
    pytest.importorskip("httpx")
    with hanging_server() as server:
        script = Script(tmp_path, LONG, SERVER=server.url)
        runs = script.record("leave", status=3)
    run = runs["long_running"]
    (call,) = nodes_of(run, Kind.MODEL)
    assert call.outcome.closed_early
    assert call.outcome.result.size > 0
    assert run.run.status is RunStatus.ERROR
    verdict = script.replay(run, "leave")
    assert_same(verdict)
    assert verdict.child_exit == 3

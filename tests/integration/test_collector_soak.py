"""Millions of spans through receiver and sealer, both killed again and again: none lost, none doubled, memory flat.

OTEL_AGENT_REPLAY_SOAK_SPANS says how many (ten million unless it does), OTEL_AGENT_REPLAY_SOAK_FOLDER where the lake
lies meanwhile (the test's own folder).
"""

import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from otel_agent_replay.lake.views import connect
from tests.support.receiving import CollectorProcess, post, request_of, spans_of_request, until

SPANS = int(os.environ.get("OTEL_AGENT_REPLAY_SOAK_SPANS", "10_000_000"))
KILLS = 10
BATCH = 512
MOST_GROWTH = 1.3
START_MB = 256
"""What a sealer takes at once; in a short soak the kills come before it has started."""


class Load:
    """Sends the requests with these numbers; one that was not acknowledged is sent again, as an SDK does."""

    def __init__(self):
        self.acknowledged = 0
        self.again = 0

    def send(self, numbers, process_of):
        for number in numbers:
            # Plain spans and an agent's seal by different ways.
            data = request_of(BATCH, seed=number, text_bytes=200, plain=number % 4 > 0).SerializeToString()
            while True:
                process = process_of()
                try:
                    status = post(process.http, data)[0]
                except OSError:  # killed meanwhile: nobody knows whether it was taken
                    status = 0
                if status == 200:
                    self.acknowledged += BATCH
                    break
                self.again += 1
                time.sleep(0.05 if status == 0 else 0.5)


def resident_mb(pid):
    """The memory of a process now, in MiB; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS")), 0)


def child_of(pid):
    """The sealer of a receiver."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found[0]) if found else 0


def has_landed(lake, since):
    """Whether the sealer that began then is in the middle of its work, or has nothing to do."""
    received = lake / "received"
    try:
        status = (received / "sealer-status.json").stat()
        done = json.loads((received / "sealer-status.json").read_bytes())
    except (OSError, ValueError):
        return False
    return status.st_mtime > since and (done["spans"] > 0 or not list(received.glob("*.requests")))


class Watch:
    """The highest memory of receiver and sealer in each tenth of the spans."""

    def __init__(self, load, process_of):
        self._load, self._process_of = load, process_of
        self.peaks = [{"receiver": 0, "sealer": 0} for _ in range(KILLS)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended.wait(0.2):
            tenth = min(KILLS - 1, self._load.acknowledged * KILLS // SPANS)
            process = self._process_of()
            try:
                pids = {"receiver": process.process.pid, "sealer": child_of(process.process.pid)}
            except OSError:
                continue
            for name, pid in pids.items():
                self.peaks[tenth][name] = max(self.peaks[tenth][name], resident_mb(pid))

    def end(self):
        self._ended.set()
        self._thread.join()


@pytest.mark.soak
def test_millions_of_spans_through_ten_kills(tmp_path):
    """Killed while they receive and seal: every acknowledged span is in the lake once, neither process has grown."""
    lake = Path(os.environ.get("OTEL_AGENT_REPLAY_SOAK_FOLDER", tmp_path)) / "soaked"
    started, begun = time.monotonic(), time.time()
    options = ("--quiet-s", "1", "--segment-s", "1", "--segment-mb", "32", "--max-waiting-mb", "512")
    current = [CollectorProcess(lake, *options)]
    load, ready = Load(), threading.Event()
    ready.set()

    def process_of():
        ready.wait()
        return current[0]

    watch = Watch(load, lambda: current[0])
    sender = threading.Thread(target=load.send, args=(range(SPANS // BATCH), process_of))
    sender.start()
    for kill in range(1, KILLS + 1):
        goal = SPANS * kill // (KILLS + 1)
        until(lambda goal=goal: load.acknowledged >= goal or not sender.is_alive(), seconds=24 * 3600)
        until(lambda begun=begun: has_landed(lake, begun), seconds=24 * 3600)
        ready.clear()
        current[0].kill()  # its sealer ends with it, wherever it is
        begun = time.time()
        current[0] = CollectorProcess(lake, *options)
        ready.set()
    sender.join()
    received = lake / "received"
    until(lambda: not [*received.glob("*.requests"), *received.glob("*.open")], seconds=24 * 3600)
    took = time.monotonic() - started
    watch.end()
    assert current[0].end() == 0
    with connect(lake) as connection:
        ((count, different),) = connection.execute("SELECT count(*), count(DISTINCT span_id) FROM spans").fetchall()
    peaks = {name: [tenth[name] for tenth in watch.peaks] for name in ("receiver", "sealer")}
    print(f"\n{count:,} spans in {took:,.0f} s, {load.again} requests sent again; peak MiB by tenth: {peaks}")
    assert load.acknowledged == SPANS // BATCH * BATCH
    assert (count, different) == (load.acknowledged, load.acknowledged)
    for name, found in peaks.items():
        early, late = max(found[: KILLS // 2]), max(found[KILLS // 2 :])
        assert late <= early * MOST_GROWTH + START_MB, f"{name} grew from {early} to {late} MiB"
    shutil.rmtree(lake)


def test_the_corpus_of_the_soak_is_another_for_each_request():
    """Else nothing that is doubled or missing could be seen."""
    ids = [span.span_id for seed in range(3) for span in spans_of_request(request_of(BATCH, seed=seed))]
    assert len(set(ids)) == len(ids)

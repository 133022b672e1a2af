"""Thousands of recorded steps, a candidate with planted changes, and a process that is killed half-way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.provider import Reply, SeenRequest
from tests.support.asked_runs import body_of, lake_of, question
from tests.support.lake_runs import RunMaker

STEPS, PARALLEL = 100, 8
RECORDED = {place: body_of(("search", {"q": place})) for place in range(STEPS)}
CHANGED = body_of(("refund", {"order": 7}))
# What `rusage` tells of a child begins with the memory of whoever started it; the high-water mark of /proc does not.
MEASURED = """
import re, sys
from pathlib import Path
from otel_agent_replay.cli.main import main
peak = sys.argv.pop(1)
try:
    main()
finally:
    found = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
    Path(peak).write_text(found[1])
"""
MORE_MEMORY = 45 << 20
"""The bytes that a resumed screening of all runs may take beyond one of a tenth of them: three quarters of what the
requests are that it sends, so that one that holds them fails. The allocator alone takes 20 to 35 MB more for five
thousand steps than for one thousand, and nothing more for ten thousand.
"""


def planted(runs: int) -> set[tuple[int, int]]:
    """Return where the candidate does something else, by run and place."""
    return {(number, place) for number in range(runs) for place in range(STEPS) if (number * STEPS + place) % 131 == 7}


def recorded_run(number: int, runs: int):
    """One of so many runs of a hundred model steps; long requests, so that holding all of them would show."""
    maker = RunMaker(number)
    rules = {
        "role": "system",
        "content": f"Rules of run {number}. " + "Be kind to everyone who asks. " * (40_000 // runs),
    }
    for place in range(STEPS):
        maker.model([rules, {"role": "user", "content": question(number, place)}], RECORDED[place])
    return maker.run()


class Candidate:
    """Answers as recorded but where a change is planted; tells when it has seen `half`."""

    def __init__(self, runs: int) -> None:
        changed = planted(runs)
        self.answers = {
            question(number, place): Reply(CHANGED if (number, place) in changed else RECORDED[place])
            for number in range(runs)
            for place in RECORDED
        }
        self.steps = runs * STEPS
        self.asked: Counter[str] = Counter()
        self.half = threading.Event()

    def __call__(self, request: SeenRequest) -> Reply:
        content = request.json["messages"][-1]["content"]
        self.asked[content] += 1
        if self.asked.total() >= self.steps // 2:
            self.half.set()
        return self.answers[content]


@dataclass(frozen=True)
class Finished:
    """How a child process ended: its code, the JSON it printed, the most memory it had (bytes)."""

    code: int
    document: dict
    memory: int


def started(lake: Path, url: str, out: Path, *more: str) -> subprocess.Popen:
    options = [
        "--lake",
        lake,
        "--candidate",
        f"base_url={url}/v1",
        "--out",
        out,
        "--parallel",
        PARALLEL,
        "--json",
        *more,
    ]
    command = [sys.executable, "-c", MEASURED, out.with_suffix(".peak"), "steps", *options]
    return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finished(child: subprocess.Popen) -> Finished:
    output, errors = child.communicate(timeout=600)
    assert output, errors.decode()
    peak = Path(child.args[3])
    return Finished(child.returncode, json.loads(output), int(peak.read_text()) * 1024)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the high-water mark of memory from /proc")
@pytest.mark.slow
@pytest.mark.parametrize("runs", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_thousands_of_steps_are_screened_exactly_in_bounded_memory_and_never_twice(tmp_path, runs):
    """Exactly the planted changes are found, memory is bounded, and after SIGKILL no step is asked twice."""
    lake = lake_of(tmp_path / "lake", [recorded_run(number, runs) for number in range(runs)])
    ids = {RunMaker(number).run_id.hex(): number for number in range(runs)}
    steps, changed, candidate = runs * STEPS, planted(runs), Candidate(runs)
    with ScriptedProvider(candidate) as provider:
        provider.seen = _Forgotten()
        few = f"run_id <= '{sorted(ids)[runs // 10 - 1]}'"
        small = finished(started(lake, provider.url, tmp_path / "few", "--where", few))
        assert small.document["steps"] == steps // 10
        candidate.asked.clear()
        killed = started(lake, provider.url, tmp_path / "out", "--where", "true")
        assert candidate.half.wait(300)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        killed.stdout.close()
        killed.stderr.close()
        before = candidate.asked.total()
        resumed = finished(started(lake, provider.url, tmp_path / "out", "--where", "true"))
        assert before < steps, "it was killed half-way"
        assert set(candidate.asked.values()) == {1}, "no step was asked twice"
        in_doubt = resumed.document["in_doubt"]
        assert in_doubt <= PARALLEL
        assert len(candidate.asked) >= steps - in_doubt
        whole = finished(started(lake, provider.url, tmp_path / "out", "--where", "true", "--again"))
    found = {(ids[one["run"]], one["step"] - 1) for one in whole.document["disagreements"]}
    assert found == changed
    assert {(one["match"], one["risk"]) for one in whole.document["disagreements"]} == {("other tools", "external")}
    assert whole.document["steps"] == steps
    assert whole.code == 1
    lane = whole.document["lanes"]["candidate"]
    assert lane["in_sight"]["differ"] == lane["runs_differing"] == len({number for number, _ in changed})
    assert lane["in_sight"]["differ"] + lane["beyond"]["differ"] == len(changed)
    assert resumed.memory < small.memory + MORE_MEMORY


class _Forgotten(list):
    """Remembers no request: thousands of long ones would be held by the server otherwise."""

    def append(self, _item):
        """Forget it."""

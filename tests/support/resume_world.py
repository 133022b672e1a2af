"""What a test of resuming needs: a world that agents change and that counts, and a stage where they are killed."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from otel_agent_replay.export.sealer import seal
from otel_agent_replay.export.unsealed import load_run
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.ledger import Ledger, ledger_url, open_ledger
from otel_agent_replay.model import RecordedRun, Run
from otel_agent_replay.replay.continued_report import ContinuedReport
from otel_agent_replay.replay.verdict import ReplayVerdict
from otel_agent_replay.testing.provider import Reply, ScriptedProvider, SeenRequest

ROOT = Path(__file__).parent.parent.parent
KILLED = -signal.SIGKILL


class World:
    """A model, orders, and services that do what is asked once a key, as good ones do; `x-key: ""` is no key.

    `asked` counts model calls by prompt, `done` changes by path and content, `called` calls that ask for one. `hold`
    maps a path (`hold_prompt` a prompt) to an event that its answer waits for, `arrived` a path to one that is set when
    somebody asks there. `fails` is how many of the next calls of a path (`GET /service` for queries; `fails_prompt`:
    of a prompt) get status 500. `hold_stream` maps a prompt to an event that its streamed answer waits for after the
    second of its four pieces.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.called: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.keys: dict[str, set[str]] = {}
        self.hold: dict[str, threading.Event] = {}
        self.arrived: dict[str, threading.Event] = {}
        self.fails: Counter[str] = Counter()
        self.fails_prompt: Counter[str] = Counter()
        self.hold_prompt: dict[str, threading.Event] = {}
        self.hold_stream: dict[str, threading.Event] = {}
        self._by_key: dict[tuple[str, str], bytes] = {}
        self.provider = ScriptedProvider(self._answer)

    def _answer(self, request: SeenRequest) -> Reply:
        path = request.path
        if path in self.arrived:
            self.arrived[path].set()
        hold = {-1: self.hold[path]} if path in self.hold else {}
        if path == "/v1/chat/completions":
            prompt = request.json["messages"][-1]["content"]
            self.asked[prompt] += 1
            if self.fails_prompt[prompt]:
                self.fails_prompt[prompt] -= 1
                return Reply.of_json({"error": {"message": "overloaded"}}, 500)
            if prompt in self.hold_prompt:
                hold = {-1: self.hold_prompt[prompt]}
            if request.json.get("stream"):
                hold = {2: self.hold_stream[prompt]} if prompt in self.hold_stream else {}
                return Reply.of_events(streamed(f"{prompt}:{number} " for number in range(4)), hold=hold)
            return Reply.of_json(completion(f"answer {hashlib.sha256(prompt.encode()).hexdigest()[:8]}"), hold=hold)
        _, service, *rest = path.split("/")
        if request.method == "GET":
            kept = self._by_key.get((f"/{service}", rest[0]))
            if service == "orders":
                return Reply.of_json({"id": rest[0], "cents": 4900}, hold=hold)
            if self._fails(f"GET /{service}"):
                return Reply.of_json({}, 500)
            return Reply.of_json({}, 404) if kept is None else Reply(kept)
        what = f"{path} {request.body.decode()}"
        key = request.header("x-key")
        self.called[what] += 1
        self.keys.setdefault(what, set()).add(key)
        if self._fails(path):
            return Reply.of_json({}, 500)
        if not key or (path, key) not in self._by_key:
            self.done[what] += 1
            self._by_key[path, key] = json.dumps({"did": what, "number": self.done[what]}).encode()
        return Reply(self._by_key[path, key], hold=hold)

    def _fails(self, what: str) -> bool:
        if not self.fails[what]:
            return False
        self.fails[what] -= 1
        return True

    def __enter__(self) -> World:  # noqa: PYI034 - typing.Self needs 3.11
        self.provider.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.provider.stop()


def until(condition: Callable[[], bool], what: str, within_s: float = 30) -> None:
    """Wait for something that another process does and nobody tells."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.01)


def completion(text: str) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def streamed(pieces: Iterable[str]) -> bytes:
    """Return a streamed completion of these pieces."""
    chunks = [
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}],
        }
        for piece in pieces
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


class Scene:
    """A child on the stage: `pid`, and what it printed once it has ended."""

    def __init__(self, stage: Stage, pid: int, output: Path) -> None:
        self._stage = stage
        self.pid = pid
        self._output = output

    def wait(self) -> int:
        """Return its exit status; below 0: the signal that ended it."""
        return int(self._stage.ask({"wait": self.pid}))

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    @property
    def result(self) -> Any:
        """What the agent returned."""
        return json.loads(self.output.splitlines()[-1])


class Stage:
    """Plays scenes in forked children of one warm process. Each `Theatre` uses it with a lake of its own."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.resume_stage"],
            cwd=folder,  # outside the repository: its next commit is no change of these agents
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith("AGENT_REPLAY_")},
                "PYTHONPATH": str(ROOT),
                "PYTHONHASHSEED": "7",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count()
        self._folder = folder
        self._lock = threading.Lock()

    def ask(self, message: dict[str, Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            return self._process.stdout.readline().strip()

    def start(self, message: dict[str, Any]) -> Scene:
        output = self._folder / f"scene-{next(self._numbers)}"
        return Scene(self, int(self.ask({**message, "output": str(output)})), output)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class Theatre:
    """One lake, one ledger (`file`; "": none while recording), one world."""

    def __init__(self, stage: Stage, world: World, folder: Path, ledger: str = "file") -> None:
        self.stage = stage
        self.world = world
        self.folder = folder
        self.lake = folder / "lake"
        self.ledger = ledger

    def start(self, play: str, *arguments: Any, environment: dict[str, str] | None = None, **message: Any) -> Scene:
        """Start an agent that is recorded; `environment` are options without their prefix."""
        options = {"lake": str(self.lake), "ledger": self.ledger, "seal": "off", **(environment or {})}
        return self.stage.start(
            {
                "play": play,
                "arguments": arguments,
                "world": self.world.provider.url,
                "environment": {f"AGENT_REPLAY_{name.upper()}": value for name, value in options.items()},
                **message,
            }
        )

    def record(self, play: str, *arguments: Any, status: int = 0, **options: str) -> Scene:
        """Record an agent to its end; with `kill_at` it dies there."""
        scene = self.start(play, *arguments, environment=options)
        wanted = KILLED if "kill_at" in options else status
        assert scene.wait() == wanted, scene.output
        return scene

    def start_resuming(self, play: str, run: Run, *arguments: Any, entry: bool = False, **options: str) -> Scene:
        environment = {
            "mode": "resume",
            "run": run.run_id.hex(),
            "report": str(self.folder / "report.json"),
            "ledger": self.ledger or "file",
            **options,
        }
        return self.start(play, *arguments, environment=environment, entry=entry)

    def resume(
        self, play: str, run: Run, *arguments: Any, status: int = 0, entry: bool = False, **options: str
    ) -> Scene:
        """Finish a run as the command line does, in a child that is forked instead of started."""
        scene = self.start_resuming(play, run, *arguments, entry=entry, **options)
        wanted = KILLED if "kill_at" in options else status
        assert scene.wait() == wanted, scene.output
        return scene

    @property
    def report(self) -> ContinuedReport:
        return ContinuedReport.from_json((self.folder / "report.json").read_text())

    def replay(self, play: str, run: Run, *arguments: Any) -> ReplayVerdict:
        """Replay a run exactly, in a child; return the verdict."""
        seal(self.lake)
        report = self.folder / "verdict.json"
        report.unlink(missing_ok=True)
        environment = {"mode": "exact", "run": run.run_id.hex(), "report": str(report), "ledger": ""}
        scene = self.start(play, *arguments, environment=environment)
        scene.wait()
        assert report.exists(), scene.output
        return ReplayVerdict.from_json(report.read_text())

    def run(self, number: int = 0) -> RecordedRun:
        """Return the number-th run of this lake that is no replay, whole."""
        return load_run(self.lake, self.run_ids()[number])

    def run_ids(self) -> list[str]:
        from otel_agent_replay.export.record_index import RecordIndex
        from otel_agent_replay.export.segments import SegmentData, visible_segments

        index = RecordIndex([SegmentData(segment) for segment in visible_segments(self.lake)])
        found = {key.run_id.hex() for key, run in index.runs.items()}
        if any((self.lake / "spans").rglob("*.parquet")):
            found |= {summary.run.run_id.hex() for summary in Lake(self.lake).runs() if not summary.run.replay}
        return sorted(run for run in found if not load_run(self.lake, run, facts=False).run.replay)

    def book(self) -> Ledger:
        return open_ledger(ledger_url(self.ledger or "file", self.lake))


def steps(recorded: RecordedRun) -> list[tuple[int, str, str]]:
    """Return what a run did, by step: path and outcome."""
    return sorted(
        (node.step, "/".join(node.path), str(node.outcome.status if node.outcome else "none"))
        for node in recorded.nodes
        if node.step is not None
    )

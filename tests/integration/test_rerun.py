"""Re-runs by the command line: the model live on the candidate, everything else from recordings or refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.model import Kind
from otel_agent_replay.testing.provider import ScriptedProvider
from tests.support.rerunning import World

ROOT = Path(__file__).parent.parent.parent
ENTRY = "tests.support.rerun_agents:clerk"
AGENT = [sys.executable, str(ROOT / "tests/support/rerun_agents.py")]


FIND = [["find", "17"]]


class Stage:
    """A folder with a lake, servers, and the command line."""

    def __init__(self, folder, world, urls):
        self.folder, self.world, self.urls = folder, world, urls
        self.lake = folder / "lake"
        self.into = folder / "lake-reruns"

    @property
    def given(self):
        """What the environment is given (None: taken away)."""
        ours = ("AGENT_REPLAY_", "OTEL_", "OPENAI_", "ANTHROPIC_")
        taken = dict.fromkeys(name for name in os.environ if name.startswith(ours))
        return {**taken, **self.urls, "PYTHONPATH": str(ROOT)}

    @property
    def environment(self):
        """The whole environment of a process."""
        return {name: value for name, value in {**os.environ, **self.given}.items() if value is not None}

    @property
    def shop(self):
        """Host and port of the shop."""
        return self.urls["SHOP_URL"].removeprefix("http://")

    def record(self, script, order="17", **more):
        """Record a run of the clerk whose model says `script`; return its id."""
        (run_id,) = self.record_each([script], [order], **more)
        return run_id

    def record_each(self, scripts, orders, **more):
        """Record a run of the clerk for each script and order, one after the other in one process; return their ids."""
        self.world.scripts["old"] = iter(scripts) if len(scripts) > 1 else scripts[0]
        known = {one.run.run_id for one in Lake(self.lake).runs()}
        done = subprocess.run(
            [*AGENT, *orders],
            env={**self.environment, "AGENT_REPLAY_LAKE": str(self.lake), "AGENT_REPLAY_SEAL": "off", **more},
            cwd=self.folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seal(self.lake)
        runs = [one.run for one in Lake(self.lake).runs() if one.run.run_id not in known and one.run.agent == "clerk"]
        return [run.run_id.hex() for run in sorted(runs, key=lambda run: run.started_ns)]

    def copied(self, folder):
        """Return the same with a copy of its lake in another folder."""
        shutil.copytree(self.lake, folder / "lake")
        return Stage(folder, self.world, self.urls)

    def command(self, *words):
        return [sys.executable, "-m", "otel_agent_replay", "rerun", "--lake", str(self.lake), *words]

    def rerun(self, *words, way=("--entry", ENTRY), candidate="new", **more):
        """Run runs again; return exit code, the JSON document, and what was said.

        The command runs in this process, as its re-runs run in children whatever it runs in.
        """
        what = ["--candidate", f"model={candidate}"] if candidate else []
        options = ["rerun", "--lake", str(self.lake), "--json", *what, *words, *way]
        done = CliRunner().invoke(main, options, env={**self.given, **more})
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        document = json.loads(done.stdout) if done.stdout.startswith("{") else None
        return done.exit_code, document, done.stderr

    def one(self, *words, **more):
        """Run one run again; return its exit code and its result in the candidate lane."""
        code, document, said = self.rerun(*words, **more)
        assert document is not None, said
        (result,) = [one for one in document["results"] if one["lane"] == "candidate"]
        return code, result

    def again(self, result):
        """Return the recording of a re-run."""
        return Lake(self.into).load(bytes.fromhex(result["report"]["run_id"]))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A stage whose servers are those of all tests here."""
    made = Stage(tmp_path_factory.mktemp("rerun"), World(), {})

    def asked(name):
        def answer(request):  # of the world that the stage has then
            return getattr(made.world, name)(request)

        return ScriptedProvider(answer)

    with asked("model") as model, asked("shop") as shop, asked("bank") as bank:
        made.urls.update(MODEL_URL=model.url, SHOP_URL=shop.url, PAY_URL=bank.url)
        yield made


@pytest.fixture(scope="module")
def finder(home):
    """The id of a run that found order 17, recorded once for all tests that need no other."""
    return home.record(FIND)


@pytest.fixture
def stage(home, tmp_path, monkeypatch):
    """A stage of one test, without a run; its servers were asked nothing yet."""
    monkeypatch.chdir(tmp_path)
    home.world = World()
    return Stage(tmp_path, home.world, home.urls)


@pytest.fixture
def found(home, finder, stage):
    """The same with a copy of the run that found order 17."""
    return home.copied(stage.folder)


def test_a_candidate_that_does_the_same_finishes_alike(stage):
    """Reads and writes come from the recording; the re-run is linked, marked, and in a lake of its own."""
    script = [["find", "17"], ["refund", "17", 100], ["count", "abc"]]
    origin = stage.record(script)
    files = {path: path.read_bytes() for path in stage.lake.rglob("*.parquet")}
    stage.world.scripts["new"] = script
    code, result = stage.one(origin)
    assert (code, result["status"], result["alike"]) == (0, "finished", True), result
    assert (result["answers"], result["off_tape"]) == ({"tape": 2}, 0)
    assert [body["model"] for body in stage.world.asked] == ["old", "new"]
    assert (len(stage.world.writes), len(stage.world.read)) == (1, 1)
    run = stage.again(result).run
    assert (run.origin_run_id.hex(), run.mode, run.replay, run.fork_step) == (origin, "regression", True, 0)
    assert {path: path.read_bytes() for path in stage.lake.rglob("*.parquet")} == files


EVERYTHING = [
    ["find", "17"], ["refund", "17", 1], ["side_by_side", 2, 3], ["letter", "x"], ["undeclared_post", "/any"],
    ["by_thread", "/thread"], ["may_pay", "17", 5], ["pay", "17", 5],
]  # fmt: skip
OTHERWISE = [
    [["refund", "17", 9]], [["by_program", "/other"]], [["by_library", "/other"]], [["by_thread", "/other"]],
    [["side_by_side", 8, 9]], [["letter", "y"]], [["undeclared_post", "/other"]], [["pay", "17", 5]],
    [["may_pay", "17", 6], ["pay", "17", 6]], [["by_pure_tool", "/other"]], [["by_thread_library", "/other"]],
]  # fmt: skip
"""What was never recorded. The first four: a tool, another program, a library that nobody intercepts, a thread."""


@pytest.mark.parametrize(
    ("isolated", "scripts"),
    [
        pytest.param(True, OTHERWISE[:4], id="isolated"),
        pytest.param(True, OTHERWISE[4:], id="isolated in every other way", marks=pytest.mark.soak),
        pytest.param(False, OTHERWISE, id="in process", marks=pytest.mark.soak),
    ],
)
def test_a_re_run_never_sends_a_write(stage, isolated, scripts):
    """By tools, parallel ones, threads, other programs or libraries, the same as on record or another: none comes."""
    from otel_agent_replay.replay import isolation

    if isolated and isolation.why_not():
        pytest.skip(isolation.why_not())
    wall = "--isolate" if isolated else "--no-isolate"
    origin = stage.record(EVERYTHING)
    sent = len(stage.world.writes)
    assert sent == 7
    stage.world.scripts["new"] = EVERYTHING
    bank = stage.environment["PAY_URL"].removeprefix("http://")
    code, result = stage.one(origin, wall, "--allow", bank)  # declared code may reach the bank, and still none writes
    assert (code, result["alike"], len(stage.world.writes)) == (0, True, sent), result
    for way, said in ((("--entry", ENTRY), scripts[::2]), (("--", *AGENT), scripts[1::2])):
        stage.world.scripts["new"] = iter(said)  # one each for the repeats
        words = (wall, "--allow", bank, "--repeats", str(len(said)))
        code, document, told = stage.rerun(origin, *words, way=way)
        results = [one for one in document["results"] if one["lane"] == "candidate"]
        assert (code, len(results)) == (1, len(said)), told
        assert {result["status"] for result in results} <= {"refused", "finished"}, results
        assert not any(result["alike"] for result in results)
        assert next(stage.world.scripts["new"], None) is None
        assert len(stage.world.writes) == sent, (said, results)


def test_a_cohort_that_was_killed_goes_on_where_it_was(stage, tmp_path):
    """Killed half-way, with a bad run among them: what is done is not done again, and the bad one ends nothing."""
    orders = ["0", "1", "2"]
    good = stage.record_each([[["find", order]] for order in orders], orders)
    bad = "0" * 32
    cohort = tmp_path / "cohort.jsonl"
    cohort.write_text("".join(json.dumps({"run": run}) + "\n" for run in [good[0], bad, *good[1:]]))
    stage.world.scripts["new"] = [["find", "0"]]
    words = ("--cohort", str(cohort), "--candidate", "model=new", "--pool", "cohort", "--entry", ENTRY)
    process = subprocess.Popen(
        stage.command(*words), env=stage.environment, cwd=stage.folder, stderr=subprocess.PIPE, text=True
    )
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("[2/4]"):
            process.kill()
            break
    process.wait()
    process.stderr.close()
    assert said[-1].startswith("[2/4]"), said
    asked = len(stage.world.asked)
    code, document, _ = stage.rerun("--cohort", str(cohort), "--pool", "cohort", "--parallel", "2")
    assert code == 1
    results = {one["run"]: one for one in document["results"] if one["lane"] == "candidate"}
    assert results[good[0]]["alike"]
    assert results[bad]["status"] == "not_begun"
    assert [results[run]["answers"] for run in good[1:]] == [{"pool": 1}, {"pool": 1}]
    assert not any(results[run]["alike"] for run in good[1:])
    report = tmp_path / "rerun.json"
    report.write_text(json.dumps(document))
    told = CliRunner().invoke(main, ["brief", str(report), "--lake", str(stage.lake)]).stdout
    assert "1 of 4 re-runs did not finish; 2 finished and did something else than on record." in told
    assert f"agent-replay show {good[1]} --step" in told
    assert f"agent-replay diff {good[1]} " in told
    assert f"agent-replay show {bad}" in told
    assert "not_begun" in told
    code, document, said = stage.rerun("--cohort", str(cohort), "--pool", "cohort", "--parallel", "2")
    assert (code, [one["lane"] for one in document["results"]]) == (1, ["observed"] * 3 + ["candidate"] * 4)
    assert "3 of 4 re-runs are in" in said  # only what never began is tried again
    replays = [one.run for one in Lake(stage.into).runs()]
    origins = [run.origin_run_id.hex() for run in replays]
    assert (set(origins), origins.count(good[0])) == (set(good), 1)
    assert len(stage.world.asked) in (asked + 2, asked + 3)  # one was on its way when its parent was killed


def test_runs_of_the_lake_and_named_ones_may_answer(stage):
    """What this run never read, another run of the lake did, or the one that is named."""
    other, origin = stage.record_each([[["find", "18"]], FIND], ["18", "17"])
    stage.world.scripts["new"] = [["find", "17"], ["find", "18"]]
    read = len(stage.world.read)
    for pool in ("lake", other):
        code, result = stage.one(origin, "--pool", pool)
        assert (code, result["answers"], result["off_tape"]) == (1, {"pool": 1, "tape": 1}, 0.5), result
        assert "find" in result["parted"]["came"]
    assert len(stage.world.read) == read


def test_a_user_is_simulated_beside_the_run(stage):
    """A simulator in the child, behind the walls, answers where neither the recorded user nor the script does."""
    (stage.folder / "users.py").write_text("def patient(message, turns):\n    return f'{message} {len(turns)}'\n")
    origin = stage.record([["ask_user", "Which order?"]])
    stage.world.scripts["new"] = [["ask_user", "Which order?"], ["ask_user", "Sure?"], ["ask_user", "Really?"]]
    code, result = stage.one(origin)
    assert (code, result["status"], result["report"]["code"]) == (1, "stopped", "turn_misfit"), result
    (stage.folder / "script.txt").write_text("yes\n")
    given = ("--user-script", "script.txt", "--simulator", "users:patient")
    code, result = stage.one(origin, *given)
    assert (code, result["answers"]) == (0, {"tape": 1, "fixture": 2}), result
    again = stage.again(result)
    root = next(node for node in again.nodes if node.kind is Kind.RUN)
    assert json.loads(again.payload(root.outcome.result.digest)) == ["as on record: Whi", "yes", "Really? 2"]


def test_lanes_and_repeats_are_runs_of_their_own(found, finder):
    """Baseline and candidate, twice each: four runs beside the observed one, each told by lane."""
    found.world.scripts = {"old": FIND, "new": [*FIND, ["note", "more"]]}
    code, document, _ = found.rerun(finder, "--baseline", "--repeats", "2", "--allow", found.shop, "--parallel", "2")
    assert code == 1  # the candidate's count
    lanes = {one["lane"]: one for one in document["lanes"]}
    assert [(name, lane["runs"], lane["alike"]) for name, lane in lanes.items()] == [
        ("observed", 1, 1), ("baseline", 2, 2), ("candidate", 2, 0),
    ]  # fmt: skip
    assert lanes["candidate"]["answers"] == {"dry_run": 2, "tape": 2}
    assert lanes["observed"]["tokens"] == 100
    runs = [one.run for one in Lake(found.into).runs()]
    assert len({run.run_id for run in runs}) == 4
    assert {run.origin_run_id.hex() for run in runs} == {finder}
    (parted,) = {json.dumps(one["parted"]) for one in document["results"] if one["lane"] == "candidate"}
    assert "tool note" in json.loads(parted)["came"]


def test_a_run_that_uses_too_much_is_stopped_and_told(found, finder):
    """A limit of CPU time is a hard stop: the re-run has an id and a reason, and the exit code says departed."""
    found.world.scripts["new"] = [["spin"]]
    code, result = found.one(finder, "--limit", "cpu=3")
    assert (code, result["status"], "CPU limit" in result["report"]["reason"]) == (1, "stopped", True), result
    assert result["report"]["run_id"]


@pytest.mark.skipif(sys.platform != "linux", reason="processes end with their parent on Linux")
def test_a_re_run_ends_with_the_command_that_started_it(found, finder):
    """Nobody is left to take its result or to hold it to a budget: the child is gone, too."""
    found.world.scripts["new"] = [["spin"]]
    parent = subprocess.Popen(
        found.command(finder, "--candidate", "model=new", "--entry", ENTRY),
        env=found.environment, cwd=found.folder, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _until(lambda: len(found.world.asked) == 1)
        tasks = Path(f"/proc/{parent.pid}/task").iterdir()
        children = [pid for task in tasks for pid in (task / "children").read_text().split()]
        assert children
    finally:
        parent.kill()
        parent.wait()
    _until(lambda: not any(map(_is_alive, children)))


def _until(happened):
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_process_that_never_begins_a_run_cannot_be_judged(found, finder):
    """It is killed when its time is over, and nothing is said of the candidate."""
    forever = ("--", sys.executable, "-c", "import threading; threading.Event().wait()")
    code, result = found.one(finder, "--timeout", "2", way=forever)
    assert (code, result["status"]) == (125, "not_begun"), result
    assert "did not end within 2.0 s and was killed" in result["report"]["reason"]


def test_keys_come_from_the_env_file_and_are_never_stored(found, finder, tmp_path):
    """The candidate's key reaches its endpoint and nothing else: no file of either lake has it."""
    found.world.scripts["new"] = [["find", "17"]]
    (tmp_path / "keys.env").write_text("CANDIDATE_KEY=sk-verysecret-candidate-1\n")
    with ScriptedProvider(found.world.model) as other:
        candidate = f"model=new,base_url={other.url}/v1,key_env=CANDIDATE_KEY"
        code, document, said = found.rerun(
            finder, "--candidate", candidate, "--env-file", str(tmp_path / "keys.env"), candidate=None
        )
        assert [request.header("authorization") for request in other.seen] == ["Bearer sk-verysecret-candidate-1"]
    assert code == 0, said
    kept = [path for folder in (found.lake, found.into) for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"sk-verysecret" in path.read_bytes()]
    assert "sk-verysecret" not in json.dumps(document) + said


def test_the_gateway_of_today_is_where_the_client_goes(stage):
    """A base URL that is set is the upstream: the OpenAI client goes there, on the candidate's model."""
    pytest.importorskip("openai")
    with ScriptedProvider(stage.world.model) as then, ScriptedProvider(stage.world.model) as today:
        origin = stage.record([["by_sdk", "hi"]], OPENAI_BASE_URL=then.url + "/v1", OPENAI_API_KEY="sk-then")
        stage.world.scripts["new"] = [["by_sdk", "hi"]]
        code, _ = stage.one(origin, OPENAI_BASE_URL=today.url + "/v1")
        assert code == 0
        assert (len(then.seen), [json.loads(one.body)["model"] for one in today.seen]) == (1, ["new"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--candidate", "model=new"], "say which runs"),
        (["0198", "--entry", "a:b"], "say what is new"),
        (["0198", "--candidate", "model=new"], "say what to run"),
        (["0198", "--candidate", "name=new", "--entry", "a:b"], "is no part of a candidate"),
        (["0198", "--candidate", "model=new", "--pool-age", "1h", "--entry", "a:b"], "give a --pool too"),
        (["0198", "--candidate", "model=new", "--set", "model=x", "--entry", "a:b"], "say it once"),
        (["--where", "nonsense", "--candidate", "model=new", "--entry", "a:b"], "is no condition"),
    ],
)
def test_a_command_that_cannot_be_says_why(tmp_path, words, said):
    """Wrong options are usage errors, told before anything runs."""
    from click.testing import CliRunner

    from otel_agent_replay.cli.main import main

    told = CliRunner().invoke(main, ["rerun", "--lake", str(tmp_path / "lake"), *words])
    assert told.exit_code == 2
    assert said in told.stderr


def test_re_runs_never_go_to_the_lake_of_the_runs(found, finder):
    """Nor into a folder in it or around it."""
    for into in (found.lake, found.lake / "more", found.folder):
        code, _, said = found.rerun(finder, "--into", str(into))
        assert code == 2
        assert "a lake of their own" in said

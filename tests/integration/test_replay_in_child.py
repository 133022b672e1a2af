"""A recorded run is replayed in a child process, by its command or by its entry, and judged."""

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from otel_agent_replay import bootstrap
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.replay import isolation, landlock
from otel_agent_replay.replay.enclosed import Enclosure
from otel_agent_replay.replay.launch import entry_command, replay_command
from otel_agent_replay.replay.verdict import VerdictStatus

AGENT = """
import os, random, socket, sys, time, uuid, asyncio
import otel_agent_replay as replay

@replay.tool(side_effect="read")
def price(item):
    with open(os.environ["LIVE_LOG"], "a") as log:
        log.write("price\\n")
    return {"item": item, "cents": random.randrange(10_000)}

@replay.tool(side_effect="write")
def refund(order, cents):
    with open(os.environ["LIVE_LOG"], "a") as log:
        log.write("refund\\n")
    return f"refunded {cents} of {order}"

@replay.agent
def support(question, *, order="o-1"):
    key = uuid.uuid4().hex
    found = price(os.environ.get("ITEM", "lamp"))
    time.sleep(0.05)
    #ESCAPE
    return [question, key, time.time(), refund(f"{order}-{random.random()}", found["cents"])]

@replay.agent(name="other")
async def other():
    await asyncio.sleep(0.01)
    return price("chair")["cents"]

if __name__ == "__main__":
    asyncio.run(other())
    print(support("where is my money?", order="o-7"))
"""


RACING = """
import asyncio, queue, random, threading, time
from concurrent.futures import ThreadPoolExecutor, as_completed
import otel_agent_replay as replay

@replay.tool(side_effect="read")
async def ask(source):
    await asyncio.sleep(random.random() / 50)
    return f"{source} says {random.random()}"

@replay.tool(side_effect="read")
def look(source):
    time.sleep(random.random() / 50)
    return f"{source} shows {random.random()}"

@replay.tool(side_effect="none")
def note(text):
    return len(text)

async def think(source):
    thought = random.random()
    return f"{thought}: {await ask(source)}"

@replay.agent
async def support():
    order = []
    tasks = {asyncio.create_task(ask(name)) for name in "abcd"}
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    order += sorted(task.result() for task in done)
    note(str(order))
    for nearest in asyncio.as_completed([think(name) for name in "efgh"]):
        order.append(await nearest)
        note(str(order))
    def threads():
        with ThreadPoolExecutor(3) as pool:
            for future in as_completed([pool.submit(look, name) for name in "ijk"]):
                order.append(future.result())
                note(str(order))
    await asyncio.to_thread(threads)
    order += await asyncio.gather(ask("same"), ask("same"), asyncio.to_thread(look, "same"))
    try:
        await asyncio.wait_for(asyncio.sleep(30), 0.05)
    except asyncio.TimeoutError:
        order.append("gave up")
    note(str(order))
    return order

if __name__ == "__main__":
    asyncio.run(support())
"""

LEFT = """
import asyncio, os
import otel_agent_replay as replay

@replay.tool(side_effect="read")
def look(number):
    with open(os.environ["LIVE_LOG"], "a") as log:
        log.write("look\\n")
    return number * 2

@replay.agent
def support(top):
    for number in range(top):
        yield look(number)

def take(items):
    for item in items:
        if item == 2:
            break
    items.close()

if __name__ == "__main__":
    take(support(5))
"""

OWN_CLASSES = """
import dataclasses, enum
import otel_agent_replay as replay

class Colour(enum.Enum):
    RED = "red"

@dataclasses.dataclass
class Order:
    class Unknown(Exception):
        pass
    number: int
    colour: Colour

@replay.tool(side_effect="read")
def look(order):
    if order.number > 1:
        raise Order.Unknown(str(order.number))
    return dataclasses.replace(order, number=order.number + 1)

@replay.agent
def support(order):
    found = look(order)
    try:
        return look(found)
    except Order.Unknown as error:
        return [found, str(error)]

if __name__ == "__main__":
    support(Order(1, Colour.RED))
"""


class Recorded:
    """An agent's script, its lake, and what its tools did live."""

    def __init__(self, folder):
        self.folder = folder
        self.script = folder / "helpdesk.py"
        self.script.write_text(AGENT)
        self.lake = folder / "lake"
        self.log = folder / "live.log"
        self.lived, self.runs = "", {}
        root = str(Path(bootstrap.__file__).parents[2])
        self.environment = {**os.environ, "LIVE_LOG": str(self.log), "PYTHONPATH": root}

    def record(self, *, exit_status=0):
        shim = str(Path(bootstrap.__file__).parent)
        environment = {
            **self.environment,
            "AGENT_REPLAY_LAKE": str(self.lake),
            "AGENT_REPLAY_SEAL": "off",
            "PYTHONHASHSEED": "7",
            "PYTHONPATH": os.pathsep.join((shim, self.environment["PYTHONPATH"])),
        }
        done = subprocess.run(
            [sys.executable, str(self.script)],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == exit_status, done.stderr
        assert seal(self.lake).open_segments == 0
        newest_last = reversed(Lake(self.lake).runs())
        runs = {summary.run.agent: summary.run for summary in newest_last if not summary.run.replay}
        self.lived = self.log.read_text()
        self.runs = runs

    def copied(self, folder):
        """Return the same, with its runs, in another folder."""
        copy = Recorded(folder)
        shutil.copytree(self.lake, copy.lake)
        copy.log.write_text(self.lived)
        copy.lived, copy.runs = self.lived, self.runs
        return copy

    def edit(self, old, new):
        text = self.script.read_text()
        assert old in text
        self.script.write_text(text.replace(old, new))

    def replay(self, run, **options):
        return self.start(run, [sys.executable, str(self.script)], **options)

    def start(self, run, argv, *, lake=None, isolate=False):
        enclosure = Enclosure(
            lake or self.lake, isolate=isolate, environment=self.environment, directory=self.folder, timeout_s=60
        )
        return replay_command(run, argv, enclosure=enclosure)


@pytest.fixture
def unrecorded(tmp_path):
    """The agent's script, not recorded yet."""
    return Recorded(tmp_path)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The agent as it is above, recorded once."""
    made = Recorded(tmp_path_factory.mktemp("template"))
    made.record()
    return made


@pytest.fixture
def recorded(template, tmp_path):
    """A copy of it, to change and to replay."""
    return template.copied(tmp_path)


@pytest.fixture(scope="module")
def unchanged(template, tmp_path_factory):
    """A copy whose command was replayed as it is, and the verdict."""
    copy = template.copied(tmp_path_factory.mktemp("unchanged"))
    return copy, copy.replay(copy.runs["support"])


def test_unchanged_command_is_the_same(unchanged):
    """Replaying the recorded command gives the same run: nothing runs live, the output is equal, walls are named."""
    recorded, verdict = unchanged
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()
    assert verdict.exit_code == 0
    assert verdict.output_same is True
    assert verdict.input_same is True
    assert verdict.steps_replayed == verdict.steps_recorded == 3
    assert verdict.never_asked == ()
    assert verdict.reads_never_made == 0
    assert verdict.fences == ("in-process only",)
    assert [(one.agent, one.status) for one in verdict.others] == [("other", VerdictStatus.SAME)]
    assert recorded.log.read_text() == recorded.lived


@pytest.mark.skipif(bool(isolation.why_not()), reason=isolation.why_not() or "available")
def test_isolated_replay_says_which_walls_stood(recorded):
    """With `isolate` the kernel fence stands around the same replay."""
    verdict = recorded.replay(recorded.runs["support"], isolate=True)
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()
    assert verdict.fences[:2] == ("in-process", "kernel (seccomp)")
    assert verdict.fences[2:] == (landlock.NAME,) or verdict.fences[2].startswith(f"no {landlock.NAME}: ")


def test_replay_is_recorded_and_linked(unchanged):
    """The replay is a run of its own in the lake, marked as a replay of its origin."""
    recorded, verdict = unchanged
    seal(recorded.lake)
    copy = Lake(recorded.lake).load(bytes.fromhex(verdict.replay_run_id)).run
    assert copy.replay
    assert copy.mode == "exact"
    assert copy.origin_run_id == recorded.runs["support"].run_id


def test_changed_argument_departs(recorded):
    """A changed tool argument stops the replay at its step, with its path and the line that made the call."""
    recorded.edit('"ITEM", "lamp"', '"ITEM", "lamb"')
    verdict = recorded.replay(recorded.runs["support"])
    assert verdict.status is VerdictStatus.DEPARTED, verdict.to_json()
    assert verdict.exit_code == 1
    assert verdict.departure.step == 1
    assert verdict.departure.differences == ("item: 'lamp' -> 'lamb'",)
    line = next(n for n, text in enumerate(recorded.script.read_text().splitlines(), 1) if "lamb" in text)
    assert verdict.departure.location == f"{recorded.script}:{line}"
    assert recorded.log.read_text() == recorded.lived


def test_agent_that_swallows_everything_has_departed_all_the_same(recorded):
    """Though the agent catches BaseException around the changed call, the verdict is a departure."""
    recorded.edit(
        'found = price(os.environ.get("ITEM", "lamp"))',
        'try:\n        found = price("lamb")\n    except BaseException:\n        return "fine"',
    )
    verdict = recorded.replay(recorded.runs["support"])
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.departure.differences == ("item: 'lamp' -> 'lamb'",)


def test_left_out_call_departs(recorded):
    """A recorded call that the replay never asked for is a departure that names it."""
    recorded.edit("    time.sleep(0.05)\n", "")
    verdict = recorded.replay(recorded.runs["support"])
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.departure.message.startswith("step 2 was never asked for: sleep time.sleep")
    assert [missed.step for missed in verdict.never_asked] == [2]


def test_changed_output_departs(recorded):
    """The same steps with another outcome are a departure of the outcome."""
    recorded.edit("return [question, key", "return [question.upper(), key")
    verdict = recorded.replay(recorded.runs["support"])
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.output_same is False
    assert verdict.output_differences == ("[0]: 'where is my money?' -> 'WHERE IS MY MONEY?'",)


def test_way_out_is_a_departure_with_its_place(recorded):
    """A socket opened by the changed agent is refused, and named with file and line."""
    recorded.edit("#ESCAPE", 'socket.create_connection(("127.0.0.1", 9))')
    line = next(n for n, text in enumerate(recorded.script.read_text().splitlines(), 1) if "127.0.0.1" in text)
    verdict = recorded.replay(recorded.runs["support"])
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.attempts[0].what == "connect to 127.0.0.1:9"
    assert verdict.attempts[0].location == f"{recorded.script}:{line}"


def test_way_out_that_the_agent_swallows_is_a_departure_all_the_same(recorded):
    """Though it catches BaseException around the refused connection and goes on as recorded, it has departed."""
    escape = 'socket.create_connection(("127.0.0.1", 9))'
    recorded.edit("#ESCAPE", f"try: {escape}\n    except BaseException: pass")
    verdict = recorded.replay(recorded.runs["support"])
    assert verdict.status is VerdictStatus.DEPARTED, verdict.to_json()
    assert verdict.departure.message.startswith("connect to 127.0.0.1:9")


def test_connection_that_the_process_was_started_with_is_shut(recorded):
    """What it inherits (here as its input) carries nothing more, and the verdict names the peer."""
    recorded.edit("#ESCAPE", 'try: os.write(0, b"secret")\n    except BrokenPipeError: pass')
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours, kept = socket.create_connection(listener.getsockname()), os.dup(0)
        try:
            os.dup2(ours.fileno(), 0)
            ours.close()
            verdict = recorded.replay(recorded.runs["support"])
        finally:
            os.dup2(kept, 0)
            os.close(kept)
        peer, _ = listener.accept()
        with peer:
            assert peer.recv(100) == b""
        assert verdict.closed_sockets == (f"127.0.0.1:{listener.getsockname()[1]}",)
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()


@pytest.mark.parametrize("agent", ["support", "other"])
def test_entry_replays_one_run_alone(recorded, agent):
    """`--entry` calls the agent with its recorded input; the other runs of its process are not needed."""
    verdict = recorded.start(recorded.runs[agent], entry_command(f"helpdesk:{agent}"))
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()
    assert verdict.others == ()
    assert recorded.log.read_text() == recorded.lived


@pytest.mark.parametrize("front", ["def", "async def"])
def test_entry_leaves_a_generator_where_its_consumer_did(unrecorded, front):
    """An agent of which two items were taken is asked for two, and closed: it calls nothing that is not recorded."""
    again = "asyncio.run(take(support(5)))" if front == "async def" else "take(support(5))"
    unrecorded.script.write_text(LEFT.replace("def support", f"{front} support").replace("take(support(5))", again))
    if front == "async def":
        unrecorded.edit("def take(items):\n    for", "async def take(items):\n    async for")
        unrecorded.edit("items.close()", "await items.aclose()")
    unrecorded.record()
    argv = entry_command("helpdesk:support")
    verdict = unrecorded.start(unrecorded.runs["support"], argv)
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()
    assert (verdict.steps_replayed, verdict.output_same) == (2, True)


def test_entry_of_what_was_a_script_knows_its_own_classes(unrecorded):
    """Arguments and errors of classes of the recorded script itself fit when the agent is called by its entry."""
    unrecorded.script.write_text(OWN_CLASSES)
    unrecorded.log.write_text("")
    unrecorded.record()
    verdict = unrecorded.start(unrecorded.runs["support"], entry_command("helpdesk:support"))
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()
    assert verdict.input_same is True
    assert verdict.output_same is True


def test_process_that_dies_without_a_word_cannot_be_judged(recorded):
    """A replay that ends in `os._exit` inside the run is not judged, and the exit status is told."""
    recorded.edit("#ESCAPE", "os._exit(3)")
    verdict = recorded.replay(recorded.runs["support"])
    assert verdict.status is VerdictStatus.CANNOT_JUDGE
    assert verdict.exit_code == 125
    assert verdict.child_exit == 3


def test_command_that_starts_no_such_run_cannot_be_judged(recorded):
    """Another command than the recorded one is not judged."""
    verdict = recorded.start(recorded.runs["support"], [sys.executable, "-c", "print(1)"])
    assert verdict.status is VerdictStatus.CANNOT_JUDGE
    assert "never started a run of agent 'support'" in verdict.reason


def test_run_that_is_not_on_the_tape_departs(recorded):
    """One agent run more than recorded does not go live."""
    recorded.edit("    asyncio.run(other())\n", "    asyncio.run(other())\n    asyncio.run(other())\n")
    verdict = recorded.replay(recorded.runs["support"])
    assert verdict.status is VerdictStatus.DEPARTED
    assert verdict.departure.came == "a run of agent 'other' that is not on the tape"
    assert recorded.log.read_text() == recorded.lived


@pytest.mark.slow
def test_racing_agent_through_the_real_recorder(unrecorded):
    """Tasks, threads, timeouts and identical calls, recorded by the real recorder, replay in the recorded order."""
    unrecorded.script.write_text(RACING)
    unrecorded.log.write_text("")
    unrecorded.record()
    for _ in range(2):
        verdict = unrecorded.replay(unrecorded.runs["support"])
        assert verdict.status is VerdictStatus.SAME, verdict.to_json()
        assert verdict.order_not_imposed == ()
        assert verdict.reads_never_made == 0


@pytest.mark.parametrize("where", ["in a tool", "between tools"])
def test_run_whose_process_died_replays_to_its_end(unrecorded, where):
    """The recording of a process that died is the same as far as it goes, and says that it ends there."""
    if where == "in a tool":
        unrecorded.edit('log.write("refund\\n")', 'log.write("refund\\n")\n    os._exit(9)')
    else:
        unrecorded.edit("#ESCAPE", "if not os.path.exists('replaying'): os._exit(9)")
    unrecorded.record(exit_status=9)
    (unrecorded.folder / "replaying").touch()
    verdict = unrecorded.replay(unrecorded.runs["support"])
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()
    assert verdict.tape_ended
    assert verdict.output_same is None
    assert verdict.steps_replayed == verdict.steps_recorded == (3 if where == "in a tool" else 2)
    assert unrecorded.log.read_text() == unrecorded.lived


def test_helper_process_does_not_overwrite_the_verdict(recorded):
    """Multiprocessing's helper inherits the environment of the replay; the verdict is still the replay's."""
    recorded.edit("#ESCAPE", "from multiprocessing import resource_tracker; resource_tracker.ensure_running()")
    verdict = recorded.replay(recorded.runs["support"])
    assert verdict.status is VerdictStatus.SAME, verdict.to_json()


def test_python_that_ignores_the_shim_is_refused(recorded):
    """`python -I` would run the agent live: it is not even started."""
    with pytest.raises(ConfigurationError, match="would run live"):
        recorded.start(recorded.runs["support"], [sys.executable, "-I", str(recorded.script)])
    assert recorded.log.read_text() == recorded.lived


def test_another_sitecustomize_still_runs(recorded):
    """The shim runs the next `sitecustomize` on the path first."""
    beside = recorded.folder / "site"
    beside.mkdir()
    (beside / "sitecustomize.py").write_text(
        textwrap.dedent(
            """
            import os
            open(os.environ["SITE_LOG"], "a").write("ran")
            """
        )
    )
    recorded.environment["SITE_LOG"] = str(recorded.folder / "site.log")
    recorded.environment["PYTHONPATH"] += os.pathsep + str(beside)
    assert recorded.replay(recorded.runs["support"]).status is VerdictStatus.SAME
    assert (recorded.folder / "site.log").read_text() == "ran"


def test_environment_of_a_broken_installation_never_goes_live(recorded):
    """Where the replay cannot be set up, the process ends before the agent's code."""
    verdict = recorded.replay(recorded.runs["support"], lake=recorded.folder / "nowhere")
    assert verdict.status is VerdictStatus.CANNOT_JUDGE
    assert verdict.child_exit == 125
    assert recorded.log.read_text() == recorded.lived

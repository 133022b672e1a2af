"""Recording never breaks its host: whatever fails on our side, the agent's result is what it would have been.

And it is said: one line in the log, and a loss in the lake wherever something could still be written.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
import shutil
import sys
import threading
import time
import unittest.mock

import pytest
from click.testing import CliRunner
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_agent_replay as replay
from otel_agent_replay.capture import node_records, recorder
from otel_agent_replay.capture.tracing import LiveSpan, Tracing
from otel_agent_replay.cli.main import main
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.export.segment_file import SegmentFile
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import Kind, RunStatus
from otel_agent_replay.testing import Reply, ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat, openai_chat_stream
from tests.support.agents import Script, nodes_of

httpx = pytest.importorskip("httpx")


class Host:
    """A configured process, its log and its lake."""

    def __init__(self, lake, caplog, **options):
        self.lake = lake
        self.log = caplog
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        replay.configure(lake=lake, seal="off", tracer_provider=provider, **options)

    @property
    def said(self):
        """What we said, at warning or above."""
        return [
            record
            for record in self.log.records
            if record.name == "otel_agent_replay" and record.levelno >= logging.WARNING
        ]

    def end(self):
        """Stop recording and seal; return the runs in the order they began."""
        replay.shutdown()
        assert seal(self.lake).failed == []
        lake = Lake(self.lake)
        return [lake.load(summary.run.run_id) for summary in reversed(lake.runs())]

    def losses(self):
        """Return (reason, what) of every row of the losses view."""
        with connect(self.lake) as connection:
            return connection.execute("SELECT reason, what FROM losses ORDER BY 1, 2").fetchall()

    def shown(self, run):
        command = ["show", run.run.run_id.hex(), "--coverage"]
        return CliRunner().invoke(main, command, env={"AGENT_REPLAY_LAKE": str(self.lake)}).stdout


@pytest.fixture
def host(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    yield lambda lake=tmp_path / "lake", **options: Host(lake, caplog, **options)
    replay.shutdown()


@pytest.fixture
def url():
    def serve(request):
        body = request.body.decode("utf-8", "replace")
        return openai_chat_stream(["on ", "its way"]) if '"stream":true' in body else openai_chat("on its way")

    with ScriptedProvider(serve) as server:
        yield f"{server.url}/v1/chat/completions"


@replay.tool(side_effect="read")
def look_up(order, *more):
    return [order, len(more)]


@replay.tool(side_effect="read")
def items(count):
    yield from range(count)


def ask(url, *, stream=False):
    body = f'{{"model":"m","stream":{str(stream).lower()},"messages":[{{"role":"user","content":"where?"}}]}}'.encode()
    with httpx.Client() as client:
        # In pieces, so that the request is known only after it was sent.
        answer = client.post(url, content=iter([body[:20], body[20:]]), headers={"content-type": "application/json"})
    return answer.status_code


@replay.agent
def support(url=None):
    """Cross every way there is; the result is the same with and without recording."""
    result = [look_up("A"), list(items(3))]
    with replay.step("plan", size=2):
        result.append(look_up("B"))
    replay.checkpoint("planned", {"found": 2}, resumable=True)
    result.append(time.time() > 0)
    if url is not None:
        result += [ask(url), ask(url, stream=True)]
    return result


EXPECTED = [["A", 0], [0, 1, 2], ["B", 0], True]


def test_a_lake_that_cannot_be_written(host, tmp_path):
    """A file lies where the lake should be: runs go on, one line says it, and nothing is raised at the end."""
    (tmp_path / "in the way").write_text("")
    here = host(tmp_path / "in the way" / "lake")
    for _ in range(5):
        assert support() == EXPECTED
    replay.shutdown()
    assert len(here.said) == 1
    assert "could not write" in here.said[0].getMessage()


def test_a_disk_that_is_full_for_a_while(host, monkeypatch):
    """Runs while the disk is full are lost and counted by run; those before and after it are whole."""
    here = host()
    support()
    full = [True]
    write = SegmentFile.write

    def until_there_is_room(self, data):
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, data)

    monkeypatch.setattr(SegmentFile, "write", until_there_is_room)
    assert support() == EXPECTED
    assert support() == EXPECTED
    full.clear()
    time.sleep(0.3)  # the journal tries again a quarter of a second after a failure
    assert support() == EXPECTED
    before, after = here.end()
    assert before.run.status is after.run.status is RunStatus.OK
    assert len(nodes_of(before, Kind.TOOL)) == len(nodes_of(after, Kind.TOOL)) == 3
    assert len(here.said) == 1
    assert {reason for reason, _ in here.losses()} == {"dropped"}
    with connect(here.lake) as connection:
        rows = connection.execute("SELECT DISTINCT run_id FROM losses WHERE run_id IS NOT NULL").fetchall()
    assert len(rows) == 2
    assert {run_id for (run_id,) in rows}.isdisjoint({before.run.run_id.hex(), after.run.run_id.hex()})


LIMITED = """
import resource
import otel_agent_replay as replay
replay.configure()

@replay.tool(side_effect="read")
def look_up(order):
    return order[-3:]

@replay.agent
def support():
    return [look_up("one"), look_up("long" * 100_000), look_up("two")]

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
print(support())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
def test_files_that_may_not_grow(tmp_path):
    """Under a limit on file sizes what fits is kept, what does not is counted, and the process lives on."""
    script = Script(tmp_path, LIMITED)
    ended = script.run()
    assert ended.stdout == "['one', 'ong', 'two']\n"
    assert ended.stderr.count("could not write") == 1
    script.seal()
    (run,) = [script.load(one) for one in script.runs()]
    assert run.run.status is RunStatus.OK
    assert {loss.reason for loss in run.losses} == {"dropped"}
    assert [bool(node.call) for node in nodes_of(run, Kind.TOOL)].count(True) >= 2


def test_a_journal_that_is_deleted_under_a_run(host):
    """The folder goes in the middle of a run: the run goes on, the next one is whole, and the loss is counted."""
    here = host()

    @replay.agent(name="support")
    def unlucky():
        look_up("A")
        shutil.rmtree(here.lake / "journal")
        return look_up("B")

    assert unlucky() == ["B", 0]
    assert support() == EXPECTED
    (run,) = here.end()
    assert len(nodes_of(run, Kind.TOOL)) == 3
    assert len(here.said) == 1
    assert here.losses() == [("dropped", "journal segment")]


BOOTSTRAPPED = """
import otel_agent_replay as replay

@replay.agent
def support(order):
    return order * 2

print(support(17), support(2))
"""


def test_broken_redaction_rules_in_code(tmp_path):
    """Rules that cannot be read are an error in code: nobody records without the rules that he asked for."""
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [{"pattern": "("}]}')
    with pytest.raises(replay.ConfigurationError, match="rules.json"):
        replay.configure(lake=tmp_path / "lake", redaction=rules)
    assert support() == EXPECTED
    assert not (tmp_path / "lake").exists()


def test_broken_redaction_rules_at_start_up(tmp_path):
    """A process that was to record itself says once that it does not, and does its work; nothing is written."""
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [{"pattern": "("}]}')
    script = Script(tmp_path, BOOTSTRAPPED)
    ended = script.run(AGENT_REPLAY_REDACTION=str(rules))
    assert ended.stdout == "34 4\n"
    assert ended.stderr.count("not recording") == 1
    assert "Traceback" not in ended.stderr
    assert not script.lake.exists()


def defect(*_, **__):
    raise RuntimeError("a defect")


DEFECTS = {
    "began": (node_records.NodeRecords, "begun"),
    "shape": (node_records.NodeRecords, "shape"),
    "ended": (node_records.NodeRecords, "ended"),
    "entered": (node_records.NodeRecords, "scope"),
    "left": (node_records.NodeRecords, "left"),
    "read": (recorder.convert, "read_to_wire"),
    "inside": (LiveSpan, "current"),
    "span": (Tracing, "start"),
    "everything": (recorder.Recorder, "_node"),
}


@pytest.mark.parametrize("where", DEFECTS)
def test_a_defect_in_the_recorder(host, url, monkeypatch, where):
    """Whichever step of recording raises, the agent gets its result; it is said once and counted as our own fault."""
    here = host()
    with monkeypatch.context() as patch:

        @replay.agent(name="support")
        def broken_in_the_middle():
            patch.setattr(*DEFECTS[where], defect)
            try:
                return support.__wrapped__(url)
            finally:
                patch.undo()

        assert broken_in_the_middle() == [*EXPECTED, 200, 200]
    assert support() == EXPECTED
    damaged, whole = here.end()
    assert len(here.said) == 1, [record.getMessage() for record in here.said]
    assert here.said[0].exc_info is not None
    assert whole.losses == ()
    assert len(nodes_of(whole, Kind.TOOL)) == 3
    assert damaged.run.status is RunStatus.OK
    assert damaged.losses
    assert {loss.reason for loss in damaged.losses} <= {"internal", "dropped"}
    assert "internal" in here.shown(damaged)
    assert ("internal",) in {loss[:1] for loss in here.losses()}


def test_a_defect_in_the_counting_of_losses(host, monkeypatch):
    """Where even a loss cannot be written, the agent goes on, and the log has both."""
    here = host()
    monkeypatch.setattr(node_records.NodeRecords, "begun", defect)
    monkeypatch.setattr(recorder.convert, "loss_to_wire", defect)
    assert support() == EXPECTED
    assert 1 <= len(here.said) <= 2


def test_a_defect_at_a_begin_does_not_end_what_is_around_it(host, monkeypatch):
    """A call whose begin was lost leaves no end behind, least of all its parent's."""
    here = host()
    shape = node_records.NodeRecords.shape
    failures = [RuntimeError("a defect")]

    def once(*arguments):
        if failures:
            raise failures.pop()
        return shape(*arguments)

    @replay.agent(name="support")
    def agent():
        with replay.step("plan"):
            monkeypatch.setattr(node_records.NodeRecords, "shape", once)
            return [look_up("lost"), look_up("kept")]

    assert agent() == [["lost", 0], ["kept", 0]]
    (run,) = here.end()
    (step,) = nodes_of(run, Kind.SCOPE)
    kept = nodes_of(run, Kind.TOOL)[-1]
    assert step.end_sequence > kept.end_sequence
    by_name = [span.name for span in here.exporter.get_finished_spans()]
    assert by_name == ["execute_tool look_up", "plan", "invoke_agent support"]


def test_a_defect_at_an_end_ends_the_span_all_the_same(host, monkeypatch):
    """The service's backend does not lose a span because its record could not be written."""
    here = host()
    monkeypatch.setattr(node_records.NodeRecords, "ended", defect)
    monkeypatch.setattr(node_records.NodeRecords, "left", defect)
    assert support() == EXPECTED
    names = sorted(span.name for span in here.exporter.get_finished_spans())
    assert names == [
        "checkpoint planned",
        "execute_tool items",
        "execute_tool look_up",
        "execute_tool look_up",
        "invoke_agent support",
        "plan",
    ]


def test_a_defect_in_describing_a_call(host, monkeypatch):
    """Where arguments, results or errors cannot be taken down, the function is called, gives and raises as ever."""
    from otel_agent_replay.payload.redaction import Redaction

    here = host()

    @replay.tool(side_effect="read")
    def failing():
        raise KeyError("no such order")

    @replay.agent(name="support")
    def agent():
        monkeypatch.setattr(Redaction, "value_bytes", defect)
        monkeypatch.setattr(Redaction, "text", defect)
        try:
            failing()
        except KeyError as error:
            raised = error.args
        result = [look_up("A"), list(items(3)), raised]
        monkeypatch.undo()
        return result

    assert agent() == [["A", 0], [0, 1, 2], ("no such order",)]
    (run,) = here.end()
    assert len(nodes_of(run, Kind.TOOL)) == 3
    assert all(not node.call.round_trips for node in nodes_of(run, Kind.TOOL))
    assert {loss.reason for loss in run.losses} == {"internal"}


def test_a_key_or_thread_id_that_cannot_be_had(host):
    """A function of the user that names the key, conversation or subject and raises costs the name, not the call."""
    here = host()

    def unknown(*_):
        raise LookupError("no such parameter")

    @replay.tool(side_effect="write", idempotency_key=unknown)
    def refund(order):
        return order

    @replay.agent(name="support", thread_id=unknown, subject=unknown)
    def agent():
        return refund(17)

    assert agent() == 17
    (run,) = here.end()
    assert (run.run.thread_id, run.run.subject) == ("", "")
    (node,) = nodes_of(run, Kind.TOOL)
    assert node.call.idempotency_key == ""
    assert here.said


# --- values that are hard to take down ---


class ReprRaises:
    def __repr__(self):
        raise ValueError("no repr")

    def __eq__(self, other):
        raise ValueError("not comparable")

    def __hash__(self):
        raise ValueError("no hash")


class AttributesRaise:
    def __getattribute__(self, name):
        raise RuntimeError(f"no {name}")


class ClassRaises:
    @property
    def __class__(self):
        raise RuntimeError("no class")

    @property
    def __dict__(self):
        raise RuntimeError("no dict")


@dataclasses.dataclass
class FieldRaises:
    kept: int = 1

    @property
    def __dict__(self):
        raise RuntimeError("no dict")

    def __getattribute__(self, name):
        if name == "kept":
            raise RuntimeError("no field")
        return object.__getattribute__(self, name)


class Exits:
    def __repr__(self):
        raise RecursionError("for ever")


class Dict(dict):
    def items(self):
        raise RuntimeError("no items")

    def __iter__(self):
        raise RuntimeError("no iteration")


def cyclic():
    value = {}
    value["self"] = [value]
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


HARD = {
    "repr raises": ReprRaises,
    "attribute access raises": AttributesRaise,
    "its class cannot be asked": ClassRaises,
    "a field raises": FieldRaises,
    "repr recurses": Exits,
    "a dict that does not iterate": lambda: Dict(a=1),
    "cyclic": cyclic,
    "very deep": deep,
    "a lone surrogate": lambda: "half \ud83d pair",
    "surrogate keys": lambda: {"\udc80": b"\xff", ("\ud800", 1): {"\ud800"}},
    "a generator": lambda: (number for number in range(3)),
    "a lock": threading.Lock,
    "a module": lambda: sys,
    "a frame": sys._getframe,
    "a mock": unittest.mock.MagicMock,
    "not a number": lambda: float("nan"),
    "a huge number": lambda: 10**4000,
}


@pytest.mark.parametrize("what", HARD)
def test_values_that_are_hard_to_take_down(host, what):
    """The tool gets the very object, and the agent what it returns; the step is recorded, nothing raised."""
    here = host()
    value = HARD[what]()
    got = []

    @replay.tool(side_effect="read")
    def take(given):
        got.append(given)
        return given

    @replay.agent(name="support")
    def agent(given):
        with replay.step("plan", given=given):
            replay.checkpoint("taken", given, resumable=True)
            return take(given)

    assert agent(value) is value
    assert len(got) == 1
    assert got[0] is value
    encode_spans(here.exporter.get_finished_spans()).SerializeToString()  # what the service's exporter does
    (run,) = here.end()
    assert run.run.status is RunStatus.OK
    assert len(nodes_of(run, Kind.TOOL)) == 1
    assert here.said == []
    assert CliRunner().invoke(main, ["show", run.run.run_id.hex(), "--lake", str(here.lake)]).exit_code == 0


class StrRaises(Exception):
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


class Unrepeatable(Exception):
    def __init__(self, one, two):
        super().__init__()
        self.state = AttributesRaise()

    def __reduce__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "error",
    [StrRaises("x"), Unrepeatable(1, 2), ValueError("\ud83d", AttributesRaise()), KeyError(ReprRaises())],
    ids=["its text raises", "cannot be made again", "surrogates", "its argument is hostile"],
)
def test_errors_that_are_hard_to_take_down(host, error):
    """The agent gets the very exception that the tool raised, and the run ends with it."""
    here = host()

    @replay.tool(side_effect="read")
    def failing():
        raise error

    @replay.agent(name="support")
    def agent():
        return failing()

    with pytest.raises(type(error)) as raised:
        agent()
    assert raised.value is error
    (run,) = here.end()
    assert run.run.status is RunStatus.ERROR
    assert here.said == []


def test_texts_with_half_a_character_everywhere(host, url):
    """Lone surrogates in names, attributes, prompts and answers neither raise nor cost the record of others."""
    here = host()
    half = "\ud83d"

    @replay.tool(name=f"tool {half}", side_effect="read")
    def odd(text):
        return f"{text}{half}"

    @replay.agent(name=f"agent {half}", thread_id="conversation")
    def agent(conversation):
        with replay.step(f"step {half}", **{f"key {half}": half}):
            replay.versions(prompt=half)
            with httpx.Client() as client:
                client.post(url, content=b'{"model":"m\\ud83d","messages":[{"role":"user","content":"\\ud83d"}]}')
            return odd(half)

    assert agent(f"talk {half}") == half + half
    encode_spans(here.exporter.get_finished_spans()).SerializeToString()  # what the service's exporter does
    (run,) = here.end()
    assert run.run.status is RunStatus.OK
    assert len(nodes_of(run, Kind.TOOL)) == len(nodes_of(run, Kind.SCOPE)) == 1
    assert here.said == []


@pytest.mark.soak
def test_an_argument_of_50_mb(host):
    """It is passed on untouched and recorded whole."""
    here = host()
    big = "0123456789" * 5_000_000

    @replay.agent(name="support")
    def agent():
        return look_up(big)

    assert agent()[0] is big
    (run,) = here.end()
    (node,) = nodes_of(run, Kind.TOOL)
    assert len(run.payload(node.call.request.digest)) > 50_000_000
    assert run.losses == ()
    assert here.said == []


def test_an_agent_that_recurses_to_the_limit(host):
    """A tool called on a nearly full stack works as far down as there is room, and the agent's own error is its own."""
    here = host()

    @replay.agent(name="support")
    def agent():
        deepest = 0

        def down(depth):
            nonlocal deepest
            look_up(depth)
            deepest = depth
            down(depth + 1)

        try:
            down(0)
        except RecursionError:
            return deepest

    assert agent() > 50
    (run,) = here.end()
    assert run.run.status is RunStatus.OK
    assert len(nodes_of(run, Kind.TOOL)) > 50
    assert len(here.said) <= 1


def test_an_answer_that_cannot_be_read(host):
    """A response whose head and body are garbage reaches the client as it is, and no more."""
    here = host()
    body = b"\xff\xfe{" + bytes(range(256))

    @replay.agent(name="support")
    def agent(url):
        with httpx.Client() as client:
            return client.post(url, json={"model": "m", "messages": []}).content

    with ScriptedProvider([Reply(body, headers=(("content-type", "application/json; charset=\xff"),))]) as server:
        assert agent(f"{server.url}/v1/chat/completions") == body
    (run,) = here.end()
    (node,) = nodes_of(run, Kind.MODEL)
    assert run.payload(node.outcome.result.digest) == body
    assert here.said == []

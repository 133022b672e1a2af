"""Each format of trajectories: what becomes of its records, and what is said of broken ones."""

from __future__ import annotations

import json
import zipfile

import pytest

from otel_agent_replay import semconv
from otel_agent_replay.errors import ConfigurationError, DamagedRecording
from otel_agent_replay.model import Fidelity, Kind, OutcomeStatus, RunStatus, SideEffect, digest_of
from otel_agent_replay.payload.redaction import Redaction
from tests.support.trajectories import WRITTEN_NS, call, desk_messages, imported, tau_record, written


def kinds(one):
    return [node.kind.value for node in one.run.nodes[1:]]


def labels(one):
    return {label.name: label.value for label in one.labels}


def nodes(one, kind):
    return [node for node in one.run.nodes if node.kind is kind]


def body(one, payload):
    data = one.run.payload(payload.digest)
    assert len(data) == payload.size
    return json.loads(data)


def asked(one, number=0):
    return body(one, nodes(one, Kind.MODEL)[number].call.request)


def test_tau_bench(tmp_path):
    """A record is a run: reward, task and trial are labels, and the benchmark's tools are known to read or write."""
    path = written(tmp_path, "results.json", [tau_record(), tau_record(trial=1, reward=0.0)])
    first, second = imported(path)
    assert kinds(first) == ["input", "model", "tool", "model", "input", "model", "tool", "model"]
    assert labels(first) == {"task": "0", "trial": 0, "reward": 1.0}
    assert labels(second)["reward"] == 0.0
    assert {label.who for label in first.labels} == {"tau-bench"}
    assert [node.side_effect for node in nodes(first, Kind.TOOL)] == [SideEffect.READ, SideEffect.WRITE]
    assert [len(asked(first, number)["messages"]) for number in range(4)] == [2, 4, 6, 8]
    assert first.run.run.status is RunStatus.OK
    assert first.run.run.mode == "import"
    assert {node.fidelity for node in first.run.nodes} == {Fidelity.MESSAGES}
    assert first.run.run.run_id != second.run.run.run_id
    root = first.run.spans[0].span.attributes
    assert root[semconv.IMPORT_FORMAT] == "tau-bench"
    assert root[semconv.IMPORT_SOURCE].endswith("results.json#0")


def test_a_run_without_times_says_so(tmp_path):
    """It is dated by its file, its steps have no ends, and the coverage report says that times are not captured."""
    (one,) = imported(written(tmp_path, "results.json", [tau_record()]))
    run = one.run.run
    assert (run.started_ns, run.ended_ns) == (WRITTEN_NS, 0)
    assert {span.span.end_ns for span in one.run.spans} == {0}
    assert all(node.end_sequence > node.sequence for node in one.run.nodes)
    entries = {entry.what: entry.state for entry in run.coverage.entries}
    assert entries["times"] == "not_captured"
    assert entries["model requests and answers"] == "partial"


def test_tau2_bench(tmp_path):
    """Messages tell times, usage and cost; the scripted greeting is no model call; model and commit are facts."""
    at = "2025-10-06T19:24:{:02}.000001".format
    messages = [
        {"role": "assistant", "content": "Hi!", "cost": 0.0, "usage": None, "timestamp": at(1)},
        {"role": "user", "content": "Hello", "timestamp": at(3), "usage": {"prompt_tokens": 1}, "cost": 0.5},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "name": "get_user_details", "arguments": {"user_id": "u"}}],
            "usage": {"prompt_tokens": 70, "completion_tokens": 7},
            "cost": 0.25,
            "timestamp": at(5),
            "raw_data": {"finish_reason": "tool_calls"},
        },
        {"role": "tool", "id": "c", "content": "no such user", "error": True, "timestamp": at(6)},
    ]
    one = {
        "task_id": "8",
        "trial": 3,
        "start_time": at(0),
        "end_time": at(7),
        "termination_reason": "max_steps",
        "reward_info": {"reward": 0.5},
        "messages": messages,
    }
    info = {"git_commit": "cc2ee4d", "agent_info": {"llm": "xai/grok", "llm_args": {"temperature": 0.0}}}
    (got,) = imported(written(tmp_path, "sim.json", {"info": info, "tasks": [], "simulations": [one]}))
    run = got.run.run
    assert kinds(got) == ["input", "model", "tool"]
    assert labels(got) == {"task": "8", "trial": 3, "reward": 0.5, "termination_reason": "max_steps"}
    assert (run.status, run.versions.code, run.ended_ns - run.started_ns) == (RunStatus.ABORTED, "cc2ee4d", 7 * 10**9)
    model = got.run.spans[2].span
    assert model.end_ns - model.start_ns == 2 * 10**9
    assert model.attributes[semconv.REQUEST_MODEL] == "xai/grok"
    assert model.attributes[semconv.USAGE_INPUT_TOKENS] == 70
    assert model.attributes[semconv.COST_USD] == 0.25
    assert list(model.attributes[semconv.RESPONSE_FINISH_REASONS]) == ["tool_calls"]
    assert asked(got)["temperature"] == 0.0
    tool = nodes(got, Kind.TOOL)[0]
    assert tool.outcome.status is OutcomeStatus.ERROR
    assert "no such user" in tool.outcome.failure.message


def swe(**more):
    history = [
        {"role": "system", "content": "You edit.", "agent": "main"},
        {"role": "user", "content": "A demonstration.", "agent": "main", "is_demo": True},
        {"role": "user", "content": "Fix it.", "agent": "main"},
        {"role": "assistant", "content": "Look.\n```\nopen a.py\n```", "agent": "main"},
        {"role": "user", "content": "[File: a.py]", "agent": "main"},
        {"role": "assistant", "content": "Run.\n```\npython a.py\n```", "agent": "main"},
    ]
    entries = [
        {"action": "open a.py\n", "observation": "[File: a.py]", "response": "Look.", "execution_time": 0.25},
        {"action": "python a.py\n", "observation": "8", "response": "Run."},
    ]
    return {"environment": "main", "trajectory": entries, "history": history, **more}


def test_swe_agent(tmp_path):
    """An entry is an answer and a command; a demonstration is part of the request; known sums are labels."""
    counted = {"instance_cost": 0.5, "tokens_sent": 70, "tokens_received": 0}
    info = {"exit_status": "exit_cost", "submission": "diff", "model_stats": counted}
    (one,) = imported(written(tmp_path, "a.traj", swe(info=info)))
    assert kinds(one) == ["input", "model", "tool", "model", "tool"]
    assert [node.name for node in nodes(one, Kind.TOOL)] == ["open", "bash"]
    assert [node.side_effect for node in nodes(one, Kind.TOOL)] == [SideEffect.READ, SideEffect.EXTERNAL]
    assert [len(asked(one, number)["messages"]) for number in range(2)] == [3, 5]
    assert labels(one) == {"exit_status": "exit_cost", "cost_usd": 0.5, "tokens_sent": 70}
    assert one.run.run.status is RunStatus.ERROR
    assert one.run.spans[3].span.end_ns - one.run.spans[3].span.start_ns == 250_000_000
    assert body(one, one.run.nodes[0].outcome.result) == "diff"


def test_swe_agent_history_alone(tmp_path):
    """A demonstration has its history only: a list of messages whose tools are SWE-agent's."""
    history = [{**message, "agent": "main"} for message in desk_messages()]
    (one,) = imported(written(tmp_path, "demo.traj", {"history": history}))
    assert one.run.spans[0].span.attributes[semconv.IMPORT_FORMAT] == "swe-agent"
    assert kinds(one) == ["input", "model", "tool", "model", "input", "model", "tool", "model"]


def test_ljoukov_llm_and_its_scoring(tmp_path):
    """Steps become model calls with usage and cost, the file beside it the score; that file by itself is no run."""
    usage = {"promptTokens": 50, "cachedTokens": 20, "responseTokens": 5, "thinkingTokens": 3}
    steps = [
        {
            "step": 1,
            "modelVersion": "m-1",
            "toolCalls": [
                {"toolName": "read_file", "input": {"path": "a"}, "output": "L1: x", "callId": "c"},
                {"toolName": "write_file", "input": {"path": "b"}, "output": None, "error": "denied"},
            ],
            "usage": usage,
            "costUsd": 0.5,
        },
        {"step": 2, "modelVersion": "m-1", "text": "Done.", "toolCalls": [], "usage": usage, "costUsd": 0.25},
    ]
    run = {"model": "m", "taskId": "t", "runIndex": 2, "result": {"text": "Done.", "steps": steps}}
    scoring = {
        "taskId": "t",
        "runIndex": 2,
        "success": False,
        "schemaPass": True,
        "toolTracePass": True,
        "graderPass": False,
    }
    scoring["grader"] = {"value": {"scores": {"faithfulness": 2}}}
    beside = written(tmp_path, "run-2.validation.json", scoring)
    (one,) = imported(written(tmp_path, "run-2.json", run))
    assert kinds(one) == ["model", "tool", "tool", "model"]
    assert [node.side_effect for node in nodes(one, Kind.TOOL)] == [SideEffect.READ, SideEffect.WRITE]
    assert nodes(one, Kind.TOOL)[1].outcome.status is OutcomeStatus.ERROR
    assert labels(one)["reward"] == 0.0
    assert labels(one)["score.faithfulness"] == 2
    attributes = one.run.spans[1].span.attributes
    assert attributes[semconv.USAGE_OUTPUT_TOKENS] == 8
    assert attributes[semconv.USAGE_CACHE_READ_INPUT_TOKENS] == 20
    assert attributes[semconv.RESPONSE_MODEL] == "m-1"
    assert len(asked(one, 1)["messages"]) == 3
    assert imported(beside) == []
    failed = {
        "model": "m",
        "taskId": "t",
        "runIndex": 1,
        "error": "Agent timeout exceeded.",
        "partialResult": {"steps": []},
    }
    (empty,) = imported(written(tmp_path, "run-1.json", failed))
    assert empty.run.run.status is RunStatus.ERROR
    assert kinds(empty) == []


def test_who_and_when(tmp_path):
    """Each entry is one step, so that the step to blame is its number; terminals are tools, a human is the user."""
    history = [
        {"role": "human", "content": "How many?"},
        {"role": "Orchestrator (thought)", "content": "Count."},
        {"role": "ComputerTerminal", "content": "4"},
        {"role": "WebSurfer", "content": "Four."},
        {"role": "user", "name": "Verifier", "content": "TERMINATE"},
    ]
    log = {
        "question": "How many?",
        "history": history,
        "mistake_step": "2",
        "mistake_agent": "x",
        "mistake_reason": "y",
    }
    (one,) = imported(written(tmp_path, "1.json", log))
    assert kinds(one) == ["input", "model", "tool", "model", "model"]
    assert [node.step for node in one.run.nodes[1:]] == [1, 2, 3, 4, 5]
    assert [node.name for node in nodes(one, Kind.MODEL)][:2] == ["chat Orchestrator (thought)", "chat WebSurfer"]
    assert body(one, one.run.nodes[0].outcome.result) == "Four."
    told = {label.name: (label.value, label.note) for label in one.labels}
    assert told["mistake_step"] == (3, "y")


def inspect_log(**sample):
    task = {
        "task": "security",
        "model": "openai/gpt-4o",
        "packages": {"inspect_ai": "0.3"},
        "revision": {"commit": "e9a"},
    }
    return {"version": 2, "status": "success", "eval": task, "samples": [{"id": 1, "epoch": 2, **sample}]}


def inspect_events():
    said = {"message": {"role": "assistant", "content": "ok"}, "stop_reason": "stop"}
    asking = {"id": "c", "function": "bash", "arguments": {"cmd": "ls"}}
    output = {"model": "gpt-4o", "choices": [said], "usage": {"input_tokens": 5, "output_tokens": 2}}
    calling = {
        "choices": [
            {"message": {"role": "assistant", "content": "", "tool_calls": [asking]}, "stop_reason": "tool_calls"}
        ]
    }
    at = "2026-01-01T00:00:{:02}Z".format
    raw = {
        "object": "chat.completion",
        "choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    }
    return [
        {"event": "span_begin", "id": "s", "name": "generate", "timestamp": at(1)},
        {"event": "span_begin", "id": "idle", "name": "nothing crosses here", "timestamp": at(1)},
        {
            "event": "model", "span_id": "s", "model": "openai/gpt-4o", "timestamp": at(2), "completed": at(4),
            "input": [], "input_refs": [[0, 1]], "output": {"model": "gpt-4o", **calling},
        },
        {
            "event": "tool", "span_id": "s", "id": "c", "function": "bash", "arguments": {"cmd": "ls"},
            "timestamp": at(4), "completed": at(5), "result": "a.py",
            "error": {"type": "timeout", "message": "too long"},
        },
        {"event": "sandbox", "span_id": "s", "timestamp": at(5)},
        {
            "event": "model", "span_id": "s", "model": "openai/gpt-4o", "timestamp": at(6), "completed": at(7),
            "input": [{"role": "user", "content": "x"}], "output": output,
            "call": {"request": {"model": "gpt-4o", "messages": [], "extra_headers": {"x": "y"}}, "response": raw},
        },
        {"event": "span_end", "id": "s", "timestamp": at(8)},
    ]  # fmt: skip


def test_inspect_events(tmp_path):
    """Model and tool events in their spans; what went over the wire stays as it was; texts kept apart are put back."""
    attachment = "8af05366093e4c6869bca2eb8ec58fd6"
    sample = {
        "input": "List.",
        "events": inspect_events(),
        "message_pool": [{"role": "user", "content": f"attachment://{attachment}"}],
        "attachments": {attachment: "List all files."},
        "scores": {"match": {"value": "I", "explanation": "no"}},
        "messages": [{"role": "assistant", "content": "ok"}],
    }
    (one,) = imported(written(tmp_path, "log.json", inspect_log(**sample)))
    assert kinds(one) == ["input", "scope", "model", "tool", "model"]
    assert asked(one)["messages"] == [{"role": "user", "content": "List all files."}]
    assert asked(one, 1) == {"model": "gpt-4o", "messages": []}
    assert [node.fidelity for node in nodes(one, Kind.MODEL)] == [Fidelity.MESSAGES, Fidelity.EXCHANGE]
    assert nodes(one, Kind.TOOL)[0].outcome.failure.message == "too long"
    assert labels(one) == {"task": "security", "sample": 1, "trial": 2, "score.match": "I"}
    run = one.run.run
    assert (run.agent, run.versions.code, run.versions.packages) == ("security", "e9a", {"inspect_ai": "0.3"})
    assert run.ended_ns - run.started_ns == 7 * 10**9
    assert any("1 sandbox" in entry.detail for entry in run.coverage.entries)


def test_inspect_without_events_and_zipped(tmp_path):
    """A sample without events is read from its messages; a zip is read like the log in it, in the order of samples."""
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "ok"}]},
    ]
    log = inspect_log(messages=messages)
    (plain,) = imported(written(tmp_path, "log.json", log))
    assert kinds(plain) == ["input", "model"]
    answer = body(plain, nodes(plain, Kind.MODEL)[0].outcome.result)["choices"][0]["message"]
    assert (answer["content"], answer["reasoning_content"]) == ([{"type": "text", "text": "ok"}], "hm")
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({key: log[key] for key in ("version", "status", "eval")}))
        archive.writestr("samples/1_epoch_2.json", json.dumps(log["samples"][0]))
    (zipped,) = imported(tmp_path / "log.eval")
    assert zipped.run.run.run_id == plain.run.run.run_id


def test_message_lists(tmp_path):
    """A bare list, an object around one, and JSON lines of these are runs, each line its own."""
    (listed,) = imported(written(tmp_path, "list.json", desk_messages()))
    document = {"messages": desk_messages(seat="14C"), "tools": [{"type": "function"}], "model": "m", "score": 1}
    lines = "\n".join(json.dumps({"messages": desk_messages(seat=seat), "score": 1}) for seat in ("1A", "2B"))
    (around,) = imported(written(tmp_path, "object.json", document))
    several = imported(written(tmp_path, "many.jsonl", lines))
    assert kinds(listed) == kinds(around) == kinds(several[1])
    assert asked(around)["tools"] == [{"type": "function"}]
    assert [labels(one) for one in several] == [{"score": 1.0}, {"score": 1.0}]


def test_the_same_record_is_the_same_run_from_any_copy(tmp_path):
    """Written otherwise and elsewhere, a record has the same trace id; another record has another."""
    (one,) = imported(written(tmp_path, "a.json", [tau_record()]))
    compact = json.dumps([dict(reversed(tau_record().items()))])
    (copy,) = imported(written(tmp_path, "b.json", compact))
    (other,) = imported(written(tmp_path, "c.json", [tau_record(reward=0.0)]))
    assert one.run.run.trace_id == copy.run.run.trace_id != other.run.run.trace_id


@pytest.mark.parametrize(
    ("document", "from_", "said"),
    [
        ([{"task_id": 1}], "tau-bench", "task_id and traj"),
        ([{"task_id": 1, "traj": [{"role": "boss"}]}], "auto", r"#0 traj\[0\] is no chat message"),
        ({"simulations": [{"messages": [7]}]}, "auto", r"messages\[0\] is no message"),
        ({"simulations": [{"messages": [], "start_time": "noon"}]}, "auto", "'noon' is no time"),
        (swe(trajectory=[{"action": "ls"}], history=[{"role": 3}]), "auto", r"history\[0\] is no chat message"),
        ({"history": [], "mistake_step": 1, "mistake_agent": "x"}, "auto", "history, mistake_agent"),
        (
            {"history": [{"content": "a"}], "mistake_step": "one", "mistake_agent": "x"},
            "auto",
            "'one', which is no number",
        ),
        ({"model": "m", "taskId": "t", "runIndex": 1, "result": {"steps": 3}}, "auto", "no list of steps"),
        (inspect_log() | {"samples": []}, "auto", "without samples"),
        (inspect_log(events=[3]), "auto", r"events\[0\] is no event"),
        ({"anything": 1}, "swe-agent", "no trajectory of SWE-agent"),
        ("{", "chat", "cannot be read"),
    ],
)
def test_broken_files_are_named(tmp_path, document, from_, said):
    """Each says in which file and where in it, and what is wrong."""
    path = written(tmp_path, "broken.json", document)
    with pytest.raises(DamagedRecording, match=said) as caught:
        imported(path, from_)
    assert "broken.json" in str(caught.value)


def test_a_format_that_nobody_knows(tmp_path):
    """An unknown name of a format is an error that lists the known ones."""
    with pytest.raises(ConfigurationError, match=r"tau2-bench.*who-and-when"):
        imported(written(tmp_path, "a.json", desk_messages()), "tau-3")


def test_credentials_do_not_come_in(tmp_path):
    """A key in a message is masked in every request that repeats it, in answers and in arguments."""
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    messages = [
        {"role": "user", "content": f"Use {secret}"},
        {"role": "assistant", "content": f"With {secret}", "tool_calls": [call("login", {"key": secret})]},
        {"role": "tool", "tool_call_id": "call_1", "content": f"accepted {secret}"},
        {"role": "assistant", "content": "Done."},
    ]
    (one,) = imported(written(tmp_path, "a.json", messages))
    for node in one.run.nodes:
        for payload in (node.call and node.call.request, node.outcome and node.outcome.result):
            if payload is not None:
                assert secret.encode() not in one.run.payload(payload.digest)


def test_credentials_do_not_come_in_beside_the_steps(tmp_path):
    """A key in a label's value or note, an error or a call's id is masked too."""
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    history = [{"role": "A", "content": "x"}]
    log = {"history": history, "mistake_step": 0, "mistake_agent": f"A {secret}", "mistake_reason": f"used {secret}"}
    sample = {"messages": [{"role": "user", "content": "q"}], "error": {"message": f"refused {secret}"}}
    for document in (log, inspect_log(**sample)):
        (one,) = imported(written(tmp_path, "a.json", document))
        assert secret not in repr((one.labels, one.run.run, one.run.spans))


def test_a_long_conversation_writes_and_masks_each_message_once(tmp_path):
    """300 turns, whose requests together are 150 times what is new in them: all are there, none is held."""
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    messages = [{"role": "system", "content": f"the key is {secret}"}]
    for turn in range(300):
        messages += [{"role": "user", "content": f"{turn} " * 50}, {"role": "assistant", "content": f"yes, {turn}"}]
    masked = _Counting()
    (one,) = imported(written(tmp_path, "chat.json", {"messages": messages, "model": "m"}), redaction=masked)
    requests = [node.call.request for node in nodes(one, Kind.MODEL)]
    assert {request.data for request in requests} == {None}
    bodies = [one.run.payload(request.digest) for request in requests]
    assert [len(json.loads(body)["messages"]) for body in bodies] == list(range(2, 601, 2))
    assert [digest_of(body) for body in bodies] == [request.digest for request in requests]
    assert not any(secret.encode() in body for body in bodies)
    assert masked.seen < 5 * len(json.dumps(messages))


class _Counting(Redaction):
    """Counts the bytes that it was given."""

    seen = 0

    def body(self, data, media_type):
        self.seen += len(data)
        return super().body(data, media_type)

    def chunks(self, chunks, media_type):
        self.seen += sum(map(len, chunks))
        return super().chunks(chunks, media_type)

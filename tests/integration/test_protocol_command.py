"""`agent-replay protocol`: runs, files, other people's parsers, chunkings, and what its exit codes mean."""

from __future__ import annotations

import json
import textwrap

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Payload
from otel_agent_replay.testing.builders import run
from otel_agent_replay.testing.recorded_bodies import chat_stream

SSE = [("content-type", "text/event-stream")]
TEXT = "Bœuf 🚀"

# Parsers as people write them: right, wrong at characters that are cut, wrong always, and others.
PARSERS = """
    import asyncio, dataclasses, itertools, json

    def _objects(body):
        for line in body.split("\\n"):
            if line.startswith("data: {"):
                yield json.loads(line[6:])

    def _fold(body):
        text = "".join(one["choices"][0]["delta"].get("content") or "" for one in _objects(body))
        return {"text": text, "tool_calls": [], "complete": True}

    def right(chunks, media_type, status):
        assert (media_type, status) == ("text/event-stream", 200)
        return _fold(b"".join(chunks).decode())

    async def right_async(chunks, media_type, status):
        await asyncio.sleep(0)
        return right(chunks, media_type, status)

    def decodes_each_chunk(chunks, media_type, status):
        return _fold("".join(chunk.decode("utf-8", "replace") for chunk in chunks))

    def raises_at_a_cut_character(chunks, media_type, status):
        return _fold("".join(chunk.decode() for chunk in chunks))

    def shouts(chunks, media_type, status):
        folded = right(chunks, media_type, status)
        return {**folded, "text": folded["text"].upper(), "mood": "loud"}

    def a_list(chunks, media_type, status):
        return [len(b"".join(chunks))]

    def pieces(chunks, media_type, status):
        return [len(list(chunks))]

    _count = itertools.count()

    def never_the_same(chunks, media_type, status):
        return {"text": str(next(_count))}

    @dataclasses.dataclass
    class Message:
        text: str

    def a_dataclass(chunks, media_type, status):
        return Message(right(chunks, media_type, status)["text"])

    def an_object(chunks, media_type, status):
        return object()

    not_callable = 3

    def the_providers_own(chunks, media_type, status):
        import httpx2, openai
        from openai.lib.streaming.chat import ChatCompletionStreamState
        from openai.types.chat import ChatCompletionChunk

        class Pieces(httpx2.SyncByteStream):
            def __iter__(self):
                return iter(chunks)

        request = httpx2.Request("POST", "http://127.0.0.1/")
        answer = httpx2.Response(status, headers={"content-type": media_type}, stream=Pieces(), request=request)
        client = openai.OpenAI(api_key="none")
        state = ChatCompletionStreamState()
        for chunk in openai.Stream(cast_to=ChatCompletionChunk, response=answer, client=client):
            state.handle_chunk(chunk)
        choice = state.current_completion_snapshot.choices[0]
        return {"text": choice.message.content, "finish_reason": choice.finish_reason}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with the parsers and one answer; modules of one test are not those of the next."""
    name = f"parsers_{abs(hash(tmp_path)):x}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(PARSERS), encoding="utf-8")
    (tmp_path / "answer.sse").write_bytes(chat_stream([TEXT[:3], TEXT[3:]]).data.replace(b"\\u0153", "œ".encode()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path, name


def protocol(*arguments, env=None):
    return CliRunner().invoke(
        main, ["protocol", *map(str, arguments)], env={"AGENT_REPLAY_LAKE": "", **(env or {})}, catch_exceptions=False
    )


def document(result):
    return json.loads(result.stdout)


def test_one_parser_is_held_against_ours(here):
    """A right parser, sync or async, reads the same as ours; what it does not know is named, not called equal."""
    _, name = here
    for function in ("right", "right_async", "a_dataclass"):
        result = protocol("answer.sse", "--adapter", f"{name}:{function}", "--json")
        assert result.exit_code == 0
        compared = document(result)["compared"][0]
        assert (compared["left"], compared["differences"]) == ("ours", [])
        assert {"usage", "finish_reason", "error"} <= set(compared["not_compared"])


def test_a_parser_that_differs_is_told_by_path(here):
    """Where a parser reads something else, the path and both values are given, and the exit code is 1."""
    _, name = here
    result = protocol("answer.sse", "--adapter", f"{name}:shouts", "--json")
    assert result.exit_code == 1
    compared = document(result)["compared"][0]
    assert compared["differences"] == [{"path": "text", "before": TEXT, "after": TEXT.upper()}]
    assert "mood" in compared["not_compared"]
    assert document(result)["same"] is False
    shown = protocol("answer.sse", "--adapter", f"{name}:shouts")
    assert shown.exit_code == 1
    assert "text: " in shown.stdout
    assert TEXT.upper() in shown.stdout


def test_two_parsers_are_held_against_each_other(here):
    """Given twice, the second is held against the first, in any JSON values, ours being left out of it."""
    _, name = here
    same = protocol("answer.sse", "--adapter", f"{name}:a_list", "--adapter", f"{name}:pieces", "--json")
    assert same.exit_code == 1
    assert [(pair["left"], pair["right"]) for pair in document(same)["compared"]] == [
        (f"{name}:a_list", f"{name}:pieces")
    ]
    other = protocol("answer.sse", "--adapter", f"{name}:right", "--adapter", f"{name}:right_async")
    assert other.exit_code == 0
    assert protocol("answer.sse", "--adapter", f"{name}:right", "--adapter", f"{name}:right").exit_code == 2


@pytest.mark.parametrize("function", ["decodes_each_chunk", "raises_at_a_cut_character"])
def test_a_parser_that_breaks_at_a_cut_is_found_and_its_cut_told(function, here):
    """A parser that decodes chunk by chunk is right uncut; random chunkings find it, and one cut is left to show."""
    tmp_path, name = here
    entry = f"{name}:{function}"
    assert protocol("answer.sse", "--adapter", entry).exit_code == 0
    result = protocol("answer.sse", "--adapter", entry, "--rechunk", "200", "--seed", "5", "--json")
    assert result.exit_code == 1
    ours, theirs = document(result)["rechunked"]
    assert (ours["parser"], ours["same"], ours["chunkings"]) == ("ours", True, 200)
    assert (theirs["same"], len(theirs["cut_at"])) == (False, 1)
    body = (tmp_path / "answer.sse").read_bytes()
    with pytest.raises(UnicodeDecodeError):
        body[: theirs["cut_at"][0]].decode()
    again = protocol("answer.sse", "--adapter", entry, "--rechunk", "200", "--seed", "5", "--json")
    assert again.stdout == result.stdout
    shown = protocol("answer.sse", "--adapter", entry, "--rechunk", "200", "--seed", "5")
    assert f"least: cut at {theirs['cut_at'][0]}" in shown.stdout
    assert " | " in shown.stdout


def test_the_providers_own_parser_stands_every_cutting_beside_ours(here):
    """The official client's stream parser, given as an adapter, reads what we read, in every chunking."""
    _, name = here
    result = protocol("answer.sse", "--adapter", f"{name}:the_providers_own", "--rechunk", "40", "--json")
    assert result.exit_code == 0, result.stdout
    assert document(result)["compared"][0]["differences"] == []
    assert [(item["same"], item["chunkings"]) for item in document(result)["rechunked"]] == [(True, 40), (True, 40)]


def test_a_parser_that_is_never_the_same_is_said_to_be_so(here):
    """A parser that gives another value each time is not blamed on a cut."""
    _, name = here
    result = protocol("answer.sse", "--adapter", f"{name}:never_the_same", "--rechunk", "5")
    assert result.exit_code == 1
    assert "does not give the same twice" in result.stdout


def test_a_value_that_is_no_message_cannot_be_judged_alone(here):
    """What cannot be held against ours is not called the same: 125, unless chunkings or a second parser judge it."""
    _, name = here
    alone = protocol("answer.sse", "--adapter", f"{name}:a_list")
    assert alone.exit_code == 125
    assert "cannot be held against ours" in alone.stdout
    result = protocol("answer.sse", "--adapter", f"{name}:a_list", "--rechunk", "20", "--json")
    assert result.exit_code == 0
    assert document(result)["rechunked"][1]["same"] is True
    assert document(result)["unjudged"]
    assert protocol("answer.sse", "--adapter", f"{name}:pieces", "--rechunk", "20").exit_code == 1


@pytest.mark.parametrize(
    ("function", "code", "says"),
    [
        ("an_object", 125, "no JSON value"),
        ("not_callable", 2, "is not a function"),
        ("missing", 2, "has no 'missing'"),
        ("", 2, "is not like pkg.mod:func"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_named(function, code, says, here):
    """A wrong name is a usage error, a value that is no JSON cannot be judged; both say what to do."""
    _, name = here
    result = protocol("answer.sse", "--adapter", f"{name}:{function}")
    assert result.exit_code == code
    assert says in result.stderr


def test_a_module_that_does_not_import_is_named(here):
    """An adapter whose module is not there is a usage error with the reason."""
    result = protocol("answer.sse", "--adapter", "no_such_module_at_all:parse")
    assert result.exit_code == 2
    assert "there is no module 'no_such_module_at_all'" in result.stderr


@pytest.fixture
def lake(tmp_path):
    root = tmp_path / "lake"
    builder = run("weather", seed=7)
    builder.model("q", chat_stream(["Sun", "ny"]), response_headers=SSE)
    builder.tool("forecast", {"city": "Paris"}, {"temperature": 21})
    builder.model("q2", "21 degrees")
    gone = Payload.of(b"kept nowhere", "text/event-stream").without_data()
    recorded = builder.build("21")
    lost = run("weather", seed=8).model("q", gone, response_headers=SSE).build("x")
    write_runs(root, [recorded, lost], segments=["test-1"])
    return root, recorded.run.run_id.hex(), lost.run.run_id.hex()


def test_every_model_exchange_of_a_run_is_reduced(lake):
    """The lake's raw bytes give each answer again, and no tool is among them."""
    root, run_id, _ = lake
    result = protocol(run_id, "--lake", root, "--json", "--rechunk", "20")
    assert result.exit_code == 0
    exchanges = document(result)["exchanges"]
    assert [one["text"] for one in exchanges] == ["Sunny", "21 degrees"]
    assert all(one["source"].startswith(f"run {run_id[:12]} step ") for one in exchanges)


def test_one_step_of_a_run_is_reduced(lake):
    """`--step` takes one step; a step without a model call is said to be none."""
    root, run_id, _ = lake
    everything = document(protocol(run_id, "--lake", root, "--json"))["exchanges"]
    step = everything[1]["source"].rpartition(" ")[2]
    one = document(protocol(run_id, "--lake", root, "--step", step, "--json"))["exchanges"]
    assert one == everything[1:]
    result = protocol(run_id, "--lake", root, "--step", "99")
    assert result.exit_code == 125
    assert "no model step 99" in result.stderr


def test_a_run_whose_bytes_are_gone_cannot_be_judged(lake):
    """A body that was not kept is named and never passed over as the same."""
    root, _, lost = lake
    result = protocol(lost, "--lake", root, "--json")
    assert result.exit_code == 125
    assert "not kept" in document(result)["left_out"][0]["why"]


def test_several_arguments_print_a_document_each(here, lake):
    """Files and runs go together, a JSON document each, one a line; the worst of them is the exit code."""
    tmp_path, _ = here
    root, run_id, lost = lake
    (tmp_path / "broken.yaml").write_text("interactions: [", encoding="utf-8")
    result = protocol("answer.sse", run_id, lost, "broken.yaml", "--lake", root, "--json")
    assert result.exit_code == 125
    assert len([json.loads(line) for line in result.stdout.splitlines()]) == 4
    assert "error[damaged]: broken.yaml is no YAML" in result.stderr


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (b"<html>bad gateway</html>", 125, "no API that is known here"),
        (b"", 125, "is empty"),
        (b'{"hello": "world"}', 125, "name it with --api"),
    ],
)
def test_a_file_that_nobody_knows_cannot_be_judged(content, code, says, tmp_path):
    """An unknown API and an empty file say so, with what to do."""
    path = tmp_path / "what.bin"
    path.write_bytes(content)
    result = protocol(path)
    assert result.exit_code == code
    assert says in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing argument"),
        (["no/such/file.sse"], "is no file, and no id of a run"),
        (["answer.sse", "--api", "smoke.signals"], "known are"),
        (["answer.sse", "--step", "3"], "is of a run"),
        (["answer.sse", "--rechunk", "-1"], "--rechunk"),
    ],
)
def test_a_wrong_call_is_a_usage_error(arguments, says, here):
    """Wrong names and options end with 2 and say what is wrong."""
    result = protocol(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_what_a_body_says_drives_no_terminal(tmp_path):
    """Escape sequences in recorded text are shown, not sent."""
    path = tmp_path / "answer.sse"
    path.write_bytes(b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"\\u001b[31mred"}}]}\n\n')
    result = protocol(path)
    assert "\x1b" not in result.stdout
    assert "\\x1b[31mred" in result.stdout


def test_help_shows_how():
    """The help has an example, the parser's signature and the exit codes."""
    result = protocol("--help")
    assert result.exit_code == 0
    for wanted in ("Example:", "def parse(chunks, media_type, status)", "125 cannot judge", "--rechunk"):
        assert wanted in result.stdout

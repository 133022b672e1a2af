"""The README and the help texts are true: their code runs, their queries answer, their commands exist."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import COMMANDS, main
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat
from tests.support.agents import Script

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
QUERIES = {
    part.splitlines()[0].lstrip("- "): part
    for language, text in BLOCKS
    if language == "sql"
    for part in text.strip().split("\n\n")
}
SHELL_LINES = [
    line.removeprefix("$ ")
    for language, text in BLOCKS
    if language == "console"
    for line in text.splitlines()
    if line.startswith("$ ")
]
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
INLINE = re.findall(r"`(agent-replay [^`…]+?)(?: \.\.\.)?`", PROSE)
EXIT_CODES = dict(re.findall(r"`(\d+)` ([a-z ]+[a-z])", PROSE[PROSE.index("Exit codes:") :][:200]))


def clean_environment(**more):
    ours = ("AGENT_REPLAY_", "OTEL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PYTHONPATH": str(ROOT), "AGENT_REPLAY_SEAL": "off", **more}


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_a_python_block_of_the_readme_runs(number, tmp_path):
    """Each Python block of the README runs by itself, in an empty folder, and says nothing on standard error."""
    script = tmp_path / "block.py"
    script.write_text(PYTHON[number])
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_agent_of_the_readme_is_recorded_as_the_readme_says_and_replays(tmp_path):
    """Its call is a run with the step, the decision, the checkpoint and the refund in it, and replays the same."""
    block = next(text for text in PYTHON if "def support(" in text)
    script = Script(tmp_path, block + '\nprint(support("Who will pay me back?", "talk-1"))\n', name="agent.py")
    recorded = script.record()["support"]
    assert recorded.run.versions.agent == "7"
    assert recorded.run.thread_id == "talk-1"
    names = {(str(node.kind), node.name) for node in recorded.nodes}
    assert {("scope", "plan"), ("decision", "route"), ("checkpoint", "planned"), ("tool", "refund")} <= names
    assert script.replay(recorded).exit_code == 0


ASKED = """
import sys, openai
import otel_agent_replay as replay

@replay.tool(side_effect="read")
def find_order(order_id):
    return {"order_id": order_id, "state": "lost"}

@replay.agent(name="desk", version="3")
def desk(question):
    order = find_order(order_id="17")
    client = openai.OpenAI(max_retries=0)
    messages = [
        {"role": "system", "content": "Keep to the Refund Policy."},
        {"role": "user", "content": f"{question} {order['state']}"},
    ]
    answer = client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message.content
    if "manager" in question:
        raise RuntimeError("nobody is there")
    return answer

for question in sys.argv[1:]:
    try:
        desk(question)
    except RuntimeError:
        pass
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A lake with two runs of one agent version, one of which failed."""
    folder = tmp_path_factory.mktemp("asked")
    with ScriptedProvider([openai_chat("It is lost.", model="gpt-4o")]) as provider:
        script = Script(folder, ASKED, OPENAI_BASE_URL=f"{provider.url}/v1", OPENAI_API_KEY="sk-" + "r" * 24)
        script.run("Where is my order?", "Where is the manager?")
    script.seal()
    return script.lake


def asked(lake, query):
    result = CliRunner().invoke(main, ["sql", "--json", "--lake", str(lake)], input=query)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_readme_asks_five_questions():
    """None of the five was lost on the way from the page to this test."""
    assert len(QUERIES) == 5


@pytest.mark.parametrize("title", QUERIES)
def test_a_query_of_the_readme_answers(title, lake):
    """Each of the five queries returns a row on a lake that holds what it asks for."""
    assert asked(lake, QUERIES[title])


def test_the_queries_of_the_readme_answer_rightly(lake):
    """Cost, calls, error rate, arguments and prompts are those of the two recorded runs."""
    cost, tools, arguments, errors, prompts = (asked(lake, query) for query in QUERIES.values())
    assert [(row["request_model"], row["calls"], row["usd"] > 0) for row in cost] == [("gpt-4o", 2, True)]
    assert [(row["name"], row["calls"], row["p95_ms"] > 0) for row in tools] == [("find_order", 2, True)]
    assert {row["name"] for row in arguments} == {"find_order"}
    assert len({row["run_id"] for row in arguments}) == 2
    assert [(row["agent"], row["version_agent"], row["error_rate"], row["runs"]) for row in errors] == [
        ("desk", "3", 0.5, 2)
    ]
    assert len(prompts) == 2


@pytest.mark.parametrize("title", QUERIES)
def test_a_query_of_the_readme_runs_on_an_empty_lake(title, tmp_path):
    """On the first day there is nothing to answer, and that is no error."""
    assert asked(tmp_path / "none", QUERIES[title]) == []


def commands_in(line):
    """The `agent-replay` calls of a shell line, each as its words."""
    words = shlex.split(line, comments=True)
    calls = []
    for place, word in enumerate(words):
        if word in {"&&", "|", ";"}:
            continue
        if word == "agent-replay":
            end = next((at for at in range(place, len(words)) if words[at] in {"&&", "|", ";", ">"}), len(words))
            calls.append(words[place + 1 : end])
    return calls


CALLS = [words for line in SHELL_LINES for words in commands_in(line)]
MENTIONED = [shlex.split(text)[1:] for text in INLINE]


def command_of(words):
    context = click.Context(main)
    found = main.get_command(context, words[0])
    assert found is not None, f"agent-replay has no command {words[0]!r}"
    if isinstance(found, click.Group) and len(words) > 1 and not words[1].startswith("-"):
        return found.commands[words[1]]
    return found


def arguments_of(words):
    """What follows the command, and in a group the command in it."""
    return list(words[2:] if isinstance(main.get_command(click.Context(main), words[0]), click.Group) else words[1:])


def options_of(command):
    return {name for parameter in command.params for name in parameter.opts if name.startswith("-")} | {"--help", "-h"}


def options_in(words):
    ours = words[1 : words.index("--")] if "--" in words else words[1:]
    return {word.partition("=")[0] for word in ours if word.startswith("-")}


def test_the_readme_shows_every_main_command():
    """The page shows record, replay, runs, show, diff and demo at a prompt, and speaks of sql, verify and doctor."""
    assert {words[0] for words in CALLS} >= {"record", "replay", "runs", "show", "diff", "demo"}
    assert {words[0] for words in MENTIONED} >= {"sql", "verify", "doctor"}


@pytest.mark.parametrize("words", CALLS + MENTIONED, ids=" ".join)
def test_a_command_of_the_readme_exists_with_its_options(words):
    """The command is there, and so is each of its options."""
    assert options_in(words) <= options_of(command_of(words))


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_a_command_line_of_the_readme_is_complete(words, monkeypatch, tmp_path):
    """What stands at a prompt parses as it is: all arguments given, each value allowed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.env").touch()
    command_of(words).make_context(words[0], arguments_of(words))


def test_the_make_targets_of_the_readme_exist():
    """`make demo`, `make test` and the others are targets."""
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake (demo|test|bench|\w+(?=`))", README)) <= targets


def help_of(name):
    result = CliRunner().invoke(main, [name, "--help"] if name else ["--help"])
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_shows_an_example_and_the_exit_codes(name):
    """Each command's help ends with an example that parses, and says what its exit code tells."""
    text = help_of(name)
    assert "exit code" in text.lower()
    _, _, examples = text.partition("Example")
    lines = [line.strip() for line in examples.splitlines() if "agent-replay" in line]
    assert lines
    for line in lines:
        for words in commands_in(line):
            assert options_in(words) <= options_of(command_of(words))
            assert not name or words[0] == name


def test_the_readme_and_the_help_name_the_same_exit_codes():
    """0 same, 1 departed, 2 usage, 125 cannot judge: on the page, for all commands and for `replay`."""
    assert EXIT_CODES == {"0": "the same", "1": "departed", "2": "usage", "125": "cannot judge"}
    for text in (help_of(""), help_of("replay")):
        line = re.sub(r"\s+", " ", text[text.index("Exit codes:") :]).partition(".")[0]
        for code, meaning in EXIT_CODES.items():
            assert re.search(rf"\b{code} (the )?{meaning.removeprefix('the ')}", line), (code, line)


def test_the_queries_of_the_help_run(lake):
    """The example of `agent-replay sql --help` is a query that answers."""
    (query,) = re.findall(r'agent-replay sql "([^"]+)"', help_of("sql"))
    assert asked(lake, query)


def test_every_view_is_named_in_the_help():
    """`agent-replay sql --help` lists the views there are."""
    text = help_of("sql")
    views = {path.stem for path in (ROOT / "otel_agent_replay" / "lake" / "views").glob("*.sql")}
    listed = set(text[text.index("Views:") + 6 : text.index("Example")].split())
    assert views - listed == set()

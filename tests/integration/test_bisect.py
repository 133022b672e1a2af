"""`git bisect run agent-replay replay RUN --entry ...` finds the commit that changed an agent's behaviour."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.testing import ScriptedProvider
from otel_agent_replay.testing.replies import openai_chat

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GIT = shutil.which("git")
pytestmark = pytest.mark.skipif(GIT is None, reason="git is not installed")

AGENT = """
import datetime
import json
import urllib3
import otel_agent_replay as replay
from helpdesk import prompts

@replay.tool(side_effect="write", idempotency_key="order_id")
def refund(order_id):
    with open("refunds.txt", "a") as paid:
        paid.write(order_id)
    return {"refunded": order_id}

@replay.agent(version="1")
def support(question, url):
    today = datetime.date.today().isoformat()
    messages = [{"role": "system", "content": prompts.system(today)}, {"role": "user", "content": question}]
    body = json.dumps({"model": "gpt-4o", "messages": messages})
    answer = urllib3.request("POST", url + "/v1/chat/completions", body=body).json()
    refund("17")
    return answer["choices"][0]["message"]["content"]
"""
PROMPTS = """
def system(today):
    return f"You are a support agent. Today is {today}. Be short."
"""


class Repository:
    """A git repository with the agent package in it."""

    def __init__(self, folder):
        self.folder = folder
        scripts = str(Path(sys.executable).parent)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AGENT_REPLAY_", "OTEL_", "GIT_", "PYTHON"))
        }
        self.environment = {
            **kept,
            "PATH": os.pathsep.join((scripts, os.environ.get("PATH", ""))),
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "AGENT_REPLAY_SEAL": "off",
        }
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "a developer")
        self.git("config", "user.email", "developer@example.invalid")
        self.write(".gitignore", ".agent-replay/\n__pycache__/\nrefunds.txt\n")

    def git(self, *arguments, status=0):
        done = self.call("git", *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout.strip()

    def call(self, *command):
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def commit(self, subject):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def record(self, question):
        """Run the agent live, recorded; return the run's id."""
        with ScriptedProvider([openai_chat("Paid back.", model="gpt-4o")]) as provider:
            code = f"from helpdesk.agent import support; print(support({question!r}, {provider.url!r}))"
            done = self.call("agent-replay", "record", "--", sys.executable, "-c", code)
        assert done.returncode == 0, done.stderr
        found = Lake(self.folder / ".agent-replay").runs()
        return next(one.run.run_id.hex() for one in found if one.run.agent == "support")

    def refunds(self):
        return (self.folder / "refunds.txt").read_text()


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Six commits: the recorded one, one that cannot be imported, two good ones, the culprit, one more.

    The repository, the id of the recorded run and the commits by name; tests check out what they need.
    """
    folder = tmp_path_factory.mktemp("bisect") / "shop"
    folder.mkdir()
    repository = Repository(folder)
    repository.write("helpdesk/__init__.py", "")
    repository.write("helpdesk/agent.py", AGENT)
    repository.write("helpdesk/prompts.py", PROMPTS)
    commits = {"first": repository.commit("Answer customers")}
    run = repository.record("Where is order 17?")
    repository.write("NOTES.md", "Ask Kim about refunds.\n")
    commits["notes"] = repository.commit("Take notes")
    repository.write("helpdesk/agent.py", AGENT.replace("import json", "import jsonn"))
    commits["broken"] = repository.commit("Tidy imports")
    repository.write("helpdesk/agent.py", AGENT)
    commits["mended"] = repository.commit("Mend imports")
    repository.write("helpdesk/prompts.py", PROMPTS.replace("Be short.", "Be quick."))
    commits["culprit"] = repository.commit("Change the tone")
    repository.write("NOTES.md", "Ask Robin about refunds.\n")
    commits["last"] = repository.commit("Take other notes")
    return repository, run, commits


def bisect_command(run):
    """The command line of the README, for this run and this agent."""
    line = next(line for line in README.splitlines() if line.startswith("$ git bisect start"))
    words = shlex.split(line.removeprefix("$ ").partition(" && ")[2])
    swapped = {"0198c2": run[:12], "app.agents:support": "helpdesk.agent:support"}
    assert set(swapped) <= set(words)
    return [swapped.get(word, word) for word in words]


@pytest.mark.slow
def test_bisect_names_the_commit_that_changed_the_prompt(history):
    """Of six commits, one of them not to be judged, git names the one that changed the prompt; no refund is made."""
    repository, run, commits = history
    repository.git("bisect", "start", commits["last"], commits["first"])
    done = repository.call(*bisect_command(run))
    log = repository.git("bisect", "log")
    repository.git("bisect", "reset")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{commits['culprit']} is the first bad commit" in done.stdout
    assert f"skip: [{commits['broken']}]" in log
    assert repository.refunds() == "17"


@pytest.mark.slow
def test_each_commit_gets_its_exit_code(history):
    """Unchanged behaviour is 0, a changed prompt 1 with its place, code that cannot be imported 125."""
    repository, run, commits = history
    expected = {"first": 0, "broken": 125, "culprit": 1}
    command = bisect_command(run)[3:]
    done = {}
    for name in expected:
        repository.git("checkout", "--quiet", commits[name])
        # As after a quick checkout: nothing but its content tells the file from the one before.
        os.utime(repository.folder / "helpdesk" / "prompts.py", (1_700_000_000, 1_700_000_000))
        done[name] = repository.call(*command)
    assert {name: one.returncode for name, one in done.items()} == expected
    assert "messages[0].content" in done["culprit"].stdout, done["culprit"].stdout
    assert "jsonn" in done["broken"].stderr
    assert repository.refunds() == "17"

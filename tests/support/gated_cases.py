"""A shop's agent, recorded for real, kept as cases, and its code rewritten between the recording and the gate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.testing.provider import Reply, ScriptedProvider
from tests.support.agents import Script

MODULE = "shop_app"
SOURCE = """
import os, sys
import httpx2
import otel_agent_replay as replay

PROMPT = "You are the shop."

def ask(text):
    body = {"model": "old", "messages": [{"role": "system", "content": PROMPT}, {"role": "user", "content": text}]}
    with httpx2.Client(timeout=20) as http:
        answer = http.post(os.environ["SERVER"] + "/v1/chat/completions", json=body).json()
    return answer["choices"][0]["message"]["content"]

@replay.tool(side_effect="read")
def lookup(order):
    return {"order": order, "cents": 4900, "state": "lost" if order == "17" else "paid"}

@replay.tool(side_effect="write")
def refund(order, cents):
    return {"refunded": cents}

@replay.agent
def support(order):
    found = lookup(order)
    said = ask(f"{order} is {found['state']}")
    if said == "refund":
        refund(order, found["cents"])
    return said

if __name__ == "__main__":
    for order in sys.argv[1:]:
        support(order)
"""

CALM = SOURCE.replace('if said == "refund":', 'if said == "refund" and found["state"] != "lost":')
"""The fix that needs no model: no refund for lost orders; every request stays as it was."""

PROMPTED = SOURCE.replace("You are the shop.", "You are the careful shop.")
"""The fix that needs the model: another prompt, so that the run departs at its model step."""

CHATTY = PROMPTED.replace(
    '    if said == "refund":',
    """    for number in range(6):
        ask(f"{order}, once more: {number}")
    if said == "refund":""",
)
"""A fix that asks the model seven times where the recording asked once."""

NEVER = SOURCE.replace('if said == "refund":', 'if said == "":')
"""The fix that is too much: no refund for anybody."""

CRASHING = SOURCE.replace("    said = ask(", "    raise KeyError(order)\n    said = ask(")


class Model:
    """A model that refunds whatever it is asked, unless the prompt is careful; `asked` are the models asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refunds = lambda prompt, text: not ("careful" in prompt and "lost" in text)
        self.provider = ScriptedProvider(self._answer)

    def _answer(self, request) -> Reply:
        body = json.loads(request.body)
        prompt, text = (one["content"] for one in body["messages"])
        self.asked.append(body["model"])
        choice = {"index": 0, "finish_reason": "stop"}
        choice["message"] = {"role": "assistant", "content": "refund" if self.refunds(prompt, text) else "wait"}
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        answer = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
        return Reply.of_json({**answer, "choices": [choice], "usage": usage})


class Shop:
    """A folder with the agent's module, a lake of its runs (`runs`: ids by order), and cases."""

    def __init__(self, folder: Path, runs: dict[str, str]) -> None:
        self.folder = folder
        self.lake = folder / "lake"
        self.cases = folder / "cases"
        self.runs = runs

    @classmethod
    def recorded(cls, folder: Path, url: str, *orders: str) -> Shop:
        """Record a run of each order in one process."""
        script = Script(folder, SOURCE, name=f"{MODULE}.py", SERVER=url)
        script.run(*orders)
        script.seal()
        return cls(folder, dict(zip(orders, [run.run_id.hex() for run in script.runs()])))

    def copied(self, folder: Path) -> Shop:
        """Return the same shop in another folder."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Shop(folder, self.runs)

    def code(self, source: str) -> None:
        """Make this the agent's code of today."""
        (self.folder / f"{MODULE}.py").write_text(source)

    def keep(self, name: str, order: str, *options: str, **stated) -> Path:
        """Keep a run as a case that states this, sealed; return its folder."""
        case = self.cases / name
        told = cli("case", "add", self.runs[order], "--lake", self.lake, "--into", self.cases, "--name", name,
                   "--no-redact", *options)  # fmt: skip
        assert told.exit_code == 0, told.output
        self.write(case, lambda content: content.update(expect=stated, effects={"at_most_once": False}))
        assert cli("case", "seal", case).exit_code == 0
        return case

    def write(self, case: Path, change) -> None:
        """Change a case.yaml, without sealing it."""
        path = case / "case.yaml"
        content = yaml.safe_load(path.read_text())
        change(content)
        path.write_text(yaml.safe_dump(content, sort_keys=False))

    def gate(self, *arguments):
        """Run the gate over all cases by the agent's entry."""
        return cli("gate", self.cases, "--entry", f"{MODULE}:support", *arguments)

    def verdict(self, *arguments) -> dict:
        """Return the gate's JSON document."""
        told = self.gate("--json", *arguments)
        return json.loads(told.stdout)


def cli(*arguments):
    """Call the command line; return click's result."""
    result = CliRunner().invoke(main, [str(one) for one in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result


def shown(document: dict) -> dict[str, tuple[str, str]]:
    """Return standing and reason of every case by its name."""
    return {row["case"]: (row["standing"], row["reason"]) for row in document["cases"]}

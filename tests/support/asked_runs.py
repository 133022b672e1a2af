"""Recorded runs whose model steps are asked again, and a fake model that answers as it is told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from click.testing import CliRunner, Result

from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import RecordedRun, SideEffect
from otel_agent_replay.testing.provider import Reply, SeenRequest
from otel_agent_replay.testing.recorded_bodies import chat_answer
from tests.support.lake_runs import RunMaker

Decision = str | tuple[str, dict]
"""What a model answers: a text, or a tool's name and arguments."""

WRITES = frozenset({"refund"})


def body_of(decision: Decision, **more) -> bytes:
    """The body of a Chat Completions answer."""
    if isinstance(decision, str):
        return chat_answer(decision, **more).data
    return chat_answer(None, tool_calls=[("call_1", *decision)], **more).data


def asked_run(number: int, decisions: list[Decision], *, agent: str = "clerk", started_ms: int | None = None):
    """A run whose step numbers are odd for models: question, answer, and the tool that was called, if one was."""
    maker = RunMaker(number, agent=agent, **({} if started_ms is None else {"started_ms": started_ms}))
    for place, decision in enumerate(decisions):
        maker.model([{"role": "user", "content": question(number, place)}], body_of(decision))
        if isinstance(decision, tuple):
            effect = SideEffect.WRITE if decision[0] in WRITES else SideEffect.READ
            maker.tool(decision[0], decision[1], "done", side_effect=effect)
        else:
            maker.tool("note", {"said": decision}, "done", side_effect=SideEffect.NONE)
    return maker.run()


def question(number: int, place: int) -> str:
    return f"run {number} question {place}"


def lake_of(root: Path, runs: list[RecordedRun]) -> Path:
    """A lake with these runs."""
    write_runs(root, runs, segments=["one"])
    return root


def with_fidelity(run: RecordedRun, fidelity) -> RecordedRun:
    """The same run as if it had been imported with less."""
    spans = [
        item if item.node is None else dataclasses.replace(item, node=dataclasses.replace(item.node, fidelity=fidelity))
        for item in run.spans
    ]
    return dataclasses.replace(run, spans=tuple(spans))


class FakeModel:
    """A script for the scripted provider: answers by question; remembers how often each was asked."""

    def __init__(self, answers: Mapping[str, Decision], otherwise: Callable[[str], Decision] | None = None) -> None:
        self.answers = answers
        self.otherwise = otherwise
        self.asked: list[tuple[str, str]] = []  # model, question

    def __call__(self, request: SeenRequest) -> Reply:
        body = request.json
        content = body["messages"][-1]["content"]
        self.asked.append((body["model"], content))
        decision = self.answers.get(content)
        if decision is None:
            decision = self.otherwise(content) if self.otherwise is not None else "I do not know"
        return Reply(body_of(decision, model=body["model"]))


def invoke(lake: Path, command: str, *arguments: object, **more) -> Result:
    """Run a command of the command line on a lake, in this process."""
    return CliRunner().invoke(main, [command, "--lake", str(lake), *map(str, arguments)], **more)


def document(result: Result) -> dict:
    """The JSON that a command printed."""
    assert result.stdout, result.output
    return json.loads(result.stdout)

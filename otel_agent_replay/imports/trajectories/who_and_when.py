"""Failure logs of Who&When (github.com/mingyin1/Agents_Failure_Attribution): agents talk, one step is to blame.

Each entry of `history` is one step, so that `mistake_step` (from 0) is a step's number less one. A terminal's entry is
a tool's result, a human's is the user's; every other one is an agent's, asked with all before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.places import identity_of
from otel_agent_replay.imports.trajectories.trajectory import ModelTurn, Said, ToolTurn, Trajectory, Turn, UserTurn

NAME = "who-and-when"
_TERMINALS = ("computer_terminal", "computerterminal")
_END = "TERMINATE"  # says that the talk is over; no answer
_GAPS = {
    "model": "the file does not name it",
    "usage": "the file has no tokens and no cost",
    "requests": "who was asked with what is not in the file: an agent is taken to have seen all entries before its own",
}


def recognises(document: Any) -> bool:
    """Whether a parsed file is such a log."""
    return isinstance(document, Mapping) and {"history", "mistake_step", "mistake_agent"} <= document.keys()


def read(document: Any, source: str) -> Iterator[Trajectory]:
    """Yield the trajectory. Raises DamagedRecording for a file that is none."""
    history = document.get("history") if recognises(document) else None
    if not isinstance(history, list) or not history:
        raise DamagedRecording(f"{source} is no log of {NAME}: history, mistake_agent and mistake_step are wanted")
    turns = list(_turns(history, document.get("system_prompt"), source))
    yield Trajectory(
        NAME,
        source,
        identity_of(document),
        NAME,
        turns,
        input=document.get("question"),
        output=next((entry["content"] for entry in reversed(history) if entry["content"].strip() != _END), None),
        told=list(_told(document, source)),
        gaps=_GAPS,
    )


def _turns(history: list[Any], prompts: Any, source: str) -> Iterator[Turn]:
    before: list[dict[str, Any]] = []
    for number, entry in enumerate(history):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("content"), str):
            raise DamagedRecording(f"{source} history[{number}] is no entry: content and role are wanted")
        who, said = str(entry.get("name") or entry.get("role") or "agent"), entry["content"]
        speaker = who.partition(" (")[0]
        last = before[-1]["content"] if before else None
        if who == "human":
            yield UserTurn(said, last)
        elif speaker.lower() in _TERMINALS:
            yield ToolTurn(speaker, {"message": last}, said)
        else:
            prompt = prompts.get(speaker) if isinstance(prompts, Mapping) else None
            system = [{"role": "system", "content": prompt}] if isinstance(prompt, str) else []
            message = {"role": "assistant", "content": said}
            yield ModelTurn(
                {"messages": [*system, *before]},
                {"object": "chat.completion", "choices": [{"index": 0, "message": message}]},
                agent=who,
            )
        before = [*before, {"role": "user", "name": who, "content": said}]


def _told(document: Mapping[str, Any], source: str) -> Iterator[Said]:
    try:
        yield Said("mistake_step", int(document["mistake_step"]) + 1, str(document.get("mistake_reason") or ""))
    except (TypeError, ValueError) as error:
        raise DamagedRecording(f"{source}: mistake_step is {document['mistake_step']!r}, which is no number") from error
    yield Said("mistake_agent", str(document["mistake_agent"]))
    if isinstance(document.get("is_correct"), bool):
        yield Said("reward", float(document["is_correct"]))
    if document.get("question_ID"):
        yield Said("task", str(document["question_ID"]))

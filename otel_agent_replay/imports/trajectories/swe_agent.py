"""Trajectories of SWE-agent (`.traj`): `{trajectory, history, info}`, or `history` alone for a demonstration.

Each entry of `trajectory` is an answer of the model and the command that it led to. What the model was asked is the
`history` up to that answer. Demonstrations that the prompt shows are part of the request, never steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.chat_messages import Message, chat_message, parsed, turns_of
from otel_agent_replay.imports.trajectories.places import identity_of, list_in, mapping_in
from otel_agent_replay.imports.trajectories.trajectory import (
    Beginning,
    ModelTurn,
    Said,
    ToolTurn,
    Trajectory,
    Turn,
    UserTurn,
)
from otel_agent_replay.model import RunStatus, SideEffect

NAME = "swe-agent"
_READ = "open goto scroll_up scroll_down find_file search_dir search_file"
_WRITE = "create edit insert submit set_cursors str_replace_editor"
_EFFECTS = dict.fromkeys(_READ.split(), SideEffect.READ) | dict.fromkeys(_WRITE.split(), SideEffect.WRITE)
_COUNTS = {"instance_cost": "cost_usd", "tokens_sent": "tokens_sent", "tokens_received": "tokens_received"}
_GAPS = {"usage": "the file has sums of a whole run only", "model": "the file does not name it"}


def recognises(document: Any) -> bool:
    """Whether a parsed file is such a trajectory."""
    if not isinstance(document, Mapping) or not isinstance(document.get("history"), list):
        return False
    entries = document.get("trajectory")
    if isinstance(entries, list):
        return all(isinstance(entry, Mapping) and "action" in entry for entry in entries)
    return any(isinstance(message, Mapping) and "agent" in message for message in document["history"])


def read(document: Any, source: str) -> Iterator[Trajectory]:
    """Yield the trajectory. Raises DamagedRecording for a file that is none."""
    if not recognises(document):
        raise DamagedRecording(f"{source} is no trajectory of SWE-agent: `trajectory` or `history` is wanted")
    history = [
        (given, chat_message(given, f"{source} history[{index}]")) for index, given in enumerate(document["history"])
    ]
    info = document["info"] if isinstance(document.get("info"), Mapping) else {}
    entries = list_in(document, "trajectory", source)
    turns = (
        list(_turns(entries, history, source))
        if entries
        else turns_of([Message(chat) for _, chat in history], effects=_effect_of)
    )
    status = str(info.get("exit_status") or "")
    submitted = info.get("submission")
    yield Trajectory(
        NAME,
        source,
        identity_of(document),
        NAME,
        turns,
        input=next((chat.get("content") for given, chat in history if _is_problem(given)), None),
        output=submitted,
        status=RunStatus.OK if status.startswith("submitted") or not status else RunStatus.ERROR,
        error="" if status.startswith("submitted") or not status else status,
        told=_told(info, status),
        gaps=_GAPS,
    )


def _is_problem(given: Mapping[str, Any]) -> bool:
    return given.get("role") == "user" and not given.get("is_demo")


def _told(info: Mapping[str, Any], status: str) -> list[Said]:
    told = [Said("exit_status", status)] if status else []
    counted = info.get("model_stats")
    if isinstance(counted, Mapping):
        sums = [(name, counted.get(key)) for key, name in _COUNTS.items()]
        told += [Said(name, value, "of the whole run, as the agent counted") for name, value in sums if value]
    return told


def _turns(entries: list[Any], history: list[tuple[Any, dict[str, Any]]], source: str) -> Iterator[Turn]:
    answers = [
        index for index, (given, chat) in enumerate(history) if chat["role"] == "assistant" and not given.get("is_demo")
    ]
    first = answers[0] if answers else len(history)
    chats = [chat for _, chat in history]
    yield from (
        UserTurn(chat.get("content"))
        for given, chat in history[:first]
        if chat["role"] == "user" and not given.get("is_demo")
    )
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise DamagedRecording(f"{source} trajectory[{number}] is no entry: {str(entry)[:60]!r}")
        at = answers[number] if number < len(answers) else len(history)
        answer = history[at][1] if at < len(history) else {"role": "assistant", "content": entry.get("response")}
        yield ModelTurn(
            {"messages": Beginning(chats, at)},
            {"object": "chat.completion", "choices": [{"index": 0, "message": answer}]},
        )
        if entry.get("action"):
            yield _command(entry, answer)


def _command(entry: Mapping[str, Any], answer: Mapping[str, Any]) -> ToolTurn:
    calls = answer.get("tool_calls") or [{}]
    function = mapping_in(calls[0], "function")
    action = str(entry["action"]).strip()
    word = action.split(maxsplit=1)[0] if action else ""
    name = str(function.get("name") or (word if word in _EFFECTS else "bash"))
    seconds = entry.get("execution_time")
    return ToolTurn(
        name,
        parsed(function["arguments"]) if "arguments" in function else {"command": action},
        entry.get("observation"),
        str(calls[0].get("id") or ""),
        _effect_of(name),
        takes_ns=round(seconds * 1e9) if isinstance(seconds, (int, float)) else 0,
    )


def _effect_of(name: str) -> SideEffect:
    """Return what a command may change: that of a shell is not known."""
    return _EFFECTS.get(name, SideEffect.EXTERNAL)

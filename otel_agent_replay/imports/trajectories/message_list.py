"""Bare lists of Chat Completions messages: a list, `{"messages": [...]}` as fine-tuning and many agents keep them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.trajectories.chat_messages import (
    Message,
    chat_message,
    is_message_list,
    last_text,
    turns_of,
)
from otel_agent_replay.imports.trajectories.places import identity_of
from otel_agent_replay.imports.trajectories.trajectory import Said, Trajectory

NAME = "chat"
_GAPS = {"usage": "the file has no tokens and no cost"}


def recognises(document: Any) -> bool:
    """Whether a parsed file (or a line of one) is such a list."""
    return is_message_list(_listed(document))


def read(document: Any, source: str) -> Iterator[Trajectory]:
    """Yield the trajectory. Raises DamagedRecording for a list that holds something else than messages."""
    listed = _listed(document)
    if not isinstance(listed, list) or not listed:
        raise DamagedRecording(f"{source} is no list of chat messages, and has none as `messages`")
    messages = [Message(chat_message(given, f"{source} messages[{index}]")) for index, given in enumerate(listed)]
    beside = document if isinstance(document, Mapping) else {}
    tools = beside.get("tools")
    model = beside.get("model")
    yield Trajectory(
        NAME,
        source,
        identity_of(document),
        NAME,
        turns_of(messages, settings={"tools": tools} if tools else None, model=model if isinstance(model, str) else ""),
        input=next((message.chat.get("content") for message in messages if message.role == "user"), None),
        output=last_text(messages),
        model=model if isinstance(model, str) else "",
        told=[
            Said(name, float(beside[name]))
            for name in ("reward", "score")
            if isinstance(beside.get(name), (int, float)) and not isinstance(beside[name], bool)
        ],
        gaps=_GAPS,
    )


def _listed(document: Any) -> Any:
    return document.get("messages") if isinstance(document, Mapping) else document

"""A tool call while its fragments arrive, and the whole one: for every protocol that streams arguments as text."""

from __future__ import annotations

from typing import Any

from otel_agent_replay.protocols.folded import Part, ToolCall
from otel_agent_replay.protocols.json_text import check_arguments
from otel_agent_replay.protocols.text import TextPieces, join


class CallPieces:
    """One tool call while its fragments arrive."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments = TextPieces()

    def add(self, call_id: Any, name: Any, arguments: Any) -> None:
        """Take one fragment: the first id wins, names and arguments are put together; a repeated name is one name."""
        if call_id and self.id is None:
            self.id = str(call_id)
        if name and name != self.name:
            self.name += str(name)
        if isinstance(arguments, str):
            self.arguments.add(arguments)
        elif arguments is not None:
            self.arguments.add_value(arguments)

    def whole(self, problems: list[str]) -> ToolCall:
        """The call as far as it came; `problems` is told what is odd about its arguments."""
        return whole_call(self.id, self.name, join(self.arguments, "arguments", problems), problems)


def whole_call(call_id: str | None, name: str, raw: str, problems: list[str]) -> ToolCall:
    """A call whose arguments are the text `raw`; `problems` is told what is odd about them."""
    valid, oddity = check_arguments(raw)
    if oddity:
        problems.append(f"arguments of tool call {call_id!r} have {oddity}")
    return ToolCall(call_id, name, raw, valid)


def call_part(call: ToolCall) -> Part:
    """A call in OpenTelemetry's form; its arguments stay the text of the wire."""
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments_raw}

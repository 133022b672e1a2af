"""One choice of a Chat Completions answer while its deltas arrive.

Rules that real providers force: fragments of a tool call go by `index`, never by place; without an index, or with
another id at the same index, a new id starts a new call; null adds nothing. Reasoning has five spellings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_agent_replay.protocols.call_pieces import CallPieces, call_part
from otel_agent_replay.protocols.folded import Message, Part, ToolCall
from otel_agent_replay.protocols.json_text import as_object, as_objects
from otel_agent_replay.protocols.text import TextPieces, join

# Lists beside the content that belong to the answer: sources (OpenAI, OpenRouter), tools the server ran (Groq), images.
_LISTS = ("annotations", "executed_tools", "images")
# Parts of a content list that are kept as they are: Mistral's references, images and files.
_KEPT_PARTS = ("reference", "tool_reference", "image_url", "document_url", "file", "input_audio")


class Choice:
    """One choice while its deltas arrive."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.role = "assistant"
        self.finish_reason: str | None = None
        self.text = TextPieces()
        self.reasoning = TextPieces()
        self.refusal = TextPieces()
        self.calls: list[CallPieces] = []
        self.others: list[Part] = []
        self.lists: dict[str, list[Any]] = {}
        self._by_index: dict[int, CallPieces] = {}

    def add(self, delta: Mapping[str, Any], problems: list[str], *, whole: bool) -> None:
        """Take one delta, or with `whole` a finished message, whose tool calls go by place."""
        if isinstance(delta.get("role"), str):
            self.role = delta["role"]
        self._add_content(delta.get("content"), problems)
        self.refusal.add(delta.get("refusal"))
        self._add_reasoning(delta)
        for place, fragment in enumerate(as_objects(delta.get("tool_calls"))):
            self._add_call(fragment, place if whole else None, problems)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict) and (legacy.get("name") or legacy.get("arguments")):
            self._call_at(-1, None, None, problems).add(None, legacy.get("name"), legacy.get("arguments"))
        if isinstance(delta.get("audio"), dict):
            self.text.add(delta["audio"].get("transcript"))
        for name in _LISTS:
            if isinstance(delta.get(name), list):
                known = self.lists.setdefault(name, [])
                known.extend(item for item in delta[name] if item not in known)

    def _add_content(self, content: Any, problems: list[str]) -> None:
        if content is None or isinstance(content, str):
            self.text.add(content)
            return
        for part in content if isinstance(content, list) else [content]:
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind == "text":
                self.text.add(part.get("text"))
            elif kind == "thinking":
                thinking = part.get("thinking")
                for piece in thinking if isinstance(thinking, list) else [thinking]:
                    self.reasoning.add(piece.get("text") if isinstance(piece, Mapping) else piece)
            else:
                if kind not in _KEPT_PARTS:
                    problems.append(f"content of choice {self.index} has a part of unknown type {kind!r}")
                if isinstance(part, dict):
                    self.others.append(dict(part))

    def _add_reasoning(self, delta: Mapping[str, Any]) -> None:
        details = as_objects(delta.get("reasoning_details"))
        # What only the provider can read has to be given back to it as it is.
        self.others.extend({**detail, "type": "reasoning.encrypted"} for detail in details if detail.get("data"))
        for key in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(key), str) and delta[key]:
                self.reasoning.add(delta[key])
                return
        for detail in details:
            self.reasoning.add(detail.get("text") or detail.get("summary"))

    def _add_call(self, fragment: Mapping[str, Any], place: int | None, problems: list[str]) -> None:
        body = as_object(fragment.get("function")) or as_object(fragment.get("custom"))
        index = place if place is not None else fragment.get("index")
        call = self._call_at(index, fragment.get("id"), body.get("name"), problems, by_place=place is not None)
        call.add(fragment.get("id"), body.get("name"), body.get("arguments", body.get("input")))

    def _call_at(
        self, index: Any, call_id: Any, name: Any, problems: list[str], *, by_place: bool = False
    ) -> CallPieces:
        if isinstance(index, int):
            known = self._by_index.get(index)
            if known is not None and call_id and name and known.id not in (None, call_id) and not by_place:
                problems.append(f"tool call index {index} is used by {known.id!r} and by {call_id!r}")
                known = None
            if known is None:
                known = self._by_index[index] = CallPieces()
                self.calls.append(known)
            return known
        if self.calls and (not call_id or self.calls[-1].id == call_id):
            return self.calls[-1]
        same = next((call for call in self.calls if call_id and call.id == call_id), None)
        if same is None:
            same = CallPieces()
            self.calls.append(same)
        return same

    def message(self, calls: list[ToolCall], problems: list[str]) -> Message:
        """The choice as a message in OpenTelemetry's form; what has no form there stays as it is."""
        parts: list[Part] = []
        for kind, pieces in (("reasoning", self.reasoning), ("text", self.text), ("refusal", self.refusal)):
            content = join(pieces, kind, problems)
            if content:
                parts.append({"type": kind, "content": content})
        parts.extend(self.others)
        parts.extend({"type": name, name: items} for name, items in self.lists.items() if items)
        parts.extend(call_part(call) for call in calls)
        return {"role": self.role, "parts": parts, "finish_reason": self.finish_reason}

"""Where each protocol keeps what of a request can be edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from otel_agent_replay.protocols.bedrock_invoke_request import is_nova


@dataclass(frozen=True, slots=True)
class Shape:
    """Where a protocol keeps what can be edited.

    `conversation` is the member that holds the messages, `parts` that of a message with its text. `prompt` is the
    member of the system prompt, `prompt_too` another spelling of it; "": it is a message. `leads` tells that the first
    messages may be the system prompt. `one_text` tells that the conversation is one text of the user's, to which no
    message can be added. `bare` tells that a text is `{"text": ...}` in a list, never a text alone; `prompt_parts`
    that the prompt has its list in its member of that name. `tools` is the path to the tools, `model_in_url` tells
    that the body names no model.
    """

    conversation: str
    prompt: str
    leads: bool
    one_text: bool = False
    parts: str = "content"
    prompt_too: str = ""
    bare: bool = False
    prompt_parts: str = ""
    tools: tuple[str, ...] = ("tools",)
    model_in_url: bool = False

    def message(self, text: str) -> dict[str, Any]:
        """A message of the user's with this text."""
        return {"role": "user", self.parts: self.content(text)}

    def content(self, text: str) -> Any:
        """A text as the whole content of a message."""
        return [{"text": text}] if self.bare else text

    def system(self, text: str) -> Any:
        """A text as the whole system prompt."""
        return {self.prompt_parts: self.content(text)} if self.prompt_parts else self.content(text)


_CONVERSE: Final = Shape("messages", "system", leads=False, bare=True, tools=("toolConfig", "tools"), model_in_url=True)

SHAPES: Final[Mapping[str, Shape]] = {
    "openai.chat_completions": Shape("messages", "", leads=True),
    "openai.responses": Shape("input", "instructions", leads=True),
    "openai.completions": Shape("prompt", "", leads=False, one_text=True),
    "anthropic.messages": Shape("messages", "system", leads=False),
    "anthropic.complete": Shape("prompt", "", leads=False, one_text=True),
    "cohere.chat": Shape("messages", "", leads=True),
    "cohere.chat_v1": Shape("message", "preamble", leads=False, one_text=True),
    "ollama.chat": Shape("messages", "", leads=True),
    "ollama.generate": Shape("prompt", "system", leads=False, one_text=True),
    "google.generate_content": Shape(
        "contents", "systemInstruction", leads=False, parts="parts", prompt_too="system_instruction", bare=True,
        prompt_parts="parts", model_in_url=True,
    ),
    "google.interactions": Shape("input", "system_instruction", leads=False, one_text=True),
    "aws.bedrock_converse": _CONVERSE,
    "aws.bedrock_invoke": Shape("messages", "system", leads=False, model_in_url=True),
}  # fmt: skip
"""The shape of each protocol whose requests can be edited, by the protocol's name; see `shape_of`."""


def shape_of(protocol: str, request: Mapping[str, Any]) -> Shape:
    """The shape of one request. KeyError for a protocol that has none.

    On Bedrock a request has its maker's shape; on Vertex AI Claude's names no model.
    """
    shape = SHAPES[protocol]
    if protocol == "anthropic.messages" and "anthropic_version" in request and "model" not in request:
        return Shape("messages", "system", leads=False, model_in_url=True)
    if protocol != "aws.bedrock_invoke" or "anthropic_version" in request:
        return shape
    if "messages" in request:
        return _CONVERSE if is_nova(dict(request)) else Shape("messages", "", leads=True, model_in_url=True)
    text = next((name for name in ("inputText", "message") if name in request), "prompt")
    prompt = "preamble" if text == "message" else ""
    return Shape(text, prompt, leads=False, one_text=True, model_in_url=True)

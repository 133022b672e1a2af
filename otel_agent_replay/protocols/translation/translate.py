"""`translate`: from one protocol's request to another's, by way of `Asked`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.protocols.json_text import compact, parse_object
from otel_agent_replay.protocols.recognise import PROTOCOLS
from otel_agent_replay.protocols.translation.asked import Asked, Lost
from otel_agent_replay.protocols.translation.content import functions_in, split_system
from otel_agent_replay.protocols.translation.reading import lower_types, read_settings
from otel_agent_replay.protocols.translation.to_anthropic import to_anthropic
from otel_agent_replay.protocols.translation.to_google import to_google
from otel_agent_replay.protocols.translation.to_openai_chat import to_openai_chat
from otel_agent_replay.protocols.translation.to_openai_responses import to_openai_responses

_WRITERS: Final[Mapping[str, Callable[[Asked, str, Lost], dict[str, Any]]]] = {
    "openai.chat_completions": to_openai_chat,
    "openai.responses": to_openai_responses,
    "anthropic.messages": to_anthropic,
    "google.generate_content": to_google,
}

SPOKEN: Final = tuple(_WRITERS)
"""The protocols that requests are translated from and to, by name."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A request in another protocol's words, and what it could not take over, in words for people."""

    body: bytes
    lost: tuple[str, ...]


def translate(body: bytes, source: str, target: str, *, model: str) -> Translated:
    """Return `body`, a request of protocol `source`, as one of `target` for `model`, asking for no stream.

    A request of the target's own protocol comes back as it is. Raises CannotJudge for a protocol that is not in
    `SPOKEN`, and for a body that is no JSON object.
    """
    if source == target:
        return Translated(body, ())
    for name in (source, target):
        if name not in _WRITERS:
            raise CannotJudge(f"requests of {name} are not translated; those of {', '.join(SPOKEN)} are")
    request = parse_object(body)
    if request is None:
        raise CannotJudge(f"the request is no JSON object and cannot be translated: {body[:60]!r}")
    lost = Lost()
    asked = _asked(body, request, source, lost)
    written = _WRITERS[target](asked, model, lost)
    return Translated(compact(written).encode("utf-8", "replace"), tuple(lost.said))


def _asked(body: bytes, request: dict[str, Any], source: str, lost: Lost) -> Asked:
    messages = PROTOCOLS[source].request_messages(body)
    system, turns = split_system(messages.system, messages.messages, lost)
    functions = list(functions_in(messages.tools, lost))
    if source.startswith("google."):
        functions = [_with_plain_schema(one) for one in functions]
    asked = Asked(system, turns, functions, read_settings(request, source, lost))
    if not functions and asked.settings.tool_choice is not None:
        asked = replace(asked, settings=replace(asked.settings, tool_choice=None, tool_name=None))
    return asked


def _with_plain_schema(function: dict[str, Any]) -> dict[str, Any]:
    if "parameters" not in function:
        return function
    return {**function, "parameters": lower_types(function["parameters"])}

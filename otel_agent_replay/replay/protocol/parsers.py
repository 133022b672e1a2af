"""What reads an answer: our reduction, or a function of the user's, as one kind of thing that never raises.

A user's function is called as

    def parse(chunks: Iterable[bytes], media_type: str, status: int) -> Any

with the body in pieces (decoded of any content coding; an iterator, to be read once), the media type without its
parameters and the HTTP status. It may be a coroutine function. It returns the answer in the shape of
`protocols.message_json`, as far as it knows it (keys left out are not compared), or any other JSON value, which can be
held against itself and against another such function only. Dataclasses and pydantic models count as their fields. What
it raises is its outcome, like a value.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from otel_agent_replay.errors import CannotJudge, ConfigurationError
from otel_agent_replay.model import WireExchange
from otel_agent_replay.protocols import Folded, Protocol, message_json, reduce_chunks
from otel_agent_replay.replay.entry import load_entry

OURS = "ours"
"""The name of our own reduction among parsers."""

RAISED = "raised"
"""The one key of the value that stands for an exception."""

_ADDRESS = re.compile(r"\b0x[0-9a-f]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Parser:
    """`read(exchange, pieces)` gives the JSON value that `name` makes of an answer that came in `pieces`."""

    name: str
    read: Callable[[WireExchange, Sequence[bytes]], Any]


def our_parser(protocol: Protocol) -> Parser:
    """Our own reduction of `protocol`."""

    def read(exchange: WireExchange, chunks: Sequence[bytes]) -> Any:
        return message_json(reduce_chunks(protocol, chunks, exchange.media_type, exchange.status))

    return Parser(OURS, read)


def load_parser(entry: str) -> Parser:
    """The user's function that `pkg.mod:func` names, looked for in the working folder too.

    Raises ConfigurationError where there is none, or its module cannot be imported.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = load_entry(entry)
    except ConfigurationError:
        raise
    except CannotJudge as error:
        raise ConfigurationError(f"adapter {error}") from error
    except Exception as error:
        raise ConfigurationError(f"adapter {entry!r} cannot be imported: {type(error).__name__}: {error}") from error

    def read(exchange: WireExchange, chunks: Sequence[bytes]) -> Any:
        media_type = exchange.media_type.partition(";")[0].strip().lower()
        try:
            result = function(iter(chunks), media_type, exchange.status)
            if inspect.isawaitable(result):
                result = asyncio.run(_awaited(result))
        except Exception as error:
            return {RAISED: _ADDRESS.sub("0x…", f"{type(error).__qualname__}: {error}")}
        return json_value(result, entry)

    return Parser(entry, read)


async def _awaited(result: Any) -> Any:
    return await result


def json_value(value: Any, whose: str) -> Any:
    """`value` as JSON values: mappings, lists, texts, numbers. Raises CannotJudge for what is none."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Folded):
        return message_json(value)
    if callable(getattr(value, "model_dump", None)):
        return json_value(value.model_dump(mode="json"), whose)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return json_value({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, whose)
    if isinstance(value, Mapping):
        return {str(key): json_value(item, whose) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item, whose) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    raise CannotJudge(
        f"{whose} returned something with a {type(value).__module__}.{type(value).__qualname__} in it, which is no "
        "JSON value; return a mapping such as {'text': ..., 'tool_calls': [...]}, or any lists, texts and numbers"
    )

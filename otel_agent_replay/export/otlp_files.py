"""Spans -> files of OTLP: one JSON document, one a line, or protobuf; gzip around each where the name says so."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, cast

from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import Span
from otel_agent_replay.otlp.json_messages import document_of
from otel_agent_replay.otlp.parts import messages_of

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".binpb", ".pb")
_SPANS_A_LINE = 256


def is_otlp_file(name: str) -> bool:
    """Whether a name is that of a file which `write_spans` writes, and no address."""
    return "://" not in name and name.removesuffix(".gz").endswith(_SUFFIXES)


def write_spans(spans: Iterable[Span], path: Path) -> None:
    """Write spans into a file of the form that its name says: `.json`, `.jsonl`, `.ndjson`, `.binpb`, `.pb`, `.gz`.

    The file is there whole or not at all. Raises OSError, ConfigurationError for another name.
    """
    plain = path.name.removesuffix(".gz")
    if not plain.endswith(_SUFFIXES):
        raise ConfigurationError(f"{path} names no form of OTLP: {', '.join(_SUFFIXES)} are known, and .gz behind them")
    temporary = path.with_name(f".{path.name}.new")
    try:
        with _opened(temporary, packed=path.name.endswith(".gz")) as file:
            if plain.endswith(".json"):
                file.write(json.dumps(document_of(spans)).encode("ascii") + b"\n")
            elif plain.endswith((".jsonl", ".ndjson")):
                _write_lines(spans, file)
            else:
                for message in messages_of(spans):
                    file.write(message.SerializeToString())  # behind each other they are one message
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _opened(path: Path, *, packed: bool) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "wb", 6)) if packed else path.open("wb")


def _write_lines(spans: Iterable[Span], file: IO[bytes]) -> None:
    for batch in _batches(spans):
        file.write(json.dumps(document_of(batch)).encode("ascii") + b"\n")


def _batches(spans: Iterable[Span]) -> Iterator[list[Span]]:
    left = iter(spans)
    while batch := list(islice(left, _SPANS_A_LINE)):
        yield batch

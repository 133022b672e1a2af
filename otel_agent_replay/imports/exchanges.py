"""Which kind of file is this, and what exchanges are in it: told from the bytes, the name only breaks ties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.imports.bodies import plain_bytes, read_body
from otel_agent_replay.imports.cassettes import is_cassette, read_cassette
from otel_agent_replay.model import WireExchange
from otel_agent_replay.protocols.json_text import parse

_YAML = (".yaml", ".yml")


def read_exchanges(path: Path) -> list[WireExchange]:
    """Every model or other exchange in a file, `source` being its path and, where there are several, a number.

    Takes VCR cassettes (YAML, JSON), nock recordings, single recordings of the test agent, and bare response bodies.
    Raises DamagedRecording for a file that is none of them or not whole, OSError for one that cannot be read.
    """
    return list(_exchanges(path.read_bytes(), str(path), path.suffix.lower()))


def is_bare(path: Path, exchanges: list[WireExchange]) -> bool:
    """Whether a file was one body and nothing else."""
    return len(exchanges) == 1 and exchanges[0].request is None and exchanges[0].source == str(path)


def _exchanges(data: bytes, source: str, suffix: str) -> Iterator[WireExchange]:
    if not data.strip():
        raise DamagedRecording(f"{source} is empty: there is no body in it")
    data = plain_bytes(data, source)
    document = None
    if suffix in _YAML:
        from otel_agent_replay.imports.yaml_text import load_yaml

        document = load_yaml(data, source)
    elif data.lstrip()[:1] in (b"{", b"["):
        document = parse(data)
    if is_cassette(document):
        yield from read_cassette(document, source)
    elif suffix in _YAML:
        raise DamagedRecording(f"{source} is YAML, but no cassette: it has no `interactions`")
    else:
        yield from read_body(data, source)

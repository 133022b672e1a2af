"""Files of recorded HTTP exchanges (VCR, nock, the test agent) as a run, registered in `imports.files`."""

from __future__ import annotations

from otel_agent_replay.imports.cassette_runs import NAME, recordings_of
from otel_agent_replay.imports.cassettes import is_cassette
from otel_agent_replay.imports.exchanges import read_exchanges
from otel_agent_replay.imports.files import Found
from otel_agent_replay.imports.opened_file import OpenedFile

_KEY = b"interactions:"


def fits(file: OpenedFile) -> bool:
    """Whether it looks like a cassette: JSON of its forms, or YAML that has interactions."""
    head = file.head
    if head[:1] in (b"{", b"["):
        return is_cassette(file.document)
    return head.startswith(_KEY) or b"\n" + _KEY in head


def read(file: OpenedFile) -> Found:
    """Return the one run that it holds. Raises DamagedRecording for one that is not whole."""
    return Found(NAME, recordings=recordings_of(read_exchanges(file.path), str(file.path)))

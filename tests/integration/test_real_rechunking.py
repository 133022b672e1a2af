"""Every recorded stream, cut in two hundred random ways, reduces to the same answer; and to what the index says of it.

The files are read as a user's are: by the product's own imports, with the protocol found by itself.
"""

from __future__ import annotations

import csv
import json

import pytest

from otel_agent_replay.imports import read_exchanges
from otel_agent_replay.protocols import reduce_chunks
from otel_agent_replay.replay.protocol import chunking, pieces, protocol_of
from tests.support.recordings import data_folder

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(data_folder() is None, reason="no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder"),
]

CHUNKINGS = 200


def _index() -> list[dict[str, str]]:
    root = data_folder()
    if root is None:
        return []
    with (root / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


INDEX = _index()
STREAMED = [row["path"] for row in INDEX if row["streams"] != "none"]
# Streams that are no model's answer, or of an API that nobody here speaks.
NOT_SPOKEN = {
    "crewai/a2a/TestA2AStreamingIntegration.test_streaming_completes_task.yaml",
    "dd-trace-py/bedrock-agent/agent_invoke_trace_disabled.yaml",
    "openllmetry/openai-assistants/test_streaming_existing_assistant.yaml",
    "openllmetry/replicate/test_replicate_llama_stream_legacy.yaml",
}
OTHER_REASONS = {
    # The index counts the reason of a model that was asked inside the call, which is none of the answer's.
    "vercel-ai/anthropic/anthropic-advisor-stop-reasons.chunks.txt",
    *NOT_SPOKEN,
}
REASONED = [row for row in INDEX if row["finish_reasons"] and row["path"] not in OTHER_REASONS]


def spoken(path):
    found = []
    for exchange in read_exchanges(data_folder() / path):
        protocol = protocol_of(exchange)
        if protocol is not None:
            found.append((protocol, exchange))
    return found


@pytest.mark.parametrize("path", STREAMED)
def test_two_hundred_cuttings_change_nothing(path):
    """A recorded stream gives the same answer, problems and all, however its bytes are cut."""
    found = spoken(path)
    assert bool(found) == (path not in NOT_SPOKEN)
    for protocol, exchange in found:
        whole = protocol.fold(exchange.body, exchange.media_type, exchange.status)
        for number in range(CHUNKINGS):
            chunks = pieces(exchange.body, chunking(exchange.body, number, seed=4))
            assert reduce_chunks(protocol, chunks, exchange.media_type, exchange.status) == whole, (number, chunks)


@pytest.mark.parametrize("row", REASONED, ids=[row["path"] for row in REASONED])
def test_finish_reasons_are_those_of_the_index(row):
    """Whoever indexed the recordings read the same finish reasons from them as we do."""
    reasons = set()
    for protocol, exchange in spoken(row["path"]):
        folded = protocol.fold(exchange.body, exchange.media_type, exchange.status)
        reasons |= {message["finish_reason"] for message in folded.output_messages if message["finish_reason"]}
    assert reasons == set(row["finish_reasons"].split(","))


def test_pieces_of_a_real_network_change_nothing():
    """Bodies of a local server, in the very pieces that its sockets gave, reduce as the whole bodies do."""
    folder = data_folder() / "local-llamacpp"
    bodies = sorted(folder.glob("*.response.body"))
    assert bodies
    for path in bodies:
        (exchange,) = read_exchanges(path)
        protocol = protocol_of(exchange)
        wire = json.loads(path.with_name(path.name.replace(".response.body", ".wire.json")).read_bytes())
        cuts, at = [], 0
        for size in wire.get("http_chunk_sizes") or []:
            cuts.append(at := at + size)
        chunks = pieces(exchange.body, tuple(cut for cut in cuts if cut < len(exchange.body)))
        whole = protocol.fold(exchange.body, exchange.media_type, exchange.status)
        assert reduce_chunks(protocol, chunks, exchange.media_type, exchange.status) == whole

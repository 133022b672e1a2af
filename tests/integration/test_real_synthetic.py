"""Real providers' answers, streamed and whole, with phrases made up: they read as their text with those replaced."""

from __future__ import annotations

import re

import pytest

from otel_agent_replay.boundary.http_coding import masked
from otel_agent_replay.payload.personal import Replacement
from otel_agent_replay.payload.synthetic import TEXT, SyntheticValues
from otel_agent_replay.payload.synthetic_redaction import SyntheticRedaction
from otel_agent_replay.protocols.recognise import recognise
from tests.support.recordings import data_folder, load_exchanges

pytestmark = pytest.mark.real

_THREE_WORDS = re.compile(r"\w+ \w+ \w+")


@pytest.mark.skipif(data_folder() is None, reason="the shared recordings are not here")
def test_answers_of_real_providers_read_as_their_text_replaced():
    """In each answer three phrases become made-up ones of the same length, however the stream cuts them.

    Told apart are answers in which a phrase runs over two content blocks: no text of the answer holds it whole.
    """
    looked_at, over_blocks = 0, []
    for exchange in load_exchanges():
        protocol = recognise(exchange.method, exchange.url, exchange.request_headers, exchange.request_body)
        if protocol is None:
            continue
        types = [value for name, value in exchange.response_headers if name.lower() == "content-type"]
        media_type = (types or [""])[0].partition(";")[0]
        before = protocol.fold(exchange.response_body, media_type, exchange.status).text
        phrases = _THREE_WORDS.findall(before)[:3]
        if not phrases:
            continue
        looked_at += 1
        replace = Replacement(dict.fromkeys(phrases, TEXT), SyntheticValues(b"key"))
        made = b"".join(masked(SyntheticRedaction(replace), [exchange.response_body], media_type, ()).chunks)
        assert len(made) == len(exchange.response_body), exchange.source
        after = protocol.fold(made, media_type, exchange.status).text
        if after != replace(before):
            assert replace(after) != after, exchange.source  # seen by whoever looks at what is left
            over_blocks.append(exchange.source)
    assert looked_at > 200
    assert len(over_blocks) <= 2, over_blocks

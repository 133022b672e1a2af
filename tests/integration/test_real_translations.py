"""Recorded requests of four protocols in each other's words: what was said stays, what does not is named."""

from __future__ import annotations

import pytest

from otel_agent_replay.protocols import recognise
from otel_agent_replay.protocols.translation import SPOKEN, translate
from tests.property.test_translation_laws import said_in
from tests.support.recordings import data_folder, load_exchanges

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(data_folder() is None, reason="no recordings: set OTEL_AGENT_REPLAY_DATA to the data folder"),
]


def requests():
    for exchange in load_exchanges():
        protocol = recognise(exchange.method, exchange.url, exchange.request_headers, exchange.request_body)
        if protocol is not None and protocol.name in SPOKEN:
            yield exchange.source, protocol.name, exchange.request_body


def test_recorded_requests_say_the_same_in_other_words():
    """Where nothing is named as lost, every text and every call of the request is in the translated one."""
    whole = 0
    for source, spoken, body in requests():
        for target in SPOKEN:
            found = translate(body, spoken, target, model="another")
            if target == spoken or found.lost:
                continue
            before, after = said_in(body, spoken), said_in(found.body, target)
            assert after["said"] == before["said"], (source, target)
            assert after["calls"] == before["calls"], (source, target)
            whole += 1
    assert whole > 300

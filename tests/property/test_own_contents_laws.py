"""Laws of what our recorder sends beside a span: looked at again where it arrives, it stays as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agent_replay import semconv
from otel_agent_replay.model import Span
from otel_agent_replay.otlp.own_contents import masked_contents
from otel_agent_replay.otlp.parts import PartJoiner, messages_of
from otel_agent_replay.otlp.runs import spans_of_run
from otel_agent_replay.otlp.spans import spans_of
from otel_agent_replay.payload.redaction import Redaction
from tests.property import strategies as own
from tests.property.lake_strategies import recorded_runs
from tests.support.forged_records import forged_spans
from tests.support.lake_runs import full_run

REDACTION = Redaction.default()


def test_a_record_without_secrets_stays_byte_for_byte():
    """A run with every kind of step arrives as it was sent."""
    for span in spans_of_run(full_run()):
        record = span.attributes[semconv.RECORD]
        assert masked_contents(semconv.RECORD, record, REDACTION) == record


@pytest.mark.soak
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(recorded_runs())
def test_looking_at_a_record_twice_changes_nothing_more(run):
    """Whatever was recorded, masked as it was: where it arrives it stays."""
    for span in spans_of_run(run):
        sent = masked_contents(semconv.RECORD, span.attributes[semconv.RECORD], REDACTION)
        assert masked_contents(semconv.RECORD, sent, REDACTION) == sent


@given(st.sampled_from(forged_spans()), st.binary(max_size=30))
def test_what_was_masked_stays_masked(span, hidden):
    """Masking twice changes nothing more, whatever else stands in the record."""
    record = span.attributes[semconv.RECORD] + hidden
    once = masked_contents(semconv.RECORD, record, REDACTION)
    assert masked_contents(semconv.RECORD, once, REDACTION) == once


@given(own.tokens(), st.integers(0, 9000), st.text(st.characters(codec="utf-8"), max_size=20))
def test_a_known_secret_in_a_piece_is_masked_and_the_span_stays_readable(secret, before, after):
    """A token somewhere in a large span is masked in its piece; the joined span is as long as it was, and reads."""
    note = f"{'x' * before} {secret} {after} {'y' * 9000}"
    span = Span(b"\x07" * 16, b"\x07" * 8, "large", 1, 2, attributes={"note": note})
    joiner, whole = PartJoiner(), []
    for message in messages_of([span], 8192):
        for group in message.resource_spans:
            for piece in spans_of(group):
                masked = masked_contents(semconv.PART, piece.attributes[semconv.PART], REDACTION)
                assert secret.encode() not in masked
                whole.append(joiner.whole(replace(piece, attributes={semconv.PART: masked})))
    (found,) = filter(None, whole)
    assert len(found.attributes["note"]) == len(note)

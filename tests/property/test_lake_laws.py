"""load(write(x)) = x for runs, and the proofs that go with it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agent_replay.lake.arrays import Lists, array_of
from otel_agent_replay.lake.attributes import load_mappings, load_shared_mappings, store_mappings
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.columns import Columns
from otel_agent_replay.lake.manifest import manifest_of
from otel_agent_replay.lake.path_column import load_path, store_path
from otel_agent_replay.lake.promoted import promote, recall
from otel_agent_replay.lake.schema import SPANS
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Kind
from tests.property.lake_strategies import attributes, keys, recorded_runs, texts, values

disk = settings(
    max_examples=settings.default.max_examples // 3,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def _digests(recorded):
    for node in recorded.nodes:
        if node.call is not None:
            yield node.call.request.digest
        if node.outcome is not None and node.outcome.result is not None:
            yield node.outcome.result.digest


@disk
@given(st.lists(recorded_runs(), min_size=1, max_size=3, unique_by=lambda recorded: recorded.run.run_id))
def test_a_run_comes_back_as_it_was_written(runs):
    """Facts, spans, replay sides, losses and every payload byte are the same, attribute order and types included."""
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), runs, segments=["one"])
        lake = Lake(Path(folder))
        assert sorted(summary.run.run_id for summary in lake.runs()) == sorted(run.run.run_id for run in runs)
        for recorded in runs:
            loaded = lake.load(recorded.run.run_id)
            # repr tells 1, 1.0 and True apart, and NaN equals itself there.
            assert repr(loaded.run) == repr(recorded.run)
            assert repr(loaded.spans) == repr(recorded.spans)
            assert repr(loaded.losses) == repr(recorded.losses)
            for digest in _digests(recorded):
                assert loaded.payload(digest) == recorded.payload(digest)


@disk
@given(recorded_runs())
def test_what_was_just_written_holds(recorded):
    """The manifest is the same before and after storage, and verify finds nothing but gaps in the steps themselves."""
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), [recorded], segments=[])
        loaded = Lake(Path(folder)).load(recorded.run.run_id)
        assert manifest_of(loaded)[1] == manifest_of(recorded)[1] == loaded.manifest_digest
        assert [finding for finding in verify(loaded) if not finding.what.startswith("step")] == []


@given(st.lists(attributes, min_size=1, max_size=4))
def test_attributes_keep_types_and_order(mappings):
    """A column of mappings comes back with the same order and types."""
    assert repr(load_mappings(_columns(mappings), "attributes")) == repr(mappings)


@given(st.lists(attributes, min_size=1, max_size=3), st.data())
def test_mappings_are_shared_where_they_say_the_same(mappings, data):
    """Rows that say the same, order and types included, share one mapping, and no others do."""
    drawn = data.draw(st.lists(st.sampled_from(mappings), min_size=1, max_size=8))
    loaded = load_shared_mappings(_columns(drawn), "attributes")
    assert repr(loaded) == repr(drawn)
    assert len(set(map(id, loaded))) == len(set(map(repr, drawn)))


def _columns(mappings):
    return Columns(pa.table({"attributes": store_mappings(mappings)}))


@given(keys, values)
def test_a_promoted_attribute_is_recalled_or_refused(key, value):
    """Either a column takes the value and gives the same back, or it stays in the map."""
    lists = Lists(1)
    lists["run_id"], lists["request_digest"], lists["step"] = [b"r" * 16], [b"d" * 32], [3]
    lists["kind"], lists["path"], lists["agent"] = [Kind.TOOL], ["a"], ["x"]
    if promote(lists, 0, key, value):
        columns = {name: array_of(column, SPANS.field(name).type) for name, column in lists.items()}
        (recalled,) = recall(Columns(pa.table(columns)), key)
        assert repr(recalled) == repr(value)


@given(st.lists(texts, min_size=1, max_size=4).map(tuple))
def test_a_path_comes_back(path):
    """Names with slashes and percent signs do not change the parts of a path."""
    assert load_path(store_path(path)) == path

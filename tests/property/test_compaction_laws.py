"""Compaction changes no run of any shape: load(compact(write(x))) = x."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agent_replay.lake import merging
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.manifest import manifest_of
from otel_agent_replay.lake.merged_payloads import _Moved
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.lake.writer import write_runs
from tests.property.lake_strategies import recorded_runs

disk = settings(
    max_examples=settings.default.max_examples // 4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@disk
@given(
    st.lists(recorded_runs(), min_size=2, max_size=4, unique_by=lambda recorded: recorded.run.run_id),
    st.sampled_from([2, 4096]),
)
def test_runs_come_back_from_a_compacted_lake_as_they_were_written(runs, group):
    """Facts, spans, losses, payload bytes and manifests are the same, whatever the row groups."""
    before = merging.ROW_GROUP_ROWS
    merging.ROW_GROUP_ROWS = group
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number, recorded in enumerate(runs):
                write_runs(Path(folder), [recorded], segments=[f"{number}"])
            report = compact(Path(folder), grace_s=0)
            assert report.skipped == []
            lake = Lake(Path(folder))
            for recorded in runs:
                loaded = lake.load(recorded.run.run_id)
                assert repr(loaded.run) == repr(recorded.run)
                assert repr(loaded.spans) == repr(recorded.spans)
                assert sorted(map(repr, loaded.losses)) == sorted(map(repr, recorded.losses))
                assert manifest_of(recorded)[1] == loaded.manifest_digest
                assert [finding for finding in verify(loaded) if not finding.what.startswith("step")] == []
    finally:
        merging.ROW_GROUP_ROWS = before


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=8),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), min_size=1, max_size=8),
    st.integers(1, 5),
)
def test_moved_rows_are_found_where_they_were_put(first, second, step):
    """What is missing of wanted ranges is each row once, in order; afterwards every range is found, row for row."""
    moved, places, number = _Moved(), {}, 0
    for wanted in (first, second):
        rows = {row for start, count in wanted for row in range(start, start + count)}
        missing = moved.missing(wanted)
        assert missing == sorted(rows - places.keys())
        for row in missing:
            number += 1 if number % step else step
            assert moved.last_new(row) == places.get(row - 1)
            places[row] = number
            moved.add(row, number)
    for start, count in second:
        found = [new + offset for new, length in moved.ranges(start, count) for offset in range(length)]
        assert found == [places[row] for row in range(start, start + count)]

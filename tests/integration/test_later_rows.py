"""Attributes and coverage of a small run are read when somebody looks into them, whatever became of its file."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.layout import SPANS, all_files
from otel_agent_replay.lake.verify import verify
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Coverage, RecordedSpan, Span
from tests.support.lake_runs import full_run


@pytest.fixture
def stored(tmp_path):
    """A lake with one run, the run, and its spans file."""
    run = full_run(1)
    run = replace(run, spans=(*run.spans, _of_another_instrumentation(run)))
    write_runs(tmp_path, [run], segments=["one"])
    (file,) = all_files(tmp_path, SPANS)
    return Lake(tmp_path), run, file.path


def _of_another_instrumentation(run):
    last = run.spans[-1].span
    return RecordedSpan(
        Span(last.trace_id, b"elsewher", "GET", last.end_ns, last.end_ns, attributes={"url.full": "http://one"})
    )


def damage(path, column):
    """Overwrite the pages of a column, or of a part of one."""
    metadata = pq.read_metadata(path).row_group(0)
    data = bytearray(path.read_bytes())
    for place in range(metadata.num_columns):
        leaf = metadata.column(place)
        if f"{leaf.path_in_schema}.".startswith(f"{column}."):
            first = leaf.dictionary_page_offset or leaf.data_page_offset
            data[first : first + leaf.total_compressed_size] = bytes(leaf.total_compressed_size)
    path.write_bytes(data)


def attributes_of(recorded):
    """Return the attributes of each span, call and outcome, as they come."""
    nodes = [item.node for item in recorded.spans if item.node is not None]
    calls = [node.call.attributes for node in nodes if node.call is not None]
    outcomes = [node.outcome.attributes for node in nodes if node.outcome is not None]
    return [[item.span.attributes for item in recorded.spans], calls, outcomes]


@pytest.mark.parametrize("first", range(3))
def test_they_are_those_that_were_stored_whichever_is_asked_first(stored, first):
    """Spans, calls and outcomes each know their own, those of other instrumentations too, in their order."""
    lake, run, _ = stored
    loaded, expected = attributes_of(lake.load(run.run.run_id)), attributes_of(run)
    sides = [first, *(side for side in range(3) if side != first)]
    for side in sides:
        assert loaded[side] == expected[side]
        assert [list(one.items()) for one in loaded[side]] == [list(one.items()) for one in expected[side]]


def test_they_outlast_their_file(stored):
    """A compaction may replace the file of a run that somebody has loaded."""
    lake, run, path = stored
    loaded = lake.load(run.run.run_id)
    path.unlink()
    assert loaded.run.coverage == run.run.coverage
    assert loaded.spans == tuple(run.spans)


def test_they_are_mappings_like_others(stored):
    """They say what they hold, answer for what they do not, and go to another process as plain mappings."""
    lake, run, _ = stored
    loaded = lake.load(run.run.run_id)
    (root, *_), (expected, *_) = loaded.spans, run.spans
    attributes = root.span.attributes
    assert repr(attributes) == repr(dict(expected.span.attributes))
    assert len(attributes) == len(expected.span.attributes)
    assert attributes.get("not there", 3) == 3
    assert "not there" not in attributes
    assert {**attributes} == expected.span.attributes
    with pytest.raises(KeyError, match="not there"):
        attributes["not there"]
    sent = pickle.loads(pickle.dumps(lake.load(run.run.run_id).spans))  # noqa: S301 - our own
    assert sent == tuple(run.spans)
    assert {type(item.span.attributes) for item in sent} == {dict}


def test_coverage_is_a_sequence_like_others(stored):
    """It says what was stored whenever it is asked, equals no other, and goes to another process as a plain tuple."""
    lake, run, _ = stored
    expected = tuple(run.run.coverage.entries)
    assert expected
    entries = lake.load(run.run.run_id).run.coverage.entries
    assert entries == expected
    assert expected == entries
    assert entries != expected[1:]
    assert entries != "captured"
    assert (entries[0], entries[1:], len(entries), repr(entries)) == (
        expected[0], expected[1:], len(expected), repr(expected),
    )  # fmt: skip
    sent = pickle.loads(pickle.dumps(lake.load(run.run.run_id).run))  # noqa: S301 - our own
    assert sent.coverage.entries == expected
    assert type(sent.coverage.entries) is tuple


def test_a_run_without_coverage_has_none(tmp_path):
    """Its process died: nobody said what was captured."""
    run = full_run(1)
    run = replace(run, run=replace(run.run, coverage=Coverage()))
    write_runs(tmp_path, [run], segments=["one"])
    assert tuple(Lake(tmp_path).load(run.run.run_id).run.coverage.entries) == ()


def test_threads_that_ask_at_once_get_the_same(stored):
    """They are read once, and no thread sees half of them."""
    lake, run, _ = stored
    expected = attributes_of(run)
    for _ in range(5):
        loaded = lake.load(run.run.run_id)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _, loaded=loaded: attributes_of(loaded) == expected, range(8)))
        assert all(found)


@pytest.mark.parametrize("column", ["attributes", "call_attributes", "request_model", "run.coverage"])
def test_damage_is_told_to_who_looks_into_them(stored, column):
    """A run whose attributes are damaged is loaded; a look into any of them, or a check of the run, names the file."""
    lake, run, path = stored
    damage(path, column)
    loaded = lake.load(run.run.run_id)
    assert [item.span.span_id for item in loaded.spans] == [item.span.span_id for item in run.spans]
    for _ in range(2):
        with pytest.raises(DamagedRecording, match=path.name):
            loaded.spans[0].span.attributes.get("x")
        with pytest.raises(DamagedRecording, match=path.name):
            len(loaded.run.coverage.entries)
    with pytest.raises(DamagedRecording, match=path.name):
        verify(loaded)


@pytest.mark.parametrize("column", ["path", "request_digest", "sequence", "run.status", "run.versions"])
def test_damage_of_all_else_is_told_at_once(stored, column):
    """What a replay rests on is read when the run is loaded."""
    lake, run, path = stored
    damage(path, column)
    with pytest.raises(DamagedRecording, match=path.name):
        lake.load(run.run.run_id)


def test_those_of_a_run_that_shares_its_file_are_read_at_once(tmp_path):
    """Else each run of a file would keep the bytes of all its runs in memory."""
    runs = [full_run(number) for number in range(2)]
    write_runs(tmp_path, runs, segments=["one"])
    for run in runs:
        loaded = Lake(tmp_path).load(run.run.run_id)
        assert loaded.spans == tuple(run.spans)
        assert {type(item.span.attributes) for item in loaded.spans} == {dict}
        assert type(loaded.run.coverage.entries) is tuple

"""How a file of one small run is laid out, and what of it is read."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from otel_agent_replay import semconv
from otel_agent_replay.errors import DamagedRecording
from otel_agent_replay.lake import writer
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.layout import SPANS, all_files
from otel_agent_replay.lake.writer import write_runs
from tests.support.lake_runs import full_run


@pytest.fixture
def stored(tmp_path):
    """A lake with one run, the run, and its spans file."""
    run = full_run(1)
    write_runs(tmp_path, [run], segments=["one"])
    (file,) = all_files(tmp_path, SPANS)
    return Lake(tmp_path), run, file.path


def leaves(path):
    metadata = pq.read_metadata(path)
    return [
        metadata.row_group(group).column(place)
        for group in range(metadata.num_row_groups)
        for place in range(metadata.num_columns)
    ]


def _without_reasons(attributes):
    return {key: value for key, value in attributes.items() if key != semconv.RESPONSE_FINISH_REASONS}


def same(loaded, run):
    return loaded.run == run.run and loaded.spans == tuple(run.spans)


def test_leaves_that_hold_little_are_not_packed(stored):
    """What packing would make larger is stored as it is, and what it makes smaller is packed."""
    lake, run, path = stored
    unpacked = [leaf for leaf in leaves(path) if leaf.compression == "UNCOMPRESSED"]
    assert len(unpacked) > 100
    assert not any(leaf.has_dictionary_page for leaf in unpacked)
    assert any(leaf.compression == "ZSTD" for leaf in leaves(path))
    assert same(lake.load(run.run.run_id), run)


def test_a_file_of_several_row_groups_is_packed_throughout(tmp_path, monkeypatch):
    """What the first rows hold says nothing of the others: all leaves of such a file are packed."""
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 4)
    run = full_run(1)
    write_runs(tmp_path, [run], segments=["one"])
    (file,) = all_files(tmp_path, SPANS)
    assert pq.read_metadata(file.path).num_row_groups > 1
    assert {leaf.compression for leaf in leaves(file.path)} == {"ZSTD"}
    assert same(Lake(tmp_path).load(run.run.run_id), run)


def test_a_column_that_holds_nothing_is_not_read(stored):
    """A run is loaded without the pages of its empty columns: they may be damaged."""
    lake, run, path = stored
    empty = [leaf for leaf in leaves(path) if leaf.is_stats_set and leaf.statistics.null_count == leaf.num_values]
    assert len(empty) > 5
    data = bytearray(path.read_bytes())
    for leaf in empty:
        data[leaf.data_page_offset : leaf.data_page_offset + leaf.total_compressed_size] = bytes(
            leaf.total_compressed_size
        )
    path.write_bytes(data)
    assert same(lake.load(run.run.run_id), run)


def test_a_file_whose_every_leaf_has_statistics_is_read_whole(stored):
    """Another writer tells of the leaves of lists that are there and empty that they hold nothing: they are read."""
    lake, run, path = stored
    root = run.spans[0]
    attributes = {**root.span.attributes, semconv.RESPONSE_FINISH_REASONS: ()}
    root = replace(root, span=replace(root.span, attributes=attributes))
    spans = tuple(
        replace(item, span=replace(item.span, attributes=_without_reasons(item.span.attributes)))
        for item in run.spans[1:]
    )
    run = replace(run, spans=(root, *spans))
    path.unlink()
    write_runs(lake.root, [run], segments=["one"])
    metadata = pq.read_metadata(path).metadata
    table = pq.read_table(path).replace_schema_metadata(metadata)
    pq.write_table(table, path, write_statistics=True)
    assert all(leaf.is_stats_set for leaf in leaves(path))
    assert same(lake.load(run.run.run_id), run)


def test_what_one_file_says_is_never_taken_for_another(tmp_path):
    """Files that are laid out alike are each read by what they say themselves, in whatever order."""
    runs = [full_run(number) for number in range(3)]
    lakes = [tmp_path / str(number) for number in range(3)]
    for run, lake in zip(runs, lakes, strict=True):
        write_runs(lake, [run], segments=["one"])
    for place in (0, 1, 0, 2, 2, 1):
        assert same(Lake(lakes[place]).load(runs[place].run.run_id), runs[place])


def test_damage_that_comes_after_a_look_is_told(stored):
    """What was known of a file does not stand for what lies in it now: not of its pages, nor of where they end."""
    lake, run, path = stored
    whole = path.read_bytes()
    (digest,) = (leaf for leaf in leaves(path) if leaf.path_in_schema == "request_digest")
    damaged, size = bytearray(whole), digest.total_compressed_size
    damaged[digest.data_page_offset : digest.data_page_offset + size] = bytes(size)
    torn = whole[: len(whole) // 2]
    without_its_beginning = whole[len(whole) // 2 :]
    for bad in (bytes(damaged), torn, without_its_beginning, whole[:-1], b"PAR1"):
        path.write_bytes(whole)
        assert same(lake.load(run.run.run_id), run)
        path.write_bytes(bad)
        with pytest.raises(DamagedRecording, match=path.name):
            lake.load(run.run.run_id)

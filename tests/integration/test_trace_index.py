"""The index by trace id: looked up quickly, believed only where it proves itself, and made anew where it does not."""

from __future__ import annotations

import random

import pytest

from otel_agent_replay.lake import trace_index
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.writer import write_runs
from tests.support.lake_runs import STARTED_MS, RunMaker

RUNS = 40


def made(number):
    maker = RunMaker(number, started_ms=STARTED_MS + number * 3_600_000)
    maker.tool("look", {"n": number}, "found")
    return maker.run()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A lake of many hours, a run in each, with small blocks in its index; the runs, and the bytes of the index."""
    lake = tmp_path_factory.mktemp("lake")
    runs = [made(number) for number in range(RUNS)]
    for run in runs:
        write_runs(lake, [run], segments=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_index, "_BLOCK_ROWS", 7)
        found_all(lake, runs)
    index = lake / "index" / "traces.arrow"
    return lake, runs, index, index.read_bytes()


def found_all(lake, runs):
    """Every run is found by its trace id, and a trace that is not there is not."""
    for run in runs:
        assert Lake(lake).find(run.run.trace_id.hex()) == run.run.run_id
    return True


def looked_into(monkeypatch, lake, run):
    """How many files a look-up reads."""
    read = []
    from otel_agent_replay.lake import catalog

    real = catalog._trace_ids
    monkeypatch.setattr(catalog, "_trace_ids", lambda file: (read.append(file), real(file))[1])
    assert Lake(lake).find(run.run.trace_id.hex()) == run.run.run_id
    return len(read)


def test_a_look_up_reads_no_file_that_the_index_knows(filled, monkeypatch):
    """Found by the index alone, in whichever of its blocks."""
    lake, runs, index, content = filled
    index.write_bytes(content)
    assert [looked_into(monkeypatch, lake, run) for run in (runs[0], runs[20], runs[-1])] == [0, 0, 0]


def damages(content):
    """Copies of an index that are torn, or have one bit flipped, or are something else."""
    yield from (content[:size] for size in (0, 1, 100, len(content) // 2, len(content) - 1))
    yield bytes(len(content))
    yield content[: len(content) // 2] + bytes(len(content) - len(content) // 2)
    yield b"no index"
    drawn = random.Random(7)
    for place in drawn.sample(range(len(content)), 30):
        flipped = bytearray(content)
        flipped[place] ^= 1 << drawn.randrange(8)
        yield bytes(flipped)


def test_a_torn_or_altered_index_is_never_believed(filled):
    """Whichever byte is not what it was, every run is found."""
    lake, runs, index, content = filled
    for damaged in damages(content):
        index.write_bytes(damaged)
        found_all(lake, [runs[17]])


@pytest.mark.parametrize("number", range(5))
def test_a_damaged_index_is_made_anew(filled, monkeypatch, number):
    """The look-up that notices it reads the files, and the next one has an index again."""
    lake, runs, index, content = filled
    index.write_bytes([*damages(content)][number])
    assert looked_into(monkeypatch, lake, runs[5]) == RUNS
    assert looked_into(monkeypatch, lake, runs[6]) == 0


def test_damage_in_a_block_that_is_asked_for_is_noticed(filled, monkeypatch):
    """A trace id that was altered in its block leads to no other run: the index is made anew."""
    lake, runs, index, content = filled
    wanted = runs[9].run.trace_id
    at = content.index(wanted)
    index.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    assert looked_into(monkeypatch, lake, runs[9]) == RUNS
    assert looked_into(monkeypatch, lake, runs[9]) == 0

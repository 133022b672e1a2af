"""The floors of alignment on mutated runs whose truth is known: the short form of benchmarks/align_quality.py."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def quality():
    """The benchmark's own rules of judgement."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("align_quality")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize(
    "column", ["structure 3%", "structure + payload 5%", "payload 5%", "wrap/unwrap 3%", "reorder 5%"]
)
def test_each_kind_of_mutation_is_aligned(quality, column):
    """Under one kind of mutation F1 of the pairs is at least 0.95 and every trial's departure is the true one."""
    score = quality.judge_ours(column, 250, range(3))
    assert score.f1 >= 0.95
    assert score.found == score.reported == score.trials


def test_the_first_departure_is_found_under_mixed_mutations(quality):
    """Under all mutations at once the first departure is found in 17 of 20 trials, and F1 is at least 0.95."""
    score = quality.judge_ours(quality.MIXED, 150, range(20))
    assert score.f1 >= 0.95
    assert score.found >= 17
    assert score.reported >= 17


def test_a_list_by_number_does_worse(quality):
    """The judgement can fail: pairing by number among siblings stays under the floor on the same trials."""
    score = quality.judge(quality.METHODS["occurrence among siblings"], quality.MIXED, 150, range(5))
    assert score.f1 < 0.95

"""Kept pairs of traces with the differences that a comparison must find, and no other."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main

CASES = Path(__file__).parent / "cases"
PAIRS = sorted(path.parent.name for path in CASES.glob("*/expected.json") if b'"compare"' in path.read_bytes())


def compared(name, left="left", right="right", *more):
    case = json.loads((CASES / name / "expected.json").read_bytes())
    files = [str(CASES / name / case[side]) for side in (left, right)]
    done = CliRunner().invoke(main, ["diff", *files, "--json", *more])
    return case["result"], json.loads(done.stdout), done.exit_code


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_gives_its_expected_result(name):
    """Every key of the expected result is in the document of `diff --json`, with that value."""
    expected, document, code = compared(name)
    assert {key: document[key] for key in expected} == expected
    assert code == (0 if expected["equal"] else 1)


@pytest.mark.parametrize("name", PAIRS)
def test_the_mirrored_pair_gives_the_mirrored_result(name):
    """What is removed one way is added the other; what is matched stays matched."""
    expected, document, _ = compared(name, "right", "left")
    mirrored = {**expected, "added": expected["removed"], "removed": expected["added"]}
    assert {key: document[key] for key in mirrored} == mirrored


@pytest.mark.parametrize("name", PAIRS)
def test_each_side_is_equal_with_itself(name):
    """Neither trace differs from itself."""
    for side in ("left", "right"):
        _, document, code = compared(name, side, side)
        assert (document["equal"], document["added"], document["changed"], code) == (True, [], [], 0)

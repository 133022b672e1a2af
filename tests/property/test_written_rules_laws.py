"""Laws of putting volatile rules into a pyproject.toml."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from otel_agent_replay.cli.rules_writing import with_volatile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

paths = st.from_regex(r"[a-z]{1,6}(\[\*\]|\[[0-9]\]|\.[a-z]{1,5}){0,3}", fullmatch=True)
rules = st.lists(paths, max_size=4, unique=True)
OTHERS = (
    "",
    '[project]\nname = "a"\n',
    '[project]\nname = "a"\n\n[tool.otel-agent-replay]\ncapture = "full"\n\n[tool.ruff]\nline-length = 100\n',
    "[tool.otel-agent-replay]",
)


def read(text):
    return tomllib.loads(text).get("tool", {}).get("otel-agent-replay", {})


@given(st.sampled_from(OTHERS), rules, rules)
def test_rules_are_added_once_and_nothing_else_changes(text, first, second):
    """After two writings the rules are there in order, each once, and every other key is as it was."""
    once = with_volatile(text, first)
    twice = with_volatile(once, second)
    assert read(twice)["volatile"] == list(dict.fromkeys([*first, *second]))
    assert with_volatile(twice, second) == twice
    before, after = tomllib.loads(text), tomllib.loads(twice)
    before.setdefault("tool", {}).setdefault("otel-agent-replay", {})
    del after["tool"]["otel-agent-replay"]["volatile"]
    assert after == before


@given(rules)
def test_rules_that_stand_over_several_lines_are_kept(more):
    """An array over several lines, with a comment, keeps its rules when others are added."""
    text = '[tool.otel-agent-replay]\nvolatile = [\n  "a[*].b",  # ids\n  \'c\',\n]\nlake = "x"\n'
    assert read(with_volatile(text, more)) == {"volatile": list(dict.fromkeys(["a[*].b", "c", *more])), "lake": "x"}

"""The page on component cases is true: its case is one, and its table has every shape."""

from __future__ import annotations

import re
from pathlib import Path

from otel_agent_replay.replay.component.case import CASE_FILE, Case, schema

PAGE = Path(__file__).parents[2] / "otel_agent_replay" / "replay" / "component" / "README.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_case_of_the_page_is_a_case(tmp_path):
    """It parses, with three fixtures and every section of the schema but one seldom said and those of gates."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (tmp_path / CASE_FILE).write_text(block, encoding="utf-8")
    case = Case.load(tmp_path)
    assert [fixture.label for fixture in case.fixtures] == ["model chat", "tool refund", "tool refund_status"]
    sections = set(re.findall(r"^(\w+):", block, re.MULTILINE))
    assert set(schema()["properties"]) - sections == {"effects", "kind", "run", "baseline", "from_step", "good"}


def test_the_table_of_the_page_has_every_shape():
    """No shape is missing there, and none is told of that is not in the schema."""
    table = TEXT[TEXT.index("| shape |") : TEXT.index("`begins: {operation")]
    rows = [row for row in table.splitlines() if row.startswith("|")]
    told = {name for row in rows for name in re.findall(r"`(\w+)", row.split("|")[1])}
    shapes = {choice["required"][0] for choice in schema()["$defs"]["attempt"]["oneOf"]}
    assert told - {"connect"} == shapes

"""The page of imports: its tables name every reader and every dialect, and say of each what its table says."""

from __future__ import annotations

from pathlib import Path

import pytest

import otel_agent_replay
from otel_agent_replay import semconv
from otel_agent_replay.imports.dialects import DIALECTS, Dialect
from otel_agent_replay.imports.files import READERS
from otel_agent_replay.model import AnomalyCode

PAGE = (Path(otel_agent_replay.__file__).parent / "imports" / "README.md").read_text("utf-8")


def rows(mark: str) -> list[list[str]]:
    """The cells of the table behind a mark."""
    table = PAGE.partition(f"<!-- {mark} -->")[2].strip().partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def named(sources: tuple[str, ...], most: int) -> str:
    """The first sources, as the page shows them."""
    shown = ", ".join(f"`{source}`" for source in sources[:most])
    return shown + (" ..." if len(sources) > most else "") if shown else "-"


def row_of(dialect: Dialect) -> list[str]:
    """What the page says of a dialect."""
    answer = dialect.messages_out or (*dialect.answer_text, *dialect.answer_calls)
    return [
        f"`{dialect.name}`",
        dialect.title,
        named(dialect.messages_in, 2),
        named(answer, 2),
        named((*dialect.tool_arguments[:1], *dialect.tool_result[:1]), 2),
        named(dialect.facts.get(semconv.USAGE_INPUT_TOKENS, ()), 1),
        "yes" if semconv.COST_USD in dialect.facts else "by genai-prices",
        named(dialect.thread, 1),
        named(dialect.subject, 1),
        str(dialect.best),
    ]


def test_the_page_says_what_each_dialect_yields():
    """The table of dialects has a row for each, in the order in which they are asked, that says what its table says."""
    assert rows("dialects") == [row_of(dialect) for dialect in DIALECTS], "\n" + "\n".join(
        "| " + " | ".join(row_of(dialect)) + " |" for dialect in DIALECTS
    )


@pytest.mark.parametrize("name", READERS)
def test_the_page_names_every_reader(name):
    """The table of formats has a row for each reader."""
    assert [row for row in rows("formats") if row[0] == f"`{name}`"]


def test_the_page_names_no_other_reader():
    """The table of formats names nothing that is not read."""
    assert {row[0].strip("`") for row in rows("formats")} == set(READERS)


def test_every_anomaly_has_its_row() -> None:
    """The table of what may be odd about a trace names every code, and no other, in the order they are defined."""
    told = [row for row in rows("anomalies") if row[0].startswith("`")]
    assert [row[0].strip("`") for row in told] == [str(code) for code in AnomalyCode]


def test_the_page_says_which_anomalies_lose_something() -> None:
    """The codes that end an import with 1 are those that the page lists."""
    said = PAGE.partition("read otherwise than it was meant (")[2].partition(")")[0]
    assert set(said.split("`")[1::2]) == {str(code) for code in AnomalyCode if code.is_left_out}

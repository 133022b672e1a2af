"""The SQL views over a lake: what they show, what is documented, what SQL may reach."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import duckdb
import pytest

import otel_agent_replay.lake
from otel_agent_replay.lake import schema
from otel_agent_replay.lake.views import VIEWS, connect
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Loss, LossReason, RecordedRun, RecordedSpan, Run, Span
from tests.support.lake_runs import full_run

README = (Path(otel_agent_replay.lake.__file__).parent / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    lake = tmp_path_factory.mktemp("lake [1]")  # a path with characters of a pattern
    write_runs(lake, [full_run(0), full_run(1)], segments=["one"])
    return lake


@pytest.fixture
def sql(filled):
    with connect(filled) as connection:
        yield lambda query: connection.execute(query).fetchall()


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_has_rows_of_a_full_run(view, sql):
    """A run with one of everything shows up in every view; no recording has labels."""
    rows = sql(f"SELECT * FROM {view}")
    assert bool(rows) is (view not in {"labels", "replayability"})


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_of_an_absent_lake_is_empty_and_has_the_same_columns(view, filled, tmp_path):
    """SQL written against a full lake runs on an empty one."""
    with connect(tmp_path / "absent") as empty, connect(filled) as full:
        assert empty.execute(f"SELECT * FROM {view}").fetchall() == []
        assert empty.execute(f"DESCRIBE {view}").fetchall() == full.execute(f"DESCRIBE {view}").fetchall()


@pytest.mark.parametrize("view", VIEWS)
def test_each_column_of_a_view_is_documented(view, sql):
    """The README names every view and column, and no column that is not there."""
    common = _documented(README.split("### Columns that mean the same everywhere")[1].split("\n### ")[0])
    section = re.search(rf"^### {view}\n(.*?)(?=^##)", README, re.DOTALL | re.MULTILINE)
    assert section is not None
    columns = {row[0] for row in sql(f"DESCRIBE {view}")}
    assert columns <= common | _documented(section[1])
    assert _documented(section[1]) <= columns


@pytest.mark.parametrize("table", ["spans", "payloads", "losses", "labels"])
def test_each_column_of_a_table_is_documented(table):
    """The README lists the columns of the files, in their order."""
    section = re.search(rf"^### Table {table}\n(.*?)(?=^##|\Z)", README, re.DOTALL | re.MULTILINE)
    documented = re.findall(r"^\| `(\w+)` \|", section[1], re.MULTILINE)
    assert documented == getattr(schema, table.upper()).names


def _documented(section):
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_messages_are_read_out_of_requests_and_answers(sql):
    """Each request's messages come in order with role and text; a streamed answer is put together."""
    rows = sql(
        "SELECT step, direction, role, text FROM messages WHERE run_id = (SELECT min(run_id) FROM runs) "
        "ORDER BY step, direction, position"
    )
    asked = [("system", "You are a clerk.\nBe kind."), ("user", "Refund order 7")]
    assert rows == [
        *((1, "input", role, text) for role, text in asked),
        (1, "output", "assistant", "I will look."),
        *((3, "input", role, text) for role, text in [*asked, ("assistant", "I will look."), ("user", "Go")]),
        (3, "output", "assistant", "Done."),
    ]


def test_a_message_is_stored_once_however_many_requests_repeat_it(sql):
    """Two runs of two requests each share the pieces of their messages."""
    held = sql("SELECT count(*) FROM lake_payloads WHERE decode(data) LIKE '%Refund order 7%'")
    shown = sql("SELECT count(*) FROM messages WHERE text LIKE '%Refund order 7%'")
    assert (held, shown) == ([(1,)], [(4,)])


def test_bodies_are_the_exact_bytes(sql):
    """A body in SQL has the digest that its span says, whole or put together from pieces."""
    rows = sql("SELECT digest, size, body FROM payloads")
    assert len(rows) == 2 * 2 * 9
    for digest, size, body in rows:
        assert (hashlib.sha256(body).hexdigest(), len(body)) == (digest, size)


def test_a_run_shows_its_facts_and_totals(sql):
    """The runs view sums up what its steps say."""
    (row,) = sql(
        "SELECT agent, status, version_agent, version_code, versions['package:openai'], step_count, model_call_count, "
        "cost_usd, input_tokens, loss_count, service FROM runs ORDER BY run_id LIMIT 1"
    )
    assert row == ("clerk", "ok", "1.2", "abc", "2.1", 8, 2, 0.5, 20, 2, "airline")


def test_steps_of_each_kind_show_what_was_asked_and_answered(sql):
    """Tools, effects, retrievals, decisions, approvals, checkpoints, reads and losses carry their values."""
    one = "WHERE run_id = (SELECT min(run_id) FROM runs)"
    assert sql(f"SELECT name, arguments, result FROM tool_calls {one} AND name = 'look'") == [
        ("look", '{"args":[],"kwargs":{"order":7}}', '{"price":12}')
    ]
    assert sql(f"SELECT kind, name, idempotency_key FROM effects {one}") == [("tool", "refund", "k-7")]
    assert sql(f"SELECT documents FROM retrievals {one}") == [('["retrieval"]',)]
    assert sql(f"SELECT choice FROM decisions {one}") == [('["decision"]',)]
    assert sql(f"SELECT answer FROM approvals {one}") == [('["approval"]',)]
    assert sql(f"SELECT state, resumable, unsafe_reasons FROM checkpoints {one}") == [('{"at":3}', True, ["none"])]
    assert sql(f"SELECT name, number, step FROM clock_reads {one}") == [("time.time", 1795000000.5, 2)]
    assert str(1 << 100) in sql(f"SELECT nested FROM random_draws {one}")[0][0]
    assert sql(f"SELECT reason, what, count FROM losses {one}") == [("truncated", "result", 2)]


def test_the_hour_of_a_run_is_a_column(sql):
    """Conditions on date and hour name partitions."""
    assert sql("SELECT DISTINCT date::VARCHAR, hour FROM steps") == [("2026-11-18", 11)]


def test_a_trace_without_a_run_has_rows_of_its_own(tmp_path):
    """A plain service's spans and losses lie in the lake beside runs, with a null run id."""
    span = Span(b"t" * 16, b"s" * 8, "GET /", 1_795_000_000_000_000_000, attributes={"gen_ai.operation.name": "chat"})
    trace = RecordedRun(Run(b"", b"t" * 16, b"s" * 8, "", span.start_ns), (RecordedSpan(span),), {}.get)
    write_runs(tmp_path, [trace], segments=["two"], losses=[Loss(LossReason.TORN, "segment", time_ns=span.start_ns)])
    with connect(tmp_path) as connection:
        assert connection.execute("SELECT run_id, name, root FROM spans").fetchall() == [(None, "GET /", False)]
        assert connection.execute("SELECT operation FROM model_calls").fetchall() == [("chat",)]
        assert connection.execute("SELECT * FROM runs").fetchall() == []
        assert connection.execute("SELECT run_id, reason FROM losses").fetchall() == [(None, "torn")]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{outside}')",
        "COPY (SELECT 1) TO '{outside}'",
        "ATTACH '{outside}'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
    ],
)
def test_sql_reaches_nothing_but_the_lake(statement, sql, tmp_path):
    """Files elsewhere, extensions and the setting itself are refused."""
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    with pytest.raises(duckdb.Error):
        sql(statement.format(outside=outside))
    assert outside.read_text() == "secret"

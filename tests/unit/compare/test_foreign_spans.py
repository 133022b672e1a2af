"""Comparing runs that hold spans of other libraries only, or broken trees."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.diff import diff
from otel_agent_replay.compare import Removed, Verdict, compare
from otel_agent_replay.compare.tree import build_tree
from otel_agent_replay.model import RecordedRun, RecordedSpan, Run, RunStatus, Span
from otel_agent_replay.testing.builders import run
from tests.support.recordings import data_folder

DATA = data_folder()


def foreign_run(spans):
    facts = Run(b"\1" * 16, b"\2" * 16, spans[0].span_id, "agent", 0, 1, RunStatus.OK)
    return RecordedRun(facts, tuple(RecordedSpan(span) for span in spans), {}.get)


def span(number, parent=0, name="s", start=0, end=1):
    parent_id = parent.to_bytes(8, "big") if parent else b""
    return Span(b"\2" * 16, number.to_bytes(8, "big"), name, start, end, parent_id)


def otlp_run(path):
    document = json.loads(path.read_bytes())
    spans = [
        Span(
            b"\2" * 16,
            bytes.fromhex(item["spanId"]),
            item["name"],
            int(item["startTimeUnixNano"]),
            int(item["endTimeUnixNano"]),
            bytes.fromhex(item["parentSpanId"]),
        )
        for resource in document["resourceSpans"]
        for scope in resource["scopeSpans"]
        for item in scope["spans"]
    ]
    return foreign_run(spans)


@pytest.mark.real
@pytest.mark.skipif(DATA is None, reason="no recordings here: set OTEL_AGENT_REPLAY_DATA")
def test_a_missing_parallel_tool_span_is_the_only_difference():
    """Case S24: one lost span is one Removed; later siblings still match, ids and times are no difference."""
    folder = DATA / "cases" / "S24-compare-missing-parallel-tool-span"
    comparison = compare(otlp_run(folder / "left.otlp.json"), otlp_run(folder / "right.otlp.json"))
    (change,) = comparison.changes
    assert isinstance(change, Removed)
    assert change.a.name == "execute_tool weather"
    named = [pair for pair in comparison.alignment.pairs if pair.a != 0]
    assert len(named) == 5


def test_spans_that_share_an_id_are_compared_and_said_to():
    """Two different spans with one id are two steps, and a notice before any claim says that they share it."""
    clean = [span(1, name="root"), span(2, 1, "tool A", 1, 2)]
    shared = [*clean, span(2, 1, "tool B", 3, 4)]
    comparison = compare(foreign_run(clean), foreign_run(shared))
    (notice,) = [item for item in comparison.notices if item.code == "shared_ids"]
    assert (notice.run, notice.text.split(":")[0]) == ("B", "2 spans share their id with another")
    assert [change.b.name for change in comparison.changes] == ["tool B"]
    assert not [item for item in compare(foreign_run(clean), foreign_run(clean)).notices if item.code == "shared_ids"]


@pytest.mark.real
@pytest.mark.skipif(DATA is None, reason="no recordings here: set OTEL_AGENT_REPLAY_DATA")
def test_a_file_with_conflicting_spans_is_compared_with_a_notice(tmp_path):
    """Case S16 through `diff`: its two spans of one id are two steps, and both sides are said to hold such spans."""
    file = str(DATA / "cases" / "S16-trace-duplicate-span-ids" / "input.otlp.jsonl")
    told = CliRunner().invoke(diff, ["--lake", str(tmp_path), file, file, "--json"])
    document = json.loads(told.stdout)
    assert ("shared_ids", "A and B") in {(item["code"], item["run"]) for item in document["notices"]}
    assert sum(node["a"]["span_id"] == "d000000000000003" for node in document["nodes"]) == 2


def test_orphans_and_circles_are_hung_on_the_run():
    """A span whose parent is missing, or that is its own ancestor, is kept and counted."""
    spans = [span(1, name="root"), span(2, 1), span(3, 9, "orphan"), span(4, 5, "x"), span(5, 4, "y")]
    tree = build_tree(foreign_run(spans))
    assert len(tree.nodes) == 6
    assert tree.orphans == 1
    assert tree.cycles == 1
    assert compare(foreign_run(spans), foreign_run(spans)).verdict is Verdict.IDENTICAL


def test_duplicate_span_ids_do_not_hide_a_span():
    """Two spans under one id are two nodes."""
    tree = build_tree(foreign_run([span(1, name="root"), span(2, 1, "a"), span(2, 1, "b"), span(3, 2, "c")]))
    assert len(tree.nodes) == 5


def test_a_foreign_span_between_ours_changes_no_parent():
    """Instrumentation that is there in one run only is one added leaf, not another tree."""
    a = run(seed=1).tool("x", {}, 1).build()
    b = run(seed=2).foreign("wrapper").tool("x", {}, 1).build()
    wrapper = next(item.span.span_id for item in b.spans if item.node is None)
    inside = [
        replace(item, span=replace(item.span, parent_span_id=wrapper)) if item.node and item.node.name == "x" else item
        for item in b.spans
    ]
    comparison = compare(a, replace(b, spans=tuple(inside)))
    assert [type(change).__name__ for change in comparison.changes] == ["Added"]


def test_ids_inside_span_names_are_no_difference():
    """A name that holds an id is the same name."""
    a = run(seed=1).foreign("GET /orders/12345678").build()
    b = run(seed=2).foreign("GET /orders/87654321").build()
    comparison = compare(a, b)
    assert comparison.verdict is Verdict.IDENTICAL
    assert comparison.volatile == {"ids in names": 1}


def test_a_deep_chain_and_a_wide_list_do_not_recurse():
    """Depth is no limit."""
    deep = [span(1, name="root")] + [span(number, number - 1, f"n{chr(97 + number % 26)}") for number in range(2, 5000)]
    assert compare(foreign_run(deep), foreign_run(deep)).verdict is Verdict.IDENTICAL
    assert len(compare(foreign_run(deep), foreign_run(deep[:-1])).changes) == 1

"""Spans landing in a lake: late, twice, from several services and files, damaged, many, while others work on it."""

from __future__ import annotations

import json
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.compare import compare
from otel_agent_replay.compare.tree import build_tree
from otel_agent_replay.errors import MaintenanceError
from otel_agent_replay.imports.landing import land
from otel_agent_replay.lake import completion
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.maintenance import maintenance_lock
from otel_agent_replay.lake.views import connect
from otel_agent_replay.model import InstrumentationScope, LossReason, Resource, Span
from otel_agent_replay.payload.redaction import Redaction
from tests.support.canaries import found_in_folder
from tests.support.recordings import data_folder

BEGUN = 1_764_400_000_000_000_000
MS = 1_000_000


def span(number: int, parent: int = 0, trace: int = 9, service: str = "shop", at: int | None = None, **attributes):
    start = BEGUN + (number if at is None else at) * MS
    return Span(
        bytes([trace]) * 16,
        number.to_bytes(8, "big"),
        f"s{number}",
        start,
        BEGUN + 10**12 - number * MS,
        parent.to_bytes(8, "big") if parent else b"",
        attributes=attributes,
        resource=Resource({"service.name": service}),
        scope=InstrumentationScope("test"),
    )


def asked(number: int, parent: int, text: str, tokens: int, **more) -> Span:
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])
    said = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages, "gen_ai.usage.input_tokens": tokens}
    return span(number, parent, **{**said, "gen_ai.request.model": "m"}, **more)


def called(number: int, parent: int, tool: str, arguments: str = "{}", **more) -> Span:
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.arguments": arguments}
    return span(number, parent, **said, **more)


def sql(lake: Path, query: str) -> list[tuple]:
    with connect(lake) as database:
        return database.sql(query).fetchall()


def files_of(lake: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in lake.rglob("*") if path.is_file()}


def test_late_spans_complete_their_run(tmp_path):
    """A trace in two parts, its root in the second, is one run with one id; other runs of the file stay the same."""
    others = [span(1, trace=trace) for trace in range(20, 25)]
    first = land(tmp_path, [*others, asked(3, 2, "hi", 5), span(4, 2)], source="a")
    assert {str(one.code) for one in first.anomalies} == {"orphan_parent"}
    before = {one.run.run_id: one for one in Lake(tmp_path).runs()}
    second = land(tmp_path, [span(1), called(2, 1, "search"), asked(5, 1, "ho", 7)], source="b")
    assert (second.new_runs, second.completed_runs, second.anomalies) == (0, 1, [])
    run_id = second.traces[0].run_id
    assert run_id in before
    runs = Lake(tmp_path).runs()
    assert len(runs) == 6
    assert all(before[one.run.run_id] == one for one in runs if one.run.run_id != run_id)
    whole = Lake(tmp_path).load(run_id)
    assert [item.span.span_id[-1] for item in whole.spans] == [1, 2, 3, 4, 5]
    assert not whole.losses
    assert sql(
        tmp_path, f"SELECT input_tokens, step_count, span_count, loss_count FROM runs WHERE run_id = '{run_id.hex()}'"
    ) == [(12, 3, 5, 0)]
    assert sql(tmp_path, "SELECT step, text FROM messages ORDER BY step") == [(2, "hi"), (3, "ho")]
    assert sql(tmp_path, "SELECT count(*) FROM losses") == [(0,)]


def test_what_landed_before_changes_nothing(tmp_path):
    """The same spans again, one by one or together, touch no file."""
    spans = [span(1), asked(2, 1, "hi", 5), called(3, 1, "search")]
    land(tmp_path, spans, source="a")
    before = files_of(tmp_path)
    for again in (spans, spans[1:2], spans[::-1], spans[:1]):
        landed = land(tmp_path, again, source="elsewhere")
        assert (landed.new_runs, landed.completed_runs, landed.unchanged_runs) == (0, 0, 1)
    assert files_of(tmp_path) == before


def test_a_completion_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    """When the disk is full in the middle, the run is as it was; tried again, it is complete."""
    land(tmp_path, [span(1), asked(2, 1, "hi", 5)], source="a")
    run_id = Lake(tmp_path).runs()[0].run.run_id
    real = completion.write_merged

    def full(*arguments):
        real(*arguments)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(completion, "write_merged", full)
    with pytest.raises(OSError, match="No space"):
        land(tmp_path, [span(3, 1)], source="a")
    assert len(Lake(tmp_path).load(run_id).spans) == 2
    assert sql(tmp_path, "SELECT count(*) FROM spans") == [(2,)]
    monkeypatch.undo()
    assert land(tmp_path, [span(3, 1)], source="a").completed_runs == 1
    assert len(Lake(tmp_path).load(run_id).spans) == 3


@pytest.mark.parametrize("published", range(3))
def test_a_process_killed_in_a_completion_leaves_old_or_new(tmp_path, monkeypatch, published):
    """Killed while files are put in place, the run is as it was; the next landing completes it and doubles nothing."""
    from otel_agent_replay.lake import switch

    land(tmp_path, [span(1), asked(2, 1, "hi", 5), span(1, trace=20)], source="a")
    real, left = switch.publish, [published]

    def killed(*arguments):
        if not left[0]:
            raise KeyboardInterrupt  # nothing that the code catches, as a kill is not
        left[0] -= 1
        real(*arguments)

    monkeypatch.setattr(switch, "publish", killed)
    with pytest.raises(KeyboardInterrupt):
        land(tmp_path, [asked(3, 1, "ho", 1), span(9, 8)], source="a")
    monkeypatch.undo()
    assert sql(tmp_path, "SELECT count(*), count(DISTINCT run_id) FROM spans") in ([(3, 2)], [(5, 2)])
    land(tmp_path, [asked(3, 1, "ho", 1), span(9, 8)], source="a")
    assert sql(tmp_path, "SELECT count(*), count(DISTINCT run_id) FROM spans") == [(5, 2)]
    assert sql(tmp_path, "SELECT what, span_id FROM losses") == [("orphan_parent", "0000000000000009")]
    assert sql(tmp_path, "SELECT text FROM messages ORDER BY step") == [("hi",), ("ho",)]


def test_a_reader_from_before_still_reads(tmp_path):
    """A run that was opened before its completion gives the payloads it had; a connection sees the new run at once."""
    land(tmp_path, [span(1), asked(2, 1, "hi", 5)], source="a")
    opened = Lake(tmp_path).load(Lake(tmp_path).runs()[0].run.run_id)
    with connect(tmp_path) as database:
        assert database.sql("SELECT count(*) FROM spans").fetchall() == [(2,)]
        land(tmp_path, [asked(3, 1, "ho", 1)], source="a")
        assert database.sql("SELECT count(*) FROM spans").fetchall() == [(3,)]
        assert database.sql("SELECT text FROM messages ORDER BY step").fetchall() == [("hi",), ("ho",)]
    node = opened.nodes[1]
    assert b"hi" in (opened.payload(node.call.request.digest) or b"")


def test_completions_and_compaction_do_not_undo_each_other(tmp_path):
    """Runs completed before and after a compaction are whole, and there once."""
    for number in range(2, 6):
        land(tmp_path, [span(1), span(number, 1), span(1, trace=number + 30)], source="a")
    compact(tmp_path, grace_s=0)
    land(tmp_path, [span(6, 1), span(2, 1, trace=33)], source="a")
    compact(tmp_path, grace_s=0)
    land(tmp_path, [span(7, 1)], source="a")
    counts = dict(sql(tmp_path, "SELECT trace_id, count(*) FROM spans GROUP BY ALL"))
    assert counts.pop("09" * 16) == 7
    assert sorted(counts.values()) == [1, 1, 1, 2]
    assert len(Lake(tmp_path).runs()) == 5


def test_a_lake_that_is_worked_on_is_waited_for_and_then_told(tmp_path, monkeypatch):
    """While another compacts, a completion waits; when that does not end, it says so and loses nothing."""
    land(tmp_path, [span(1)], source="a")
    recorded = Lake(tmp_path).stored_attempts(Lake(tmp_path).runs()[0].run.run_id)
    with maintenance_lock(tmp_path), pytest.raises(MaintenanceError):
        completion.replace_runs(tmp_path, recorded, wait_s=0.01)
    assert len(Lake(tmp_path).runs()) == 1


def test_a_trace_over_several_services_and_files_is_one_run(tmp_path):
    """Spans of two services in two files, given together, are one run, each span with its own service."""
    from otel_agent_replay.export.otlp_files import write_spans

    write_spans([span(1), called(2, 1, "search")], tmp_path / "shop.json")
    write_spans([span(3, 2, service="index"), span(4, 3, service="index")], tmp_path / "index.binpb.gz")
    done = CliRunner().invoke(
        main,
        [
            "import",
            "--lake",
            str(tmp_path / "lake"),
            "--json",
            str(tmp_path / "index.binpb.gz"),
            str(tmp_path / "shop.json"),
        ],
    )
    said = json.loads(done.stdout)
    assert done.exit_code == 0
    assert [(one["span_count"], one["orphans"]) for one in said["traces"]] == [(4, [])]
    assert sql(tmp_path / "lake", "SELECT service, count(*) FROM spans GROUP BY ALL ORDER BY ALL") == [
        ("index", 2),
        ("shop", 2),
    ]


def test_a_cut_trace_id_finds_its_trace(tmp_path):
    """A span with the lower half of a trace id joins the one trace that ends so, keeps its id, and is named."""
    trace = bytes(range(1, 17))
    whole = Span(trace, b"\x01" * 8, "root", BEGUN, BEGUN + 9)
    cut = Span(trace[8:], b"\x02" * 8, "child", BEGUN, BEGUN + 1, b"\x01" * 8)
    alone = Span(b"\xee" * 8, b"\x03" * 8, "alone", BEGUN, BEGUN + 1)
    landed = land(tmp_path, [whole, cut, alone], source="a")
    assert {(str(one.code), one.span_id) for one in landed.anomalies} == {
        ("cut_id", b"\x02" * 8),
        ("cut_id", b"\x03" * 8),
    }
    run = next(one for one in Lake(tmp_path).runs() if one.run.trace_id == trace).run
    assert {item.span.trace_id for item in Lake(tmp_path).load(run.run_id).spans} == {trace, trace[8:]}
    assert len(Lake(tmp_path).runs()) == 2


def test_a_run_whose_root_has_the_cut_trace_id_is_found_when_it_lands_again(tmp_path):
    """The same again changes nothing, and no span is there twice, whichever span of the trace bears the shorter id."""
    spans = [replace(span(1), trace_id=bytes([9]) * 8), span(2, 1), span(3, 2)]
    assert land(tmp_path, spans, source="a").new_runs == 1
    again = land(tmp_path, spans, source="a")
    assert (again.new_runs, again.completed_runs, again.unchanged_runs) == (0, 0, 1)
    assert sql(tmp_path, "SELECT count(*) FROM spans") == [(3,)]


def test_a_cut_trace_id_that_fits_two_traces_stays_alone(tmp_path):
    """Which of them it is nobody can tell. The beginning of an id counts as its end does, both of one id only once."""
    first, second, twice = b"\x0a" * 8 + b"\x0b" * 8, b"\x0c" * 8 + b"\x0b" * 8, b"\x0d" * 16
    whole = [Span(trace, b"\x01" * 8, "root", BEGUN, BEGUN + 9) for trace in (first, second, twice)]
    cut = [
        Span(trace, bytes([number]) * 8, "child", BEGUN, BEGUN + 1, b"\x01" * 8)
        for number, trace in enumerate((first[8:], first[:8], twice[:4]), start=2)
    ]
    landed = land(tmp_path, [*whole, *cut], source="a")
    taken_for = {one.span_id[0]: one.trace_id for one in landed.anomalies if one.code.value == "cut_id"}
    assert taken_for == {2: first[8:], 3: first, 4: twice}


def test_circles_and_a_chain_of_many_spans_end_and_lose_nothing(tmp_path):
    """Circles of parents and a chain of thousands of spans are stored, shown and named, without a hang."""
    ring = [span(number, number % 1000 + 1, trace=1) for number in range(1, 1001)]
    pairs = [span(number, number + 1 if number % 2 else number - 1, trace=2) for number in range(1, 1001)]
    chain = [span(number, number - 1, trace=3, **{"gen_ai.operation.name": "chat"}) for number in range(1, 1501)]
    itself = [span(1, 1, trace=4)]
    landed = land(tmp_path, [*ring, *pairs, *chain, *itself], source="a")
    assert landed.span_count == 3_501
    codes = [(str(one.code), one.trace_id[0]) for one in landed.anomalies]
    assert codes.count(("cycle", 1)) == 1
    assert codes.count(("cycle", 2)) == 500
    assert codes.count(("cycle", 4)) == 1
    assert codes.count(("deep_nesting", 3)) == 1
    for trace in landed.traces:
        recorded = Lake(tmp_path).load(trace.run_id)
        assert sum(one.recorded is not None for one in build_tree(recorded).nodes) == trace.span_count
        shown = CliRunner().invoke(main, ["show", "--lake", str(tmp_path), trace.run_id.hex()])
        assert shown.exit_code == 0
        assert shown.stdout.count("\n") <= 510


def test_cut_json_is_kept_as_text_and_named(tmp_path):
    """A message attribute that was cut in the middle is stored as it came; what only looks like JSON is fine."""
    cut = span(
        2, 1, **{"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "te'}
    )
    fine = span(3, 1, note='{name} says "hi', template='{"a": 1}')
    landed = land(tmp_path, [span(1), cut, fine], source="a")
    assert [(str(one.code), one.span_id[-1]) for one in landed.anomalies] == [("cut_json", 2)]
    (stored,) = (one.span for one in Lake(tmp_path).load(landed.traces[0].run_id).spans if one.span.span_id[-1] == 2)
    assert stored.attributes["gen_ai.input.messages"] == cut.attributes["gen_ai.input.messages"]


def test_a_span_that_cannot_be_understood_is_kept(tmp_path, monkeypatch):
    """A defect in reading what one span says leaves it a plain span, told as a loss; its neighbours are steps."""
    from otel_agent_replay.imports import foreign_nodes

    real = foreign_nodes.facts_of

    def broken(one):
        if one.span_id[-1] == 2:
            raise KeyError("oh")
        return real(one)

    monkeypatch.setattr(foreign_nodes, "facts_of", broken)
    landed = land(tmp_path, [span(1), called(2, 1, "a"), called(3, 1, "b")], source="a")
    recorded = Lake(tmp_path).load(landed.traces[0].run_id)
    assert [item.node is None for item in recorded.spans] == [False, True, False]
    assert [(loss.reason, loss.span_id[-1]) for loss in recorded.losses] == [(LossReason.INTERNAL, 2)]


def test_no_secret_of_an_imported_span_reaches_the_lake(tmp_path):
    """Keys in attributes, events, links, resource and scope are masked before anything is written, and that is told."""
    from otel_agent_replay.model import SpanEvent, SpanLink

    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    dirty = Span(
        b"\x09" * 16, b"\x01" * 8, f"call with {secret}", BEGUN, BEGUN + 5,
        attributes={"authorization": f"Bearer {secret}", "gen_ai.operation.name": "chat", "raw": secret.encode(),
                    "gen_ai.input.messages": json.dumps([{"role": "user", "content": secret}])},
        events=[SpanEvent(BEGUN, "e", {"x": [secret]})], links=[SpanLink(b"\x01" * 16, b"\x01" * 8, "", {"y": secret})],
        resource=Resource({"service.name": "s", "api_key": secret}),
        scope=InstrumentationScope("t", "1", {"z": secret}),
    )  # fmt: skip
    landed = land(tmp_path, [dirty], source="a", redaction=Redaction.default())
    assert not found_in_folder(tmp_path, {"key": secret})
    recorded = Lake(tmp_path).load(landed.traces[0].run_id)
    assert [loss.reason for loss in recorded.losses] == [LossReason.REDACTED]


def test_imported_runs_are_compared_and_queried_and_not_run_again(tmp_path):
    """`runs`, `diff` and `sql` work on imported runs; `replay`, `fork` and `resume` say why they do not."""
    a = land(
        tmp_path,
        [span(1, trace=1), asked(2, 1, "hi", 5, trace=1), called(3, 1, "refund", '{"id": 1}', trace=1)],
        source="a",
    )
    b = land(
        tmp_path,
        [span(1, trace=2), asked(2, 1, "hi", 5, trace=2), called(3, 1, "refund", '{"id": 2}', trace=2)],
        source="b",
    )
    first, second = a.traces[0].run_id, b.traces[0].run_id
    found = compare(Lake(tmp_path).load(first), Lake(tmp_path).load(second))
    assert found.departure is not None
    run = ["--lake", str(tmp_path), first.hex()]
    diff = CliRunner().invoke(main, ["diff", *run, second.hex(), "--json"])
    assert diff.exit_code == 1
    listed = json.loads(CliRunner().invoke(main, ["runs", "--lake", str(tmp_path), "--json"]).stdout)["runs"]
    assert {one["mode"] for one in listed} == {"import"}
    told = CliRunner().invoke(main, ["show", *run]).stdout
    assert "imported" in told
    assert "not to run again" in told
    for command in (
        ["replay", *run, "--", "true"],
        ["resume", *run, "--", "true"],
        ["fork", *run, "--at", "1", "--", "true"],
    ):
        refused = CliRunner().invoke(main, command)
        assert refused.exit_code == 125
        assert "imported" in refused.output


@pytest.mark.real
def test_every_otlp_file_goes_through_the_lake_unchanged(tmp_path):
    """Each OTLP file of other projects comes out of the lake with the spans it has, copies once."""
    from otel_agent_replay.errors import DamagedRecording
    from otel_agent_replay.export.sent_runs import runs_to_send, spans_to_send
    from otel_agent_replay.imports.files import read_spans
    from otel_agent_replay.imports.trace_structure import content_of

    folder = data_folder()
    if folder is None:
        pytest.skip("no recordings of other projects on this machine")
    passed = 0
    for path in sorted(path for path in folder.rglob("*") if path.suffix in {".json", ".jsonl", ".pb"}):
        if path.suffix != ".pb" and b"esourceSpans" not in path.read_bytes()[:4096]:
            continue
        try:
            spans = read_spans(path, "otlp" if path.suffix == ".pb" else "otlp-json").spans
        except DamagedRecording:
            continue  # logs, metrics, and files that are no JSON on purpose
        lake = tmp_path / str(passed)
        land(lake, spans, source=path.name)
        stored = Lake(lake)
        out = spans_to_send(stored, runs_to_send(stored, [one.run.run_id for one in stored.runs()]))
        assert set(map(content_of, out)) == set(map(content_of, spans)) - _overtaken(spans), path
        passed += 1
    assert passed >= 20


def _overtaken(spans: list[Span]) -> set[bytes]:
    """Unfinished copies of spans that came finished too."""
    from otel_agent_replay.imports.trace_structure import content_of

    ended = {(one.span_id, one.start_ns) for one in spans if one.end_ns}
    return {content_of(one) for one in spans if not one.end_ns and (one.span_id, one.start_ns) in ended}


@pytest.mark.real
@pytest.mark.soak
def test_a_hundred_thousand_spans_land_within_their_limits(tmp_path):
    """The case of 100,000 spans in one trace: all there, its tree bounded on the screen, within a minute."""
    folder = data_folder()
    if folder is None:
        pytest.skip("no recordings of other projects on this machine")
    (case,) = folder.glob("cases/S21-*")
    wanted = json.loads((case / "expected.json").read_bytes())
    began = time.process_time()
    tracemalloc.stop()
    done = CliRunner().invoke(main, ["import", "--lake", str(tmp_path), "--json", str(case / wanted["inputs"][0])])
    said = json.loads(done.stdout)
    assert said["span_count"] == wanted["span_count"]
    (trace,) = said["traces"]
    assert trace["roots"] == wanted["traces"][0]["roots"]
    assert trace["max_depth"] == wanted["traces"][0]["max_depth"]
    assert sql(tmp_path, "SELECT count(*) FROM spans") == [(wanted["span_count"],)]
    shown = CliRunner().invoke(main, ["show", "--lake", str(tmp_path), trace["run"]])
    assert shown.stdout.count("\n") <= 510
    assert time.process_time() - began < wanted["limits"]["seconds_on_2_cores"]

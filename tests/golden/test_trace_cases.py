"""The frozen cases of `trace_cases/`: damaged traces become whole runs, with what is wrong named."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.compare.tree import build_tree
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.views import connect

CASES = Path(__file__).parent / "trace_cases"
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())


class Imported:
    """A case in a lake of its own, and what the import said."""

    def __init__(self, name: str, lake: Path) -> None:
        self.wanted = json.loads((CASES / name / "expected.json").read_bytes())
        self.lake = lake
        files = [str(CASES / name / file) for file in self.wanted["inputs"]]
        self.result = CliRunner().invoke(main, ["import", "--lake", str(lake), "--json", *files])
        self.said = json.loads(self.result.stdout)

    def spans(self, trace_id: str) -> dict[str, list]:
        """Return the spans of a trace out of the lake, by id."""
        found: dict[str, list] = {}
        run = next(one["run"] for one in self.said["traces"] if one["trace_id"] == trace_id)
        for recorded in Lake(self.lake).load(bytes.fromhex(run)).spans:
            found.setdefault(recorded.span.span_id.hex(), []).append(recorded.span)
        return found


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    made: dict[str, Imported] = {}

    def of(name: str) -> Imported:
        if name not in made:
            made[name] = Imported(name, tmp_path_factory.mktemp("case") / "lake")
        return made[name]

    return of


@pytest.mark.parametrize("name", NAMES)
def test_every_span_and_every_anomaly_is_told(imported, name):
    """`import --json` names the spans, traces, roots, orphans and anomalies of the case, and no other anomaly."""
    case = imported(name)
    assert case.result.exit_code in (0, 1), case.result.output
    wanted = case.wanted
    if "span_count" in wanted:
        assert case.said["span_count"] == wanted["span_count"]
    assert case.said["span_count"] >= wanted.get("span_count_after_dedup_min", 0)
    traces = {one["trace_id"]: one for one in case.said["traces"]}
    assert sorted(traces) == sorted(one["trace_id"] for one in wanted["traces"])
    for one in wanted["traces"]:
        for key in ("span_count", "roots", "orphans"):
            if key in one:
                assert traces[one["trace_id"]][key] == one[key]
    told = Counter((one["code"], one["span_id"]) for one in case.said["anomalies"])
    named = Counter((one["code"], one.get("span_id")) for one in wanted["anomalies"])
    assert Counter(code for code, _ in told.elements()) == Counter(code for code, _ in named.elements())
    assert all(key in told for key in named if key[1] is not None)


@pytest.mark.parametrize("name", NAMES)
def test_the_lake_holds_what_the_case_says(imported, name):
    """Parents, durations, integers and merged spans are in the lake as they came, in trees and in SQL too."""
    case = imported(name)
    for one in case.wanted["traces"]:
        spans = case.spans(one["trace_id"])
        for child, parent in one.get("parents", {}).items():
            assert [span.parent_span_id.hex() for span in spans[child]] == [parent]
        for span_id, nanoseconds in one.get("durations_ns", {}).items():
            assert [span.end_ns - span.start_ns for span in spans[span_id]] == [nanoseconds]
        run = next(found["run"] for found in case.said["traces"] if found["trace_id"] == one["trace_id"])
        tree = build_tree(Lake(case.lake).load(bytes.fromhex(run)))
        assert len(tree.nodes) == sum(map(len, spans.values()))
    for span_id, values in case.wanted.get("int_values", {}).items():
        (span,) = case.spans(case.wanted["traces"][0]["trace_id"])[span_id]
        assert {name: span.attributes[name] for name in values} == values
    for span_id, facts in case.wanted.get("merged", {}).items():
        (span,) = case.spans(case.wanted["traces"][0]["trace_id"])[span_id]
        assert bool(span.end_ns) is facts["ended"]
        assert span.attributes["gen_ai.usage.output_tokens"] == facts["output_tokens"]
    with connect(case.lake) as database:
        ((count,),) = database.sql("SELECT count(*) FROM spans").fetchall()
    assert count == case.said["span_count"]


@pytest.mark.parametrize("name", NAMES)
def test_importing_again_changes_no_file(imported, name):
    """The same input a second time doubles nothing and touches no file."""
    case = imported(name)
    before = {path: path.stat().st_mtime_ns for path in case.lake.rglob("*") if path.is_file()}
    files = [str(CASES / name / file) for file in case.wanted["inputs"]]
    again = CliRunner().invoke(main, ["import", "--lake", str(case.lake), "--json", *files])
    assert json.loads(again.stdout) == case.said
    assert {path: path.stat().st_mtime_ns for path in case.lake.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", NAMES)
def test_what_is_odd_is_kept_with_the_run(imported, name):
    """Every anomaly but a mere copy is a row of `losses` and a line of `show --coverage`."""
    case = imported(name)
    of_traces = [one for one in case.said["anomalies"] if one["code"] != "duplicate_span"]
    with connect(case.lake) as database:
        kept = Counter(database.sql("SELECT what FROM losses WHERE reason = 'damaged'").fetchall())
    known = {one["trace_id"] for one in case.said["traces"]}
    assert kept == Counter((one["code"],) for one in of_traces if one["trace_id"] in known)
    for one in case.said["traces"]:
        shown = CliRunner().invoke(main, ["show", "--coverage", "--lake", str(case.lake), one["run"]]).stdout
        assert all(odd["code"] in shown for odd in of_traces if odd["trace_id"] == one["trace_id"])


def test_the_order_of_lines_does_not_matter(tmp_path, imported):
    """The lines of a file in any order give the same run."""
    (name,) = [name for name in NAMES if name.startswith("S16")]
    lines = (CASES / name / "input.otlp.jsonl").read_text().splitlines()
    (tmp_path / "a.jsonl").write_text("\n".join(reversed(lines)))
    said = (
        CliRunner()
        .invoke(main, ["import", "--lake", str(tmp_path / "lake"), "--json", str(tmp_path / "a.jsonl")])
        .stdout
    )
    case = imported(name)
    assert json.loads(said) == case.said
    run = case.said["traces"][0]["run"]
    ours, theirs = (Lake(lake).load(bytes.fromhex(run)).spans for lake in (tmp_path / "lake", case.lake))
    without_source = [[(one.span.span_id, one.span.name, one.span.end_ns) for one in spans] for spans in (ours, theirs)]
    assert without_source[0] == without_source[1]


def test_self_time_is_what_no_child_was_under_way_in(imported):
    """Five children at once take their union off their parent, never more than there is."""
    (name,) = [name for name in NAMES if name.startswith("S22")]
    case = imported(name)
    shown = CliRunner().invoke(main, ["show", "--lake", str(case.lake), "--json", case.said["traces"][0]["run"]])
    own = {span["span_id"]: span["self_ns"] for span in json.loads(shown.stdout)["spans"]}
    wanted = case.wanted["traces"][0]["self_time_ns"]
    assert {span_id: own[span_id] for span_id in wanted} == wanted
    assert min(own.values()) >= 0


def test_half_a_character_goes_out_as_it_came_in(imported, tmp_path):
    """The text with a lone surrogate comes back exactly in JSON and as an escape in protobuf; the rocket is whole."""
    (name,) = [name for name in NAMES if name.startswith("S14")]
    case = imported(name)
    runs = [one["run"] for one in case.said["traces"]]
    for target in ("out.json", "out.binpb"):
        done = CliRunner().invoke(main, ["export", "--lake", str(case.lake), "--otlp", str(tmp_path / target), *runs])
        assert done.exit_code == 0, done.output
        assert b"\\ud83d\\ude80" in (tmp_path / "out.json").read_bytes()
    texts = json.dumps(json.loads((CASES / name / "input.otlp.json").read_bytes()))
    assert sum(texts.count(half) for half in ("\\ud83d", "\\ude80")) == sum(
        (tmp_path / "out.json").read_text().count(half) for half in ("\\ud83d", "\\ude80")
    )

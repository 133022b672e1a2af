"""`agent-replay compare`: two runs, two conditions over a lake, the lanes of a cohort, many runs of one case."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources

import pytest
from click.testing import CliRunner

from otel_agent_replay import semconv
from otel_agent_replay.casefile.schema_check import problems
from otel_agent_replay.cli.case_pairs import pair_conditions
from otel_agent_replay.cli.comparing import Sources, compare_planned
from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import Payload, RecordedSpan, SideEffect
from otel_agent_replay.payload import codec
from otel_agent_replay.replay.cohort import CohortRun, write_cohort
from tests.support.lake_runs import RunMaker, answer


def made(number, *, version="1.2", asked="order 1", says="I look", pays=False, arguments=None, **marks):
    """A run that answers `asked`: a model call, a look, and in some versions a payment."""
    maker = RunMaker(number)
    maker.model([{"role": "user", "content": asked}], answer(says))
    maker.tool("look", arguments or {"order": asked}, "found")
    if pays:
        maker.tool("pay", {"order": asked}, "paid", side_effect=SideEffect.WRITE)
    recorded = maker.run()
    root, *rest = recorded.spans
    body = codec.encode(asked).data
    request = Payload.of(body, "application/vnd.agent-replay.value+json")
    maker.bodies[request.digest] = body
    node = replace(root.node, call=replace(root.node.call, request=request.without_data()))
    attributes = {**root.span.attributes, semconv.VERSION_AGENT: version, **marks.pop("attributes", {})}
    root = RecordedSpan(replace(root.span, attributes=attributes), node)
    versions = replace(recorded.run.versions, agent=version)
    return replace(recorded, run=replace(recorded.run, versions=versions, **marks), spans=(root, *rest))


def lake_with(folder, runs):
    write_runs(folder, runs, segments=["one"])
    return folder


def compare(lake, *arguments):
    return CliRunner().invoke(main, ["compare", "--lake", str(lake), *arguments])


VERSIONS = ("--a", "version_agent = '1.2'", "--b", "version_agent = '1.3'")


def two_versions(folder, count=30, **changed):
    """Runs of two versions over the same inputs; `changed` says what the new one does otherwise."""
    old = [made(number, asked=f"order {number}") for number in range(count)]
    new = [made(1000 + number, version="1.3", asked=f"order {number}", **changed) for number in range(count)]
    return lake_with(folder, [*old, *new])


def test_versions_that_do_the_same_are_the_same(tmp_path):
    """Paired by their input and decided by digests alone, thirty pairs are no difference: exit code 0."""
    done = compare(two_versions(tmp_path), *VERSIONS, "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["verdict"]) == (0, "no difference beyond noise")
    assert document["pairs"] == {"verdicts": {"identical": 30}, "baseline_verdicts": {}, "causes": {}, "by_digest": 30}
    assert document["unpaired"] == {"a": 0, "b": 0, "baseline": 0}


def test_a_version_that_pays_is_different(tmp_path):
    """A new write in every case is beyond chance: named in the effects and the tool paths; exit code 1."""
    done = compare(two_versions(tmp_path, pays=True), *VERSIONS, "--json")
    document = json.loads(done.stdout)
    assert done.exit_code == document["exit_code"] == 1
    metrics = {metric["name"]: metric for metric in document["metrics"]}
    assert metrics["writes and external effects"]["judgement"] == "different"
    assert metrics["tool paths"]["judgement"] == "different"
    assert metrics["refused"]["judgement"] == "no difference seen"
    assert [(one["name"], one["a"], one["b"]) for one in document["effects"]] == [("write pay", 0, 30)]
    assert {one["name"] for one in document["tool_paths"]} == {"look", "look > pay"}


def test_changed_arguments_are_counted_by_tool(tmp_path):
    """The aligned diff of each pair says which tool's arguments changed, and the step and cause of the departure."""
    done = compare(two_versions(tmp_path, count=8, arguments={"order": "all"}), *VERSIONS, "--json")
    document = json.loads(done.stdout)
    assert document["arguments"] == [{"tool": "look", "calls": 8, "changed": 8, "baseline_changed": 0}]
    pair = document["cases"][0]["pairs"][0]
    assert (pair["departure_step"], pair["argument_changes"]) == (2, {"look": 1})
    assert sum(document["pairs"]["causes"].values()) == 8


def test_three_pairs_that_differ_cannot_be_judged(tmp_path):
    """Too few cases are neither a pass nor a failure: exit code 125, and no metric pretends."""
    done = compare(two_versions(tmp_path, count=3, pays=True), *VERSIONS, "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["verdict"]) == (125, "not enough data")
    assert all(metric["judgement"] in ("not enough data", "described") for metric in document["metrics"])


def test_runs_without_a_counterpart_are_counted(tmp_path):
    """An input that only one side has is in no pair, and the report says how many there are."""
    runs = [
        made(1, asked="a"),
        made(2, asked="b"),
        made(3, version="1.3", asked="a"),
        made(4, version="1.3", asked="c"),
    ]
    done = compare(lake_with(tmp_path, runs), *VERSIONS, "--json")
    document = json.loads(done.stdout)
    assert document["unpaired"] == {"a": 1, "b": 1, "baseline": 0}
    assert len(document["cases"]) == 1


def test_pairs_are_made_by_a_column(tmp_path):
    """With --pair-by equal values make a case, whatever the input was."""
    runs = [made(1, asked="a", thread_id="t"), made(2, version="1.3", asked="b", thread_id="t")]
    done = compare(lake_with(tmp_path, runs), *VERSIONS, "--pair-by", "thread_id", "--json")
    assert [case["key"] for case in json.loads(done.stdout)["cases"]] == ["t"]


def replays(folder, cohort, *, pays, baseline_pays=False):
    """Re-runs of a cohort in both lanes, with the run they repeat."""
    runs = []
    for place, number in enumerate(cohort):
        origin = RunMaker(number).run_id
        for lane, offset, also in (("baseline", 2000, baseline_pays), ("candidate", 4000, pays)):
            facts = {"origin_run_id": origin, "replay": True, "mode": "regression"}
            marks = {"attributes": {semconv.RUN_LANE: lane}}
            runs.append(made(offset + place, asked=f"order {number}", pays=also, **facts, **marks))
    return lake_with(folder, runs)


@pytest.fixture
def cohort(tmp_path):
    """A lake of forty observed runs, and the cohort file that names them."""
    lake = lake_with(tmp_path / "lake", [made(number, asked=f"order {number}") for number in range(40)])
    path = tmp_path / "cohort.jsonl"
    runs = [CohortRun(RunMaker(number).run_id, {"weight": 2.0 if number else 1.0}) for number in range(40)]
    write_cohort(path, runs, drawn={"seed": "7", "population": 79})
    return lake, path


def test_a_candidate_is_held_against_the_baseline_lane(tmp_path, cohort):
    """Only the candidate pays: different, although neither lane is production. The file's first line is passed on."""
    lake, path = cohort
    again = replays(tmp_path / "again", range(40), pays=True)
    done = compare(lake, "--cohort", str(path), "--replays", str(again), "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["drawn"]) == (1, {"seed": "7", "population": 79})
    metrics = {metric["name"]: metric for metric in document["metrics"]}
    departed = metrics["departed"]
    assert (departed["judgement"], departed["baseline"], departed["b"]) == ("different", 0.0, 1.0)
    assert metrics["steps"]["against"] == "baseline"
    assert document["cases"][0]["weight"] in (1.0, 2.0)


def test_what_the_baseline_lane_does_too_is_noise(tmp_path, cohort):
    """Both lanes pay: that is what re-running does, and no difference of the candidate; exit code 0."""
    lake, path = cohort
    again = replays(tmp_path / "again", range(40), pays=True, baseline_pays=True)
    done = compare(lake, "--cohort", str(path), "--replays", str(again), "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["verdict"]) == (0, "no difference beyond noise")
    judged = {metric["name"]: metric["judgement"] for metric in document["metrics"]}
    assert judged["writes and external effects"] == "within noise"


def test_many_runs_of_one_case_are_a_matrix(tmp_path):
    """Ten runs beside ten of one input: the step that only B changes is systematic, one that both change is flaky."""
    old = [made(number, arguments={"try": number % 2}) for number in range(10)]
    new = [made(100 + number, version="1.3", says="I pay", arguments={"try": number % 2}) for number in range(10)]
    done = compare(lake_with(tmp_path, [*old, *new]), *VERSIONS, "--json")
    matrix = json.loads(done.stdout)["matrix"]
    assert [(row["title"], row["steadiness"]) for row in matrix["rows"]] == [
        ("model gpt-4o", "systematic"),
        ("tool look", "flaky"),
    ]
    assert (matrix["of_a"], len(matrix["columns"])) == (9, 19)
    shown = compare(tmp_path, *VERSIONS).stdout
    assert "changed in 10 of 10, A's own 0 of 9" in shown


def test_two_runs_are_compared_as_diff_does(tmp_path):
    """Two runs give the sentence and the exit code that `agent-replay diff` gives."""
    lake = lake_with(tmp_path, [made(1), made(2, says="I pay"), made(3)])
    first, second, third = (RunMaker(number).run_id.hex() for number in (1, 2, 3))
    diff = CliRunner().invoke(main, ["diff", "--lake", str(lake), first, second])
    done = compare(lake, first, second)
    assert (done.exit_code, done.stdout) == (1, diff.stdout)
    assert compare(lake, first, third).exit_code == 0


def test_the_document_is_as_its_schema_says(tmp_path):
    """What --json prints, with pairs, a baseline lane and a matrix, has exactly the fields of the schema."""
    lake = two_versions(tmp_path, count=4, pays=True)
    schema = json.loads(resources.files("otel_agent_replay.report").joinpath("cohort.schema.json").read_text())
    for arguments in (VERSIONS, (*VERSIONS, "--pair-by", "'one case'")):
        document = json.loads(compare(lake, *arguments, "--json").stdout)
        assert problems(document, schema) == []
    document["metrics"][0]["surprise"] = 1
    assert problems(document, schema) != []


def test_markdown_cannot_be_broken_out_of(tmp_path):
    """A tool's name with pipes, tags and mentions stays text in the comment."""
    evil = "x|<img src=x>@team"
    runs = []
    for number in range(8):
        for offset, version in ((0, "1.2"), (100, "1.3")):
            maker = RunMaker(number + offset)
            maker.tool(evil, {"order": number, "version": version}, "done", side_effect=SideEffect.WRITE)
            recorded = maker.run()
            versions = replace(recorded.run.versions, agent=version)
            root = recorded.spans[0]
            span = replace(root.span, attributes={**root.span.attributes, semconv.VERSION_AGENT: version})
            spans = (RecordedSpan(span, root.node), *recorded.spans[1:])
            runs.append(replace(recorded, run=replace(recorded.run, versions=versions), spans=spans))
    done = compare(lake_with(tmp_path, runs), *VERSIONS, "--pair-by", "ordinal % 100", "--format", "markdown")
    assert "<img" not in done.stdout
    assert "@team" not in done.stdout
    assert "cases differ" in done.stdout


def test_processes_change_no_result(tmp_path):
    """Two processes give the cases that one gives."""
    lake = two_versions(tmp_path, count=410, pays=True)
    planned = pair_conditions(lake, VERSIONS[1], VERSIONS[3])
    counted = []
    alone = compare_planned(planned, Sources(lake, lake), told=counted.append, processes=1)
    spread = compare_planned(planned, Sources(lake, lake), told=lambda _: None, processes=2)
    assert sum(counted) == 410
    assert sorted(one.planned.key for one in spread) == sorted(one.planned.key for one in alone)
    assert {one.planned.key: one.row for one in spread} == {one.planned.key: one.row for one in alone}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--a", "true"],
        ["0198c2"],
        ["0198c2", "0198d7", "--a", "true", "--b", "true"],
        ["--a", "colour = 1", "--b", "true"],
        ["--a", "true", "--b", "true", "--pair-by", "colour"],
        ["--cohort", "absent.jsonl", "--replays", "."],
        ["--cohort", "absent.jsonl", "--replays", "absent"],
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(tmp_path, arguments):
    """Nothing to compare, half of it, too much of it and wrong SQL exit with 2 and say what to do."""
    done = compare(lake_with(tmp_path, [made(1)]), *arguments)
    assert done.exit_code == 2
    assert "error[" in done.stderr


def test_no_pair_is_no_pass(tmp_path):
    """Conditions that no two runs share a case of cannot be judged."""
    done = compare(lake_with(tmp_path, [made(1)]), *VERSIONS)
    assert done.exit_code == 125

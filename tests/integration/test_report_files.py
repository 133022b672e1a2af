"""`--html` and `--junit` of `agent-replay diff` and `agent-replay compare`, through the command line."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib import resources

from click.testing import CliRunner

from otel_agent_replay.casefile.schema_check import problems
from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.writer import write_runs
from tests.support.lake_runs import RunMaker, answer
from tests.support.reports import read_data


def made(number, *, says):
    """A run of one case: what it is asked depends on its number, of a thousand on it is the same again."""
    maker = RunMaker(number)
    maker.model([{"role": "user", "content": f"order {number % 1000}"}], answer(says))
    recorded = maker.run()
    return replace(recorded, run=replace(recorded.run, thread_id=f"case {number % 1000}"))


def lake_of_pairs(folder, count):
    """`count` cases; in every second one the answer of B is another."""
    runs = [made(number, says="yes") for number in range(1, count + 1)]
    runs += [made(1000 + number, says="no" if number % 2 else "yes") for number in range(1, count + 1)]
    write_runs(folder, runs, segments=["one"])
    return folder


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def two(tmp_path):
    lake = lake_of_pairs(tmp_path / "lake", 1)
    return lake, RunMaker(1).run_id.hex(), RunMaker(1001).run_id.hex()


def test_diff_writes_both_files_beside_what_it_prints(tmp_path):
    """The terminal's report and exit code stay; the files say the same sentence."""
    lake, a, b = two(tmp_path)
    html, junit = tmp_path / "report.html", tmp_path / "junit.xml"
    bare = call("diff", "--lake", lake, a, b)
    done = call("diff", "--lake", lake, a, b, "--html", html, "--junit", junit)
    assert (done.exit_code, done.stdout) == (1, bare.stdout)
    sentence = json.loads(call("diff", "--lake", lake, a, b, "--json").stdout)["sentence"]
    assert read_data(html.read_text("utf-8"))["pair"]["sentence"] == sentence
    assert ET.parse(junit).find(".//failure").get("message") == sentence


def test_the_document_of_diff_is_as_its_schema_says(tmp_path):
    """What --json prints has no field that the schema does not name, and each as it says."""
    lake, a, b = two(tmp_path)
    document = json.loads(call("diff", "--lake", lake, a, b, "--json").stdout)
    schema = json.loads(resources.files("otel_agent_replay.report").joinpath("comparison.schema.json").read_text())
    assert problems(document, {**schema, "additionalProperties": False}) == []
    assert document["risk"]


def test_the_riskiest_changes_are_in_the_html(tmp_path):
    """Why a change ranks where it does stands in the plain part and beside its row."""
    lake, a, b = two(tmp_path)
    text = call("diff", "--lake", lake, a, b, "--format", "html").stdout
    reason = json.loads(call("diff", "--lake", lake, a, b, "--json").stdout)["risk"][0]["reasons"][0]
    assert f"of 100: {reason}" in text
    assert any(reason in told for one in read_data(text)["pair"]["details"].values() for told in one["told"])


def test_diff_prints_html(tmp_path):
    """`--format html` prints the file that `--html` writes."""
    lake, a, b = two(tmp_path)
    call("diff", "--lake", lake, a, b, "--html", tmp_path / "report.html")
    done = call("diff", "--lake", lake, a, b, "--format", "html")
    assert done.stdout == (tmp_path / "report.html").read_text("utf-8")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """The message says which file, why, and what to do."""
    lake, a, b = two(tmp_path)
    done = call("diff", "--lake", lake, a, b, "--html", tmp_path / "nowhere" / "report.html")
    assert done.exit_code == 2
    assert "nowhere" in done.stderr
    assert "folder that is there" in done.stderr


def test_compare_puts_every_differing_case_into_one_file(tmp_path):
    """The cohort's file lists all cases; those that differ hold their aligned pair, and JUnit has a test a metric."""
    lake = lake_of_pairs(tmp_path / "lake", 6)
    html, junit = tmp_path / "report.html", tmp_path / "junit.xml"
    between = RunMaker(500).run_id.hex()
    conditions = ("--a", f"run_id < '{between}'", "--b", f"run_id > '{between}'", "--pair-by", "thread_id")
    done = call("compare", "--lake", lake, *conditions, "--html", html, "--junit", junit, "--json")
    document = json.loads(done.stdout)
    data = read_data(html.read_text("utf-8"))
    differing = {case["key"] for case in document["cases"] if case["differs"]}
    assert len(document["cases"]) == 6
    assert set(data["pairs"]) == differing == {"case 1", "case 3", "case 5"}
    assert {case["key"] for case in data["cases"]} == {case["key"] for case in document["cases"]}
    tests = {case.get("name") for case in ET.parse(junit).iter("testcase")}
    assert tests == {"verdict", *(metric["name"] for metric in document["metrics"])}


def test_compare_of_two_runs_writes_what_diff_writes(tmp_path):
    """Two runs named to `compare` give diff's files."""
    lake, a, b = two(tmp_path)
    call("diff", "--lake", lake, a, b, "--html", tmp_path / "diff.html")
    done = call("compare", "--lake", lake, a, b, "--html", tmp_path / "compare.html")
    assert done.exit_code == 1
    assert (tmp_path / "compare.html").read_text() == (tmp_path / "diff.html").read_text()

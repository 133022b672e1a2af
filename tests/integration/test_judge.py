"""A judge that somebody brings: asked where final answers differ, labelled as one, deciding nothing."""

import json
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.testing.builders import run

JUDGES = """
def lenient(before, after):
    return None

def strict(before, after):
    return f"one says {before!r}, the other {after!r}"

def broken(before, after):
    raise TimeoutError("the model is away")

def odd(before, after):
    return 7

def never(before, after):
    raise AssertionError("equal texts are no question")
"""


def answering(seed, said, *, agent="desk", question="late?"):
    return run(agent, seed=seed, input=question).model(question, said).build(said)


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """Two runs whose answers mean the same in other words; the judges lie in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judges_of_test.py").write_text(JUDGES)
    write_runs(tmp_path / "lake", [answering(1, "It is late."), answering(2, "It has not come yet.")], segments=["one"])
    return tmp_path / "lake"


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def asked(lake, judge, *more, a=1, b=2):
    ids = [answering(number, "").run.run_id.hex() for number in (a, b)]
    return call("diff", "--lake", lake, *ids, "--judge", f"judges_of_test:{judge}", *more)


@pytest.mark.parametrize(
    ("judge", "reply", "told"),
    [
        ("lenient", "same", "judge judges_of_test:lenient: the same meaning"),
        ("strict", "changed", "judge judges_of_test:strict: another meaning: one says"),
        ("broken", "cannot be known", "the judge gave no answer: TimeoutError: the model is away"),
        ("odd", "cannot be known", "it returned int, and a text or None is wanted"),
    ],
)
def test_its_word_is_labelled_and_changes_no_verdict(lake, judge, reply, told):
    """Terminal, Markdown, HTML and JSON name the judge beside what it says; exit code and verdict stay as they were."""
    document = json.loads(asked(lake, judge, "--json").stdout)
    (question,) = [one for one in document["questions"] if one["asked"] == "final answer, by a judge"]
    assert (question["reply"], document["verdict"]) == (reply, "different")
    assert told in question["detail"]
    for form in ("terminal", "html"):
        done = asked(lake, judge, "--format", form)
        assert done.exit_code == 1
        assert f"judge judges_of_test:{judge}" in done.stdout
    assert "judge judges\\_of\\_test" in asked(lake, judge, "--format", "markdown").stdout


def test_equal_answers_are_not_asked_about(lake):
    """A judge costs something: of one text it is not asked."""
    done = asked(lake, "never", "--json", b=1)
    assert done.exit_code == 0
    assert "the judge was not asked" in done.stdout


def test_without_a_judge_nobody_is_asked(lake):
    """None is needed: no question of a judge stands in the report."""
    ids = [answering(number, "").run.run_id.hex() for number in (1, 2)]
    assert "by a judge" not in call("diff", "--lake", lake, *ids, "--json").stdout


@pytest.mark.parametrize("judge", ["nowhere_at_all:f", "judges_of_test:gone", "judges_of_test"])
def test_a_judge_that_is_not_there_is_a_usage_error(lake, judge):
    """It is named before any run is read."""
    done = call("diff", "--lake", lake, "aa", "bb", "--judge", judge)
    assert done.exit_code == 2
    assert "--judge" in done.output and judge.partition(":")[0] in done.output


def test_over_a_cohort_its_words_are_counted_as_a_metric(tmp_path, lake):
    """Each pair has the judge's word; how often it says "something else" is a metric of the pairs."""
    runs = [answering(number, "late", question=f"q {number}", agent="old") for number in range(10, 30)]
    runs += [answering(number + 100, "not here", question=f"q {number}", agent="new") for number in range(10, 30)]
    write_runs(tmp_path / "many", runs, segments=["one"])
    sides = ("compare", "--lake", tmp_path / "many", "--a", "agent = 'old'", "--b", "agent = 'new'")
    junit = tmp_path / "junit.xml"
    done = call(*sides, "--judge", "judges_of_test:strict", "--json", "--junit", junit)
    document = json.loads(done.stdout)
    (metric,) = [one for one in document["metrics"] if "by the judge" in one["name"]]
    assert (metric["b"], metric["judgement"]) == (1.0, "described")  # there is no baseline lane to hold it against
    assert all(pair["judged"] is False for case in document["cases"] for pair in case["pairs"])
    assert any("a judge's word: 20 mean something else, 0 not judged" in note for note in document["notes"])
    assert any("by the judge" in case.get("name") for case in ET.parse(junit).iter("testcase"))
    lenient = json.loads(call(*sides, "--judge", "judges_of_test:lenient", "--json").stdout)
    (metric,) = [one for one in lenient["metrics"] if "by the judge" in one["name"]]
    assert metric["b"] == 0.0
    assert not any("by the judge" in one["name"] for one in json.loads(call(*sides, "--json").stdout)["metrics"])

"""The HTML file and JUnit as texts: what they hold, what they cannot be broken by, what their data say."""

import json
import re
import xml.etree.ElementTree as ET
from base64 import b64encode
from hashlib import sha256
from importlib import resources

import pytest

from otel_agent_replay.casefile.schema_check import problems
from otel_agent_replay.compare import compare
from otel_agent_replay.model import AnswerSource, Kind, Loss, LossReason
from otel_agent_replay.report import html_page
from otel_agent_replay.report.html import comparison_html
from otel_agent_replay.report.html_page import classic_script, stylesheet
from otel_agent_replay.report.json_report import comparison_json
from otel_agent_replay.report.junit import comparison_junit
from otel_agent_replay.testing.builders import run
from tests.support.reports import HOSTILE, pair_document, pair_html, read_data

WEB = resources.files("otel_agent_replay.report").joinpath("web")


def one_tool(seed, result, **more):
    return run("desk", seed=seed).tool("look", {}, result, **more).build()


def test_the_data_come_back_as_they_were():
    """A report's data are read back from its text alone, with their format."""
    data = read_data(pair_html())
    assert data["format"] == html_page.DATA_FORMAT
    assert data["pair"]["sentence"] == pair_document()["sentence"]
    assert len(data["pair"]["columns"]["depth"]) == len(pair_document()["rows"])


def test_the_policy_names_exactly_this_script_and_style():
    """The hashes are those of what stands in the file, and nothing else may load."""
    text = pair_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(text):
    return b64encode(sha256(text.encode()).digest()).decode()


@pytest.mark.parametrize("name", sorted(file.name for file in WEB.iterdir() if file.name.endswith((".js", ".css"))))
def test_modules_stay_small(name):
    """Each file of web/ is under 40 KB as it is written, and is in the page."""
    text = WEB.joinpath(name).read_text("utf-8")
    assert len(text.encode()) < 40_000
    if name.endswith(".js"):
        assert f"const {name.removesuffix('.js')}_js = " in classic_script()
    else:
        assert text == stylesheet()


def test_no_module_makes_markup_of_text():
    """Nothing in web/ parses text as markup, evaluates it or loads anything."""
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|fetch\(|XMLHttp|import\("
    assert not re.search(forbidden, classic_script())


def test_hostile_text_closes_no_element():
    """The only script elements are the page's own, whatever a recording says."""
    text = pair_html(HOSTILE)
    assert text.count("<script") == 2
    assert "<img" not in text


@pytest.mark.parametrize(
    ("source", "word"), [(AnswerSource.TAPE, "replayed"), (AnswerSource.EDITED, "edited"), (AnswerSource.POOL, "run")]
)
def test_each_row_says_where_its_answer_came_from(source, word):
    """Replayed, live, edited and missing are told apart, side by side where the sides differ."""
    a = run("desk", seed=1).tool("look", {}, 1).build()
    b = run("desk", seed=2).tool("look", {}, 1, source=source).tool("more", {}, 1).build()
    pair = read_data(comparison_html(comparison_json(compare(a, b))))["pair"]
    told = [pair["origins"][number] for number in pair["columns"]["origin"]]
    assert told[1].startswith("A live, B ")
    assert told[1].endswith(word)
    assert told[2] == "A missing, B live"


def test_losses_stand_before_the_verdict():
    """What was lost is read before any claim."""
    lossy = run(seed=2).loss(Loss(LossReason.DROPPED, "records", 2)).tool("t", {}, 2).build()
    text = comparison_html(comparison_json(compare(run(seed=1).tool("t", {}, 1).build(), lossy)))
    assert text.index("2 records were dropped") < text.index('class="verdict"')


def test_what_is_volatile_is_told_with_its_count():
    """Clock reads that differ are no difference, and are not kept silent."""
    a, b = (run(seed=seed).read(Kind.CLOCK, "time.time", seed).tool("x", {}, seed).build() for seed in (1, 2))
    text = comparison_html(comparison_json(compare(a, b)))
    assert "Not counted as differences: clock reads 1" in text


def test_identical_runs_have_a_report_too():
    """Nothing differs: the report says so and has its rows."""
    text = comparison_html(comparison_json(compare(one_tool(1, 1), one_tool(2, 1))))
    assert "The runs are identical" in text
    assert read_data(text)["pair"]["departure"] is None


def cases_of(text):
    return {case.get("name"): [child.tag for child in case] for case in ET.fromstring(text).iter("testcase")}


def test_junit_fails_what_changed():
    """Departure and changed questions fail, equal ones pass, what neither run has is skipped."""
    cases = cases_of(comparison_junit(pair_document()))
    assert cases["departure"] == ["failure"]
    assert cases["tool results"] == ["failure"]
    assert cases["model answers"] == []
    assert cases["approvals"] == ["skipped"]


def test_junit_of_equal_runs_passes():
    """No failure and no error where nothing differs, and the counts say so."""
    root = ET.fromstring(comparison_junit(comparison_json(compare(one_tool(1, 1), one_tool(2, 1)))))
    suite = root.find("testsuite")
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert int(suite.get("tests")) == len(suite.findall("testcase"))


def test_what_cannot_be_judged_is_an_error():
    """Runs whose records were lost from some place on are an error there, never a pass."""
    lossy = run("desk", seed=2).loss(Loss(LossReason.DROPPED, "records", 2)).build()
    document = comparison_json(compare(one_tool(1, 1), lossy))
    assert document["verdict"] == "not comparable"
    assert cases_of(comparison_junit(document))["departure"] == ["error"]


def test_no_text_breaks_xml():
    """Control characters of a recording are shown as escapes."""
    a, b = one_tool(1, "\x00\x1b[2J"), one_tool(2, "\x07]]>")
    told = ET.fromstring(comparison_junit(comparison_json(compare(a, b)))).find(".//failure").text
    assert "\\x07]]>" in told
    assert "\\x1b" in told


def test_json_rows_are_both_runs_as_one_list():
    """Rows come parents first, name nodes by place and changes by number; the schema names every field."""
    document = pair_document()
    schema = json.loads(resources.files("otel_agent_replay.report").joinpath("comparison.schema.json").read_text())
    assert problems(document, schema) == []
    assert set(document) == set(schema["required"]) <= set(schema["properties"])
    assert {one for row in document["rows"] for one in row} == set(schema["$defs"]["row"]["properties"])
    node = document["departure"]["at"]
    assert set(node) == set(schema["$defs"]["node"]["properties"])
    assert set(document["departure"]) == set(schema["$defs"]["departure"]["properties"])
    changed = [row["change"] for row in document["rows"] if row["change"] is not None]
    assert sorted(changed) == list(range(len(document["changes"])))

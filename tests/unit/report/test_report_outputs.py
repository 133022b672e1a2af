"""What the reports say, and that recorded text can do nothing in them."""

import html
import io
import json
import re

import pytest
from rich.console import Console

from otel_agent_replay.compare import compare
from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.model import AnswerSource, Kind, Loss, LossReason, RunStatus, SideEffect, Versions
from otel_agent_replay.replay.verdict import Departure, MissedStep, ReplayVerdict, VerdictStatus
from otel_agent_replay.report.comparison_tree import comparison_lines
from otel_agent_replay.report.coverage import coverage_lines
from otel_agent_replay.report.html import comparison_html
from otel_agent_replay.report.json_report import comparison_json
from otel_agent_replay.report.markdown import LIMIT, comparison_markdown
from otel_agent_replay.report.run_document import run_json, step_json
from otel_agent_replay.report.run_tree import run_lines, step_lines
from otel_agent_replay.report.safe_text import markdown, markdown_code, visible
from otel_agent_replay.report.terminal import plain_text, print_lines
from otel_agent_replay.report.verdict_lines import verdict_lines
from otel_agent_replay.testing.builders import run

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07 \u202egpj.exe <script>alert(1)</script> [x](javascript:1) @team #1 | `` ``` "
    "</code></details>\n# h"
)


def hostile_run(seed, result):
    return run(HOSTILE, seed=seed).tool(HOSTILE, {HOSTILE: HOSTILE}, {"text": result}).build(result)


def weather(seed, temperature):
    return (
        run("weather", seed=seed)
        .tool("forecast", {"city": "Paris"}, {"t": temperature})
        .model("q", "a")
        .build(temperature)
    )


def test_identical_runs_take_one_line():
    """Nothing but the sentence."""
    comparison = compare(weather(1, 21), weather(2, 21))
    assert len(comparison_lines(comparison)) == 1
    assert comparison_markdown(comparison).count("\n") == 1


def test_the_terminal_names_departure_cause_values_and_rows():
    """The first screen has verdict, cause, both values, every question and the marked tree."""
    text = plain_text(comparison_lines(compare(weather(1, 21), weather(2, 30))))
    assert "B departs from A at step 1 · tool forecast: same request, different result." in text
    assert "cause: tool result differed for equal arguments" in text
    assert re.search(r"result: t\n\s+A 21\n\s+B 30", text)
    assert re.search(r"tool results\s+changed\s+1 compared, first at step 1", text)
    assert re.search(r"★~\s+1\s+1\s+tool forecast {2}result", text)


def test_every_report_says_which_versions_a_stopped_replay_never_learnt():
    """Terminal, JSON, Markdown and HTML tell them in the same words, and none of them as changed."""
    a = run(seed=1, versions=Versions(packages={"openai": "3.1"})).tool("t", {}, 1).tool("t", {}, 2).build()
    b = run(seed=2).tool("t", {}, 1).build(mode="exact", status=RunStatus.DEPARTED)
    comparison = compare(a, b)
    document = comparison_json(comparison)
    told = "not known in B, a replay that stopped early: package openai (3.1 in A)"
    text = plain_text(comparison_lines(comparison))
    assert re.search(rf"versions\s+cannot be known\s+1 compared {re.escape(f'({told})')}", text)
    assert (document["questions"][0]["reply"], document["questions"][0]["detail"]) == ("cannot be known", told)
    (row,) = (line for line in comparison_markdown(comparison).splitlines() if line.startswith("| versions"))
    assert "**cannot be known**" in row
    assert markdown(told) in row
    page = html.unescape(comparison_html(document))
    assert f"<td>cannot be known</td><td>1 compared, 0 differ; {told}</td>" in page
    assert "3.1 -> " not in text + page


def test_equal_rows_are_folded_with_a_count():
    """A long equal stretch is one row that says how long."""
    a, b = run(seed=1), run(seed=2)
    for number in range(30):
        a.tool("t", {"n": number}, 1)
        b.tool("t", {"n": number}, 1 if number < 29 else 2)
    text = plain_text(comparison_lines(compare(a.build(), b.build())))
    assert "… 27 equal rows" in text


def test_losses_come_before_the_verdict():
    """What was lost is said before any claim."""
    lossy = run(seed=2).loss(Loss(LossReason.DROPPED, "records", 2)).tool("t", {}, 2).build()
    lines = plain_text(comparison_lines(compare(run(seed=1).tool("t", {}, 1).build(), lossy))).splitlines()
    assert lines[0].startswith("note, B: 2 records were dropped")


def test_hostile_text_cannot_drive_a_terminal():
    """No control, escape or direction character of a recording reaches the terminal, styled or not."""
    a, b = hostile_run(1, HOSTILE), hostile_run(2, HOSTILE + "2")
    comparison = compare(a, b)
    for lines in (comparison_lines(comparison), run_lines(a), step_lines(a, 1), coverage_lines(a)):
        stream = io.StringIO()
        print_lines(lines, stream)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", stream.getvalue())
        assert "\\x1b[2J" in stream.getvalue() or lines == coverage_lines(a)


def test_recorded_markup_is_not_read_as_markup():
    """Square brackets of a recording are text, not a style of ours."""
    stream = io.StringIO()
    print_lines(run_lines(run("[bold]x[/bold]").build()), stream)
    assert "[bold]x[/bold]" in stream.getvalue()


def test_hostile_text_cannot_leave_its_place_in_markdown():
    """No tag but ours, no row broken, no link, heading or mention."""
    text = comparison_markdown(compare(hostile_run(1, HOSTILE), hostile_run(2, HOSTILE + "2")))
    tags = set(re.findall(r"</?[a-z]+", text))
    assert tags <= {"<code", "</code", "<details", "</details", "<summary", "</summary"}
    assert text.count("<code>") == text.count("</code>")
    assert "](" not in text.replace("\\](", "").replace("\\]\\(", "")
    assert "\n# h" not in text
    for row in (line for line in text.splitlines() if line.startswith("|") and "---" not in line):
        assert len(re.findall(r"(?<!\\)\|", row)) in {4, 5}
    assert not re.search(r"(?<![\w\\])@team", text)


@pytest.mark.parametrize("render", [markdown, markdown_code])
def test_markdown_text_is_still_the_text(render):
    """What is escaped is read as it was."""
    shown = html.unescape(re.sub(r"<[^>]+>", "", render("a < b & *c* 1")))
    assert shown.replace("\\", "") == "a < b & *c* 1"


def test_shortened_values_say_by_how_much():
    """A long value shows its beginning and the number of characters left out."""
    text = html.unescape(comparison_markdown(compare(weather(1, "x" * 5000), weather(2, "y" * 5000))))
    assert "more characters)" in text


def test_a_comment_keeps_below_the_limit_and_counts_the_rest():
    """Thousands of consequences fit by being counted."""
    a, b = run(seed=1), run(seed=2)
    for number in range(3000):
        a.tool("t" * 20, {"n": number}, number)
        b.tool("t" * 20, {"n": number}, -number - 1)
    text = comparison_markdown(compare(a.build(), b.build()))
    assert len(text) < LIMIT + 500
    assert re.search(r"and \d+ more: `agent-replay diff --json` lists them", text)
    assert text.count("<details>") == text.count("</details>") == 1


def test_json_of_a_comparison_says_its_schema_and_survives_json():
    """The document is JSON through and through and holds the departure's values."""
    document = json.loads(json.dumps(comparison_json(compare(weather(1, 21), weather(2, 30)))))
    assert (document["schema"], document["schema_version"]) == ("agent-replay/comparison", 1)
    assert document["verdict"] == "different"
    place = document["departure"]["change"]["fields"][0]["differences"][0]
    assert place == {"path": "t", "before": 21, "after": 30}
    assert document["departure"]["consequences"][0]["edge"] == "recorded"
    assert {"asked": "tool results", "reply": "changed"}.items() <= document["questions"][4].items()


def test_a_side_that_has_nothing_has_no_value_in_json():
    """Missing is not null."""
    document = comparison_json(compare(weather(1, {"a": 1}), weather(2, {"a": 1, "b": None})))
    assert document["departure"]["change"]["fields"][0]["differences"] == [{"path": "t.b", "after": None}]


def test_show_lists_each_step_with_its_facts():
    """One line a span, with step, kind, time, tokens, cost, side effect, failure, source."""
    recorded = (
        run("support")
        .model("q", "a", tokens=(1200, 30), cost_usd=0.0021)
        .tool("refund", {"order": 1}, {"ok": True}, side_effect=SideEffect.EXTERNAL)
        .tool("lookup", {}, error=KeyError("order"))
        .tool("again", {}, 1, source=AnswerSource.TAPE)
        .foreign("GET /health")
        .build()
    )
    text = plain_text(run_lines(recorded))
    assert recorded.run.run_id.hex() in text
    assert re.search(r"1 {2}model chat gpt-4o-mini .*1,200 -> 30 tokens {2}\$0\.0021", text)
    assert "side effect external" in text
    assert "error builtins:KeyError" in text
    assert "from tape" in text
    assert "span GET /health" in text


def test_one_step_is_shown_whole():
    """Request, answer and reads of a step, nothing shortened."""
    long = "word " * 2000
    inside = lambda tool: tool.read(Kind.CLOCK, "time.time", 1.5)
    recorded = run().tool("t", {"text": long}, {"n": 1}, inside=inside).build()
    text = plain_text(step_lines(recorded, 1))
    assert long in text
    assert "clock time.time = 1.5" in text
    assert step_json(recorded, 1)["request_body"] == {"text": long}
    with pytest.raises(CannotJudge, match="has no step 99; it has steps 1 to 1"):
        step_lines(recorded, 99)


def test_a_digest_only_step_says_so():
    """Where the content was not kept, that is what is shown."""
    recorded = run().tool("t", {"a": 1}, 1).build(keep_payloads=False)
    assert "its digest only" in plain_text(step_lines(recorded, 1))


def test_coverage_lists_what_was_not_captured_and_what_was_lost():
    """Both in words."""
    recorded = (
        run().covered("aiohttp", "not_captured", "no middlewares").loss(Loss(LossReason.TORN, "records", 1)).build()
    )
    text = plain_text(coverage_lines(recorded))
    assert re.search(r"aiohttp {2}no\s+no middlewares", text)
    assert "lost: 1 records (torn)" in text


def test_run_json_has_every_span():
    """Spans of ours and of others, digests instead of bodies."""
    recorded = run().model("q", "a").foreign("x").build()
    document = json.loads(json.dumps(run_json(recorded)))
    assert len(document["spans"]) == len(recorded.spans)
    assert document["spans"][1]["node"]["request"]["sha256"] == recorded.spans[1].node.call.request.digest.hex()


def test_a_verdict_says_where_and_why():
    """Departure, what was never asked for, and which fence stood."""
    verdict = ReplayVerdict(
        VerdictStatus.DEPARTED,
        "ab" * 16,
        departure=Departure(
            7, ("run:a#0", "model:chat#1"), "the old", "the \x1bnew", (), ("messages[3].content: 1 -> 2",)
        ),
        steps_recorded=9,
        steps_replayed=6,
        never_asked=(MissedStep(8, ("run:a#0", "tool:x#0")),),
        fences=("audit hook",),
    )
    text = plain_text(verdict_lines(verdict))
    assert text.startswith("Departed at step 7 (6 of 9 steps answered from the recording).")
    assert "the \\x1bnew" in text
    assert "never asked for: step 8 tool:x#0" in text
    assert "fences: audit hook" in text


def test_an_equal_replay_begins_with_one_line():
    """The first line is the verdict."""
    verdict = ReplayVerdict(VerdictStatus.SAME, "ab" * 16, steps_recorded=3, steps_replayed=3)
    assert (
        verdict_lines(verdict)[0].plain == "Same: 3 of 3 steps answered from the recording, 0 reads; nothing departed."
    )


def test_a_verdict_names_whose_order_was_let_go():
    """Steps by their numbers; what is no step, like a wait that was given up, is counted."""
    verdict = ReplayVerdict(VerdictStatus.SAME, "ab" * 16, order_not_imposed=(2, 0, 3, 0))
    text = plain_text(verdict_lines(verdict))
    assert "order let go, as nothing moved any more: step 2, step 3, 2 ends of threads, puts or waits" in text


def test_visible_keeps_ordinary_text():
    """Letters of any script, emoji and punctuation stay."""
    text = "Grüße, 世界 🎉 [x] 'y'"
    assert visible(text) == text
    assert visible("a\nb", keep_lines=True) == "a\nb"
    assert visible("a\nb") == "a\\nb"


def test_styles_do_not_change_the_text():
    """A console with colours shows the same characters."""
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=True, color_system="truecolor", width=20, highlight=False, markup=False
    )
    lines = run_lines(run("a very long agent name that is wider than the window").build())
    for item in lines:
        console.print(item, soft_wrap=True)
    assert "a very long agent name that is wider than the window" in re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


def test_standing_limits_come_last_and_once():
    """What no recording captures is said once for both runs, after the difference, not before the verdict."""
    a = run(seed=1).covered("processes", "not_captured").tool("t", {}, 1).build()
    b = run(seed=2).covered("processes", "not_captured").tool("t", {}, 2).build()
    lines = plain_text(comparison_lines(compare(a, b))).splitlines()
    assert lines[0].startswith("B departs from A")
    assert lines[-1] == "note, A and B: not captured, or in part: processes"
    assert "**A and B**" in comparison_markdown(compare(a, b))

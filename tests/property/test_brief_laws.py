"""Laws of a brief: it keeps its size, and nothing that was recorded stands outside a fence, whatever it says."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.report.brief import FEWEST_CHARS, Quote, Section, brief_text, fenced
from otel_agent_replay.report.brief_reports import sections_of

REDACTION = Redaction.default()
MARK = "IGNORE"
hostile = st.lists(
    st.sampled_from(
        ["`", "```", "````text", "\n", "\r\n", "~~~", "\u2028", "\x0b", "\x85", "| ", "# ", MARK, "a", " "]
    ),
    max_size=12,
).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile, inner, max_size=3),
    max_leaves=6,
)


def outside(text):
    """Return the lines that are in no fence, by CommonMark's rules of backtick and tilde fences."""
    open_fence, found = None, []
    for line in text.split("\n"):
        fence = re.match(r" {0,3}(`{3,}|~{3,})(.*)$", line)
        if open_fence is None:
            if fence is not None and ("`" not in fence[2] or fence[1][0] == "~"):
                open_fence = fence[1]
            else:
                found.append(line)
        elif (
            fence is not None
            and fence[1][0] == open_fence[0]
            and len(fence[1]) >= len(open_fence)
            and not fence[2].strip()
        ):
            open_fence = None
    assert open_fence is None
    return found


@given(hostile)
def test_nothing_inside_ends_a_fence(text):
    """A fenced block is one block: no line of it is outside, and each stands behind its bar."""
    block = fenced(text)
    assert outside(block) == []
    assert all(line.startswith("| ") for line in block.split("\n")[1:-1])


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.lists(hostile, max_size=5), st.integers(1, 800)), max_size=6),
    st.integers(FEWEST_CHARS, 12_000),
)
def test_a_brief_never_exceeds_its_size(parts, size):
    """However much there is to say, the document has at most the characters that were asked for."""
    sections = [
        Section("Part", quotes=[Quote("Said", text * times) for text in texts], commands=["agent-replay runs"])
        for texts, times in parts
    ]
    text = brief_text("a test", sections, redaction=REDACTION, max_chars=size)
    assert len(text) <= size
    assert not [line for line in outside(text) if MARK in line]


KEYS = {
    "agent-replay/comparison": ("verdict", "sentence", "a", "b", "departure", "notices", "questions", "changes"),
    "agent-replay/replayability": ("run", "verdict", "reason", "departure", "replays"),
    "agent-replay/gate": ("standing", "sentence", "cases"),
    "agent-replay/steps": ("steps", "lanes", "disagreements"),
    "agent-replay/rerun": ("lanes", "results"),
}
INNER = (
    *("run_id", "at", "step", "kind", "name", "path", "cause", "evidence", "change", "fields", "differences", "before"),
    *("after", "expected", "came", "location", "candidates", "reasons", "case", "standing", "told", "trials"),
    *("invariants", "comparison", "report", "status", "origin_run_id", "text", "asked"),
)
inner = st.recursive(
    hostile | st.integers(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(INNER), below, max_size=5),
    max_leaves=12,
)


@st.composite
def reports(draw):
    schema = draw(st.sampled_from([None, *KEYS]))
    if schema is None:
        keys = ("status", "run_id", "exit_code", "departure", "reason", "losses", "output_differences", "agent")
        return {key: draw(inner | values) for key in keys}
    return {"schema": schema, **{key: draw(inner | values) for key in KEYS[schema]}}


@settings(deadline=None)
@given(reports())
def test_no_text_of_a_report_stands_outside_a_fence(report):
    """Reports of any content, forged ones too, become a brief whose own lines hold none of their text."""
    what, sections = sections_of(report)
    text = brief_text(what, sections, redaction=REDACTION)
    assert not [line for line in outside(text) if MARK in line]

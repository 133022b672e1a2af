"""Scores in exports of Langfuse: labels of the runs that they judge, each once, nothing secret in them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.imports.files import read_file
from otel_agent_replay.lake.views import connect
from tests.support.recordings import data_folder

TRACE, ROOT, CHILD = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2


def score(**fields):
    return {
        "id": "s1",
        "traceId": TRACE,
        "observationId": None,
        "name": "correct",
        "value": 0.5,
        "stringValue": None,
        "dataType": "NUMERIC",
        "source": "API",
        "authorUserId": None,
        "comment": None,
        "timestamp": "2025-10-09T08:55:00.000Z",
        "updatedAt": "2025-10-09T08:55:00.000Z",
        **fields,
    }


def export(*scores, **beside):
    ask = {
        "id": CHILD,
        "traceId": TRACE,
        "type": "GENERATION",
        "name": "ask",
        "startTime": "2025-10-09T08:53:20.123Z",
        "endTime": "2025-10-09T08:53:21.5Z",
        "parentObservationId": ROOT,
    }
    root = {**ask, "id": ROOT, "type": "AGENT", "name": "agent", "parentObservationId": None}
    return {"id": TRACE, "name": "t", "observations": [root, ask], "scores": list(scores), **beside}


def imported(tmp_path, *documents):
    paths = []
    for number, document in enumerate(documents):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(document))
    command = ["import", "--lake", str(tmp_path / "lake"), "--json", *map(str, paths)]
    return CliRunner().invoke(main, command, catch_exceptions=False)


def labels(tmp_path):
    with connect(tmp_path / "lake") as connection:
        rows = connection.execute(
            "SELECT labels.name, value.number, value.boolean, value.text, who, span_id, note, labelled_at::TEXT "
            "FROM labels JOIN runs USING (run_id) ORDER BY labels.name, labelled_at"
        )
        return rows.fetchall()


def test_scores_become_labels_of_their_run(tmp_path):
    """A number, a yes or no, a category and a text, of the run or of one span, with who, when and why."""
    scores = (
        score(comment="half of it"),
        score(name="polite", dataType="BOOLEAN", value=1, stringValue="True", source="EVAL", observationId=CHILD),
        score(name="tone", dataType="CATEGORICAL", value=2, stringValue="warm", source="ANNOTATION", authorUserId="u7"),
        score(name="words", dataType="TEXT", value=None, longStringValue="well said", updatedAt=None),
    )
    done = imported(tmp_path, export(*scores))
    assert (done.exit_code, json.loads(done.stdout)["span_count"]) == (0, 2)
    at = "2025-10-09 08:55:00"
    assert labels(tmp_path) == [
        ("score.correct", 0.5, None, None, "langfuse:api", None, "half of it", at),
        ("score.polite", None, True, None, "langfuse:eval", CHILD, None, at),
        ("score.tone", None, None, "warm", "langfuse:u7", None, None, at),
        ("score.words", None, None, "well said", "langfuse:api", None, None, at),
    ]


def test_a_score_is_written_once_and_a_changed_one_beside_it(tmp_path):
    """Importing again, alone or among others, doubles nothing; a later change is a second label."""
    changed = score(value=0.9, updatedAt="2025-10-10T08:55:00.000Z")
    other = export(score(traceId="1" * 32), id="1" * 32)
    for observation in other["observations"]:
        observation["traceId"] = "1" * 32
    imported(tmp_path, export(score()))
    imported(tmp_path, export(score()), other)
    assert [row[1] for row in labels(tmp_path)] == [0.5, 0.5]
    imported(tmp_path, export(score(), changed))
    assert [row[1] for row in labels(tmp_path)] == [0.5, 0.5, 0.9]


@pytest.mark.parametrize(
    "odd", ["s1", 7, {}, score(name=None), score(value=None), score(dataType="CATEGORICAL", value=1, stringValue="")]
)
def test_a_score_that_says_nothing_is_told_and_left_out(tmp_path, odd):
    """What is only an id, or has no name or value, is named as unreadable; the others are kept."""
    done = imported(tmp_path, export(odd, score()))
    assert done.exit_code == 1
    assert [one["code"] for one in json.loads(done.stdout)["anomalies"]] == ["unreadable"]
    assert [row[0] for row in labels(tmp_path)] == ["score.correct"]


def test_a_score_of_a_trace_that_is_not_there_is_told(tmp_path):
    """A score needs a run that it judges."""
    done = imported(tmp_path, export(score(traceId="2" * 32)))
    assert (done.exit_code, labels(tmp_path)) == (0, [])
    assert "score.correct was left out" in done.stderr
    corrected = imported(tmp_path, export(corrections=[{"id": "c"}]))
    assert "1 corrections" in corrected.stderr


def test_no_credential_comes_in_by_a_score(tmp_path):
    """What stands in a comment, a value or a name is masked like all that is recorded."""
    leaky = {"dataType": "TEXT", "value": None, "stringValue": f"used {SECRET}", "comment": f"key {SECRET}"}
    imported(tmp_path, export(score(**leaky, authorUserId=SECRET), score(name=f"with {SECRET}")))
    assert len(labels(tmp_path)) == 2
    assert SECRET not in repr(labels(tmp_path))
    for path in (tmp_path / "lake").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


@pytest.mark.real
def test_scores_of_a_real_export():
    """A published trace of the Vercel AI SDK has two scores by evaluators."""
    folder = data_folder()
    if folder is None:
        pytest.skip("recordings of others are absent: set OTEL_AGENT_REPLAY_DATA")
    found = read_file(folder / "langfuse" / "vercel-aisdk-2025-11-17.trace.json")
    assert list(found.spans)
    assert [(one.name, one.value, one.who) for one in found.labels] == [
        ("score.hallucination", 0.0, "langfuse:eval"),
        ("score.toxicity", 0.0, "langfuse:eval"),
    ]

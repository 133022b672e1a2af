"""What `agent-replay diff` says where the recordings cannot tell: never "the same", never "differs"."""

import json

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import AnswerSource, Loss, LossReason, RunStatus
from otel_agent_replay.testing.builders import run
from tests.support.reports import read_data


def refunding(seed, order):
    """A run whose final answer names a refund of the order that its search found."""
    builder = run("desk", seed=seed).tool("search", {"q": "late"}, {"order": order})
    builder.tool("refund", {"order": order}, {"number": f"RF-{order}"})
    return builder.build(f"refunded: RF-{order}")


def pair(tmp_path, a, b):
    """Write both runs into a lake; return a function that diffs them."""
    write_runs(tmp_path / "lake", [a, b], segments=["one"])

    def diff(*more):
        ids = [one.run.run_id.hex() for one in (a, b)]
        return CliRunner().invoke(main, ["diff", "--lake", str(tmp_path / "lake"), *ids, *more])

    return diff


def judged(diff):
    """The document, having seen that exit code, terminal and Markdown say that it cannot be judged."""
    done = diff("--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 125
    assert document["verdict"] == "not comparable"
    assert document["departure"]["comparable"] is False
    cause = document["departure"]["cause"]
    for form in ("terminal", "markdown", "html"):
        told = diff("--format", form)
        assert told.exit_code == 125
        assert cause in told.stdout
    assert f"the runs cannot be compared: {cause}" in diff().stdout.replace("\n", " ")
    assert "Why the final answer differs" not in diff().stdout
    return document


def test_a_replay_that_asked_what_was_never_recorded_is_not_said_to_differ(tmp_path):
    """Not resolvable: the replay left its tape, and what would have come then nobody knows."""
    a = run(seed=1).tool("search", {"q": 1}, "found").tool("mail", {"to": "ann"}, "sent").build()
    b = run(seed=2).tool("search", {"q": 1}, "found", source=AnswerSource.TAPE)
    document = judged(pair(tmp_path, a, b.build(status=RunStatus.DEPARTED, mode="exact")))
    assert document["departure"]["cause"] == "fork needs an unrecorded answer"
    assert document["notices"][0]["code"] == "departed"


def test_a_call_that_a_fork_may_not_make_is_not_said_to_differ(tmp_path):
    """Not resolvable: a write off the tape is refused, so its answer is unknown."""
    a = run(seed=1).tool("refund", {"sum": 5}, "done").build()
    b = run(seed=2).tool("refund", {"sum": 5}, error=RuntimeError("refused"), source=AnswerSource.REFUSED)
    document = judged(pair(tmp_path, a, b.build(mode="fork")))
    assert document["departure"]["cause"] == "fork needs an unrecorded answer"


def test_a_recording_whose_process_died_is_not_said_to_differ(tmp_path):
    """Ending not observed: what the killed run would have done is not "missing"."""
    a = run(seed=1).tool("search", {"q": 1}, "found").tool("mail", {"to": "ann"}, "sent").build()
    b = run(seed=2).tool("search", {"q": 1}, "found").build(status=RunStatus.PENDING)
    document = judged(pair(tmp_path, a, b))
    assert document["departure"]["cause"] == "ending not observed"
    assert document["notices"][0] == {
        "code": "pending",
        "run": "B",
        "text": "the run never ended: its process died, or it still runs",
    }


def test_equal_masks_do_not_make_equal_requests(tmp_path):
    """Redaction may be the cause: both asked for a masked address, which may have been two."""
    a = run(seed=1).tool("find", {"mail": "[masked]****"}, {"orders": 1}).build()
    b = run(seed=2).tool("find", {"mail": "[masked]****"}, {"orders": 2}).build()
    document = judged(pair(tmp_path, a, b))
    assert document["departure"]["cause"] == "redaction may be the cause"
    assert "a value that a redaction rule replaced" in document["departure"]["evidence"][0]


def test_a_value_that_one_recording_masked_is_not_said_to_differ(tmp_path):
    """Redaction may be the cause: one lake was written under a stricter rule."""
    a = run(seed=1).tool("who", {}, {"mail": "ann@example.org", "age": 7}).build()
    b = run(seed=2).tool("who", {}, {"mail": "[masked]*******", "age": 7}).build()
    document = judged(pair(tmp_path, a, b))
    assert document["departure"]["cause"] == "redaction may be the cause"
    assert "at mail" in document["departure"]["evidence"][0]


@pytest.mark.parametrize(
    ("asked", "mode"),
    [({"mail": "[hash:0123456789abcdef]"}, "record"), ({"mail": "[masked]****"}, "regression")],
    ids=["a keyed hash", "a re-run of the same input"],
)
def test_redaction_is_no_excuse_where_the_values_are_known_to_be_equal(tmp_path, asked, mode):
    """Equal keyed hashes are equal values, and a re-run was given what its origin was."""
    a = run(seed=1).tool("find", asked, {"orders": 1}).build()
    origin = b"" if mode == "record" else a.run.run_id
    b = run(seed=2).tool("find", asked, {"orders": 2}).build(mode=mode, origin=origin)
    done = pair(tmp_path, a, b)("--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["departure"]["cause"] == "tool result differed for equal arguments"


def test_a_difference_beside_a_mask_is_a_difference(tmp_path):
    """What differs outside of the masked value differs whatever the value was."""
    a = run(seed=1).tool("who", {}, "[masked]** ordered tea").build()
    b = run(seed=2).tool("who", {}, "[masked]** ordered coffee").build()
    assert pair(tmp_path, a, b)().exit_code == 1


def test_losses_stand_before_every_claim(tmp_path):
    """What a recording lost is said before the verdict, in each form."""
    a = run(seed=1).tool("search", {"q": 1}, "found").tool("mail", {"to": "ann"}, "sent").build()
    b = run(seed=2).loss(Loss(LossReason.DROPPED, "records", 3)).tool("search", {"q": 1}, "found").build()
    diff = pair(tmp_path, a, b)
    document = judged(diff)
    assert document["departure"]["cause"] == "recording incomplete"
    for form in ("terminal", "markdown", "html"):
        told = diff("--format", form).stdout
        told = told[told.find("<h1>") :] if form == "html" else told
        assert 0 <= told.find("3 records were dropped") < told.find(document["departure"]["cause"])
    assert "unless it happened unseen" in document["risk"][0]["reasons"][-1]
    assert document["risk"][0]["improvement"] is False


def test_the_final_answer_is_led_back_step_by_step_in_every_form(tmp_path):
    """Terminal, Markdown, HTML, JSON and the brief of it tell over which steps the answer came to differ."""
    diff = pair(tmp_path, refunding(1, "alpha-77"), refunding(2, "bravo-88"))
    document = json.loads(diff("--json").stdout)
    walk = document["walks"][-1]
    steps = {row["a"]: row for row in document["rows"]}
    assert document["changes"][walk["change_number"]]["a"]["kind"] == "run"
    assert (walk["end"], steps[walk["at"]]["mark"]) == ("an equal request was answered differently", "~")
    assert [hop["basis"] for hop in walk["hops"]] == [
        "the text of an answer inside of a text",
        "an equal part, by its digest",
    ]
    report = tmp_path / "report.json"
    report.write_text(json.dumps(document))
    brief = CliRunner().invoke(main, ["brief", str(report)]).stdout
    for told in (diff().stdout, diff("--format", "markdown").stdout, brief):
        assert "Why the final answer differs" in told
    assert "## Why the final answer differs" in brief
    assert "| step 1 · tool search: equal request, different answer" in brief
    assert len(read_data(diff("--format", "html").stdout)["pair"]["details"]["0"]["way"]) == 3

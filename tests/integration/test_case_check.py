"""`agent-replay case check`, `seal`, `suggest`: a case tells its runs apart, and an edited one fails as tampered."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml
from click.testing import CliRunner

from otel_agent_replay.casebook.folder import open_case
from otel_agent_replay.casebook.queries import rows_of
from otel_agent_replay.casefile.document import schema
from otel_agent_replay.cli.main import main
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.replay.component.case import Case as ComponentCase
from tests.support.case_runs import bad_run, good_run

GOOD, BAD = good_run(), bad_run()
GOOD_ID, BAD_ID = GOOD.run.run_id.hex(), BAD.run.run_id.hex()


def run(*arguments):
    """Call the command line; return its exit code and its output."""
    result = CliRunner().invoke(main, [str(one) for one in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def checked(folder, *options):
    """The exit code of a check, and what it says of the case."""
    result = CliRunner().invoke(main, ["case", "check", str(folder), "--json", *options])
    (case,) = json.loads(result.stdout)["cases"]
    return result.exit_code, case


@pytest.fixture
def lake(tmp_path):
    write_runs(tmp_path / "lake", [GOOD, BAD], segments=["one"])
    return tmp_path / "lake"


@pytest.fixture
def case(lake, tmp_path):
    """The case of the bad run, with the good one beside it."""
    options = ["--good", GOOD_ID, "--from", 5, "--name", "one", "--into", tmp_path / "cases"]
    code, output = run("case", "add", BAD_ID, "--lake", lake, *options)
    assert code == 0, output
    return tmp_path / "cases" / "one"


def edit(folder, **sections):
    """Put sections of case.yaml in the place of those that are there."""
    path = folder / "case.yaml"
    content = yaml.safe_load(path.read_text())
    for name, value in sections.items():
        content[name] = value
    path.write_text(yaml.safe_dump(content))


def test_a_case_of_two_runs_is_sound_at_once(case):
    """It rejects the bad run by name and step, accepts the good one, and kills mutants of the good one."""
    code, found = checked(case)
    assert (code, found["worth"], found["tampering"]) == (0, "sound", [])
    bad, good = found["runs"]
    assert bad["must"] == "be rejected"
    order = next(one for one in bad["invariants"] if one["rule"] == "order")
    assert (order["state"], order["evidence"][0]["step"]) == ("broken", 5)
    assert {one["state"] for one in good["invariants"]} == {"held"}
    mutants = found["mutants"]
    assert mutants["killed"] + len(mutants["survived"]) == mutants["tried"] == 11
    assert mutants["killed"] >= 9
    code, output = run("case", "check", case)
    assert f"{mutants['killed']} of 11 killed" in output
    assert "survived: order swapped" in output


def test_a_case_that_accepts_its_bad_run_is_none(case):
    """After the telling invariants are taken out and the case is sealed, it fails for what it does not notice."""
    edit(case, expect={"must_call": ["lookup"]}, effects={"at_most_once": False}, transitions={})
    assert run("case", "seal", case)[0] == 0
    code, found = checked(case)
    assert (code, found["worth"]) == (1, "accepts its bad run")
    edit(case, expect={"must_call": ["nobody"]})
    run("case", "seal", case)
    assert checked(case)[1]["worth"] == "rejects a good run"


def tampered(case):
    code, found = checked(case)
    assert (code, found["worth"], found["runs"]) == (1, "tampered", [])
    return {(one["kind"], one["what"].split("/")[0]) for one in found["tampering"]}


def test_an_invariant_that_is_gone_or_changed_is_tampering(case):
    """Removing one, or changing what one says, fails until the case is sealed anew; the seal tells what went."""
    content = yaml.safe_load((case / "case.yaml").read_text())
    expect = dict(content["expect"])
    del expect["must_cite"]
    edit(case, expect={**expect, "only": [{"tool": "*"}]})
    assert tampered(case) == {("invariant removed", "must_cite policy-7"), ("invariant changed", "only")}
    code, output = run("case", "seal", case)
    assert code == 0
    assert "invariant removed: must_cite policy-7" in output
    assert checked(case)[1]["tampering"] == []


def test_an_invariant_that_was_added_is_checked_and_told(case):
    """A stricter case is no tampering: the new invariant counts, and is told as not sealed yet."""
    content = yaml.safe_load((case / "case.yaml").read_text())
    edit(
        case,
        about="Another sentence.",
        expect={**content["expect"], "must_call": content["expect"]["must_call"] + ["x"]},
    )
    code, found = checked(case)
    assert (code, found["added_since_sealed"]) == (1, ["must_call x"])
    assert found["worth"] == "rejects a good run"


def test_what_a_case_feeds_to_its_run_is_sealed_too(case):
    """Another entry or input under the same name is another test."""
    edit(case, entry="other.app:desk", input={"order_id": "18"})
    assert {kind for kind, _ in tampered(case)} == {"inputs changed"}


@pytest.mark.parametrize("table", ["spans", "payloads"])
def test_an_altered_recording_is_tampering_and_cannot_be_sealed(case, table):
    """One byte of a table changed, or the table gone: it fails as tampered, and no seal makes it a test."""
    (path,) = (case / "lake" / table).rglob("*.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    assert ("file altered", "lake") in tampered(case)
    code, output = run("case", "seal", case)
    assert code == 125
    assert "cannot be sealed" in output
    path.unlink()
    assert ("file missing", "lake") in tampered(case)


def test_a_run_that_was_put_in_is_tampering(case):
    """A run in the case's lake that nobody sealed is told."""
    write_runs(case / "lake", [good_run(9)], segments=["two"])
    assert tampered(case) == {("run added", good_run(9).run.run_id.hex())}


def test_a_manifest_that_is_gone_or_broken_is_tampering(case):
    """Without its manifest a recording proves nothing, until it is sealed again."""
    (case / "manifest.json").write_text("{")
    assert {kind for kind, _ in tampered(case)} == {"manifest missing"}
    (case / "manifest.json").unlink()
    assert {kind for kind, _ in tampered(case)} == {"manifest missing"}
    assert run("case", "seal", case)[0] == 0
    assert checked(case)[1]["worth"] == "sound"


def test_a_case_that_checks_nothing_fails(case):
    """An empty case is no test."""
    edit(case, expect={}, effects={"at_most_once": False}, transitions={})
    assert ("no invariant", "it checks nothing") in tampered(case)


def test_notes_and_replays_are_no_tampering(case):
    """A README beside a case, and the log of who replayed it, change nothing."""
    (case / "README.md").write_text("why")
    (case / "lake" / "audit.jsonl").write_text("{}\n")
    assert checked(case)[0] == 0


def test_a_control_case_keeps_its_run(lake, tmp_path):
    """The skeleton of a control case accepts its run; an invariant that the run breaks makes it fail."""
    code, output = run("case", "add", GOOD_ID, "--control", "--lake", lake, "--into", tmp_path, "--name", "guard")
    assert code == 0, output
    code, found = checked(tmp_path / "guard")
    assert (code, found["kind"], found["runs"][0]["must"]) == (0, "control", "be accepted")
    edit(tmp_path / "guard", expect={"must_refuse": True})
    run("case", "seal", tmp_path / "guard")
    assert checked(tmp_path / "guard")[1]["worth"] == "rejects a good run"


def test_another_case_may_be_the_good_one(case, lake, tmp_path):
    """`good` takes the folder of a case beside it."""
    run("case", "add", GOOD_ID, "--control", "--lake", lake, "--into", tmp_path / "cases", "--name", "guard")
    edit(case, good=["../guard"])
    run("case", "seal", case)
    code, found = checked(case)
    assert (code, found["runs"][1]["run"]) == (0, GOOD_ID)


def test_sql_sees_the_run_alone(case):
    """A query over the views of one run: its rows only, no other file, one SELECT; mutants are seen too."""
    query = "SELECT step FROM tool_calls WHERE name = 'refund' ORDER BY step"
    lake = case / "lake"
    assert [row["step"] for row in rows_of(lake, BAD.run.run_id)(query)] == [5, 6]
    assert [row["step"] for row in rows_of(lake, GOOD.run.run_id)(query)] == [6]
    assert rows_of(lake, GOOD.run.run_id)("SELECT count(DISTINCT run_id) AS runs FROM steps")[0]["runs"] == 1
    texts = rows_of(lake, GOOD.run.run_id)("SELECT count(*) AS n FROM payloads")[0]["n"]
    assert 0 < texts
    for wrong in ("DROP VIEW runs", "SELECT 1; SELECT 2", "SELECT * FROM read_text('/etc/hostname')", "SELEC"):
        with pytest.raises(ValueError):
            rows_of(lake, BAD.run.run_id)(wrong)
    dear = "SELECT step FROM tool_calls WHERE arguments LIKE '%9900%'"
    edit(case, expect={"sql": [{"name": "no dear refund", "query": dear}]}, transitions={})
    run("case", "seal", case)
    code, found = checked(case)
    assert (code, found["worth"]) == (0, "sound")
    assert found["runs"][0]["invariants"][0]["evidence"][1]["actual"] == {"step": 5}


def test_what_the_recording_does_not_tell_cannot_be_judged(lake, tmp_path):
    """A case whose only invariant is unknown of its bad run is neither sound nor broken."""
    run("case", "add", BAD_ID, "--lake", lake, "--into", tmp_path, "--name", "one")
    edit(
        tmp_path / "one", expect={"sql": [{"query": "SELECT nothing"}]}, effects={"at_most_once": False}, transitions={}
    )
    run("case", "seal", tmp_path / "one")
    assert checked(tmp_path / "one")[::1][0] == 125


def test_suggest_prints_a_part_of_a_case(lake):
    """What tells the runs apart comes as YAML that parses, with a line of evidence each, and as JSON."""
    code, output = run("case", "suggest", BAD_ID, "--good", GOOD_ID, "--lake", lake)
    assert code == 0
    content = yaml.safe_load(output)
    assert content["transitions"] == {"forbidden": ["WAITING_HUMAN_APPROVAL -> AUTO_EXECUTE"]}
    assert {"tool": "send_mail"} in content["expect"]["must_not_call"]
    assert "(step 4)" in output
    code, output = run("case", "suggest", BAD_ID, "--good", GOOD_ID, "--lake", lake, "--json")
    assert json.loads(output)["suggestions"][0]["good_runs"] == 1
    assert run("case", "suggest", GOOD_ID, "--good", GOOD_ID, "--lake", lake)[0] == 1


def test_many_cases_are_checked_in_one_go(case, tmp_path):
    """The exit code is that of the worst of them."""
    other = tmp_path / "cases" / "two"
    shutil.copytree(case, other)
    assert run("case", "check", case, other)[0] == 0
    edit(other, entry="a:b")
    code, output = run("case", "check", case, other)
    assert code == 1
    assert "two: tampered" in output


def test_one_file_serves_component_runs_too(case):
    """A component run reads the same case.yaml, once it says whom to call; the schema knows both."""
    edit(case, entry="shop.agents:desk", fixtures=[{"tool": "lookup", "attempts": [{"value": 1}]}])
    assert ComponentCase.load(case).fixtures[0].name == "lookup"
    assert {"must_call", "events"} <= set(schema()["$defs"]["expect"]["properties"])


def test_a_run_of_the_case_is_what_was_kept(case):
    """The open case has its run, its good one and the digest of the run as it was recorded."""
    opened = open_case(case)
    assert opened.kept.recorded.run.run_id == BAD.run.run_id
    assert [one.recorded.run.run_id for one in opened.good] == [GOOD.run.run_id]
    assert len(opened.manifest.origin) == 64


def test_wrong_use_is_told(case, lake, tmp_path):
    """A step that is not there, options that exclude each other, a folder without a case, an unknown key."""
    assert "has no step 99" in run("case", "add", BAD_ID, "--from", 99, "--lake", lake, "--into", tmp_path)[1]
    assert run("case", "add", BAD_ID, "--lake", lake, "--no-redact", "--redact-own")[0] == 2
    assert run("case", "check", tmp_path)[0] == 2
    edit(case, expects={})
    code, output = run("case", "check", case)
    assert code == 2
    assert "did you mean 'expect'?" in output

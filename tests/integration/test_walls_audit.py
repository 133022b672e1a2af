"""The audit log: an entry for every replay, and no change to it that goes unnoticed but those that the page names."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.errors import CannotJudge
from otel_agent_replay.replay import audit as audit_module
from otel_agent_replay.replay.audit import AuditLog, enter, shown_command
from otel_agent_replay.replay.limits import Limits
from tests.support.agents import ROOT, Script, assert_same

AGENT = """
import sys
import otel_agent_replay as replay

@replay.agent
def clerk(question):
    return question

clerk("how much?")
"""


@pytest.fixture
def log(tmp_path):
    log = AuditLog(tmp_path)
    for number in range(6):
        log.append("replay", run_id=bytes([number]) * 16, mode="exact", command=["python", "agent.py", str(number)])
    return log


def lines_of(log):
    return log.path.read_bytes().splitlines(keepends=True)


def test_every_replay_is_entered(tmp_path):
    """Who, when, which run, which mode, what was allowed, which walls; nothing secret in it."""
    secret = "shop-token-of-production-1234567"
    script = Script(tmp_path, AGENT, SHOP_TOKEN=secret)
    run = script.record()["clerk"]
    out = tmp_path / "out"
    out.mkdir()
    assert_same(
        script.replay(
            run, "--password", "hunter2", f"--note=for {secret}", "TOKEN=abc", allow=["localhost:1"],
            allow_write=[out], limits=Limits(cpu=60), identity={"OTHER_KEY": "another-secret-98765"},
        )
    )  # fmt: skip
    (entry,) = AuditLog(script.lake).entries()
    assert entry["action"] == "replay"
    assert entry["run_id"] == run.run.run_id.hex()
    assert entry["mode"] == "exact"
    assert entry["who"]["pid"] == os.getpid()
    assert entry["who"]["user"]
    assert entry["allowed"] == {
        "endpoints": ["localhost:1"],
        "folders": [str(out)],
        "limits": ["cpu=60"],
        "identity": ["OTHER_KEY"],
    }
    assert entry["walls"] == ["in-process"]
    assert entry["command"][1:] == [
        str(script.path), "--password", "[masked]", entry["command"][4], "TOKEN=[masked]",
    ]  # fmt: skip
    text = AuditLog(script.lake).path.read_text()
    for hidden in (secret, "hunter2", "TOKEN=abc", "another-secret"):
        assert hidden not in text
    assert AuditLog(script.lake).check().first_break is None


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["a", "--api-key", "k1", "rest"], ["a", "--api-key", "[masked]", "rest"]),
        (["a", "--api_key=k1"], ["a", "--api_key=[masked]"]),
        (["env", "OPENAI_API_KEY=k1", "a"], ["env", "OPENAI_API_KEY=[masked]", "a"]),
        (["a", "--token", "--verbose", "word"], ["a", "--token", "--verbose", "word"]),
        (["a", "https://ann:pass12345@host/"], ["a", "https://ann:[masked]*@host/"]),
        (["python", "agent.py", "Where is order 17?"], ["python", "agent.py", "Where is order 17?"]),
    ],
)
def test_a_command_line_is_shown_without_its_secrets(argv, shown):
    """By the name of the option, of the variable, or by shape."""
    assert shown_command(argv) == shown


def test_an_untouched_chain_holds(log):
    """Numbers rise by one and every hash holds; a head that was kept elsewhere is still in it."""
    found = log.check()
    assert (found.entries, found.first_break, found.notes) == (6, None, ())
    kept = json.loads(lines_of(log)[2])["hash"]
    assert log.check(kept).first_break is None
    assert log.check("0" * 63 + "1").first_break is not None


@pytest.mark.parametrize("number", range(6))
def test_a_changed_line_is_the_first_break(log, number):
    """One altered letter anywhere is named by its line."""
    lines = lines_of(log)
    lines[number] = lines[number].replace(b'"exact"', b'"exacT"')
    log.path.write_bytes(b"".join(lines))
    assert log.check().first_break[0] == number + 1


@pytest.mark.parametrize("number", range(6))
def test_a_line_changed_with_its_hash_breaks_the_next(log, number):
    """Whoever makes the hash anew breaks the line after it, or the head."""
    lines = lines_of(log)
    entry = json.loads(lines[number])
    entry["mode"] = "other"
    entry["hash"] = audit_module._hash_of(entry)
    lines[number] = audit_module._text(entry) + b"\n"
    log.path.write_bytes(b"".join(lines))
    assert log.check().first_break[0] == min(number + 2, 6)


@pytest.mark.parametrize("number", range(6))
def test_a_line_taken_out_is_noticed(log, number):
    """Also the last one: the head knows how many there were."""
    lines = lines_of(log)
    del lines[number]
    log.path.write_bytes(b"".join(lines))
    assert log.check().first_break[0] == min(number + 1, 6)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.path.write_bytes(b"".join(lines_of(log)[:3])),
        lambda log: log.path.write_bytes(b""),
        lambda log: log.path.unlink(),
        lambda log: log.path.write_bytes(b"".join(lines_of(log)[1::-1] + lines_of(log)[2:])),
        lambda log: log.path.write_bytes(b"".join(lines_of(log) + lines_of(log)[-1:])),
        lambda log: (log.folder / "head.json").unlink(),
        lambda log: (log.folder / "head.json").write_text("{"),
        lambda log: log.path.write_bytes(log.path.read_bytes()[:-40]),
        lambda log: log.path.write_bytes(log.path.read_bytes() + b"junk\n"),
    ],
    ids=["cut", "emptied", "removed", "swapped", "doubled", "no head", "bad head", "last one torn later", "junk"],
)
def test_other_tampering_is_noticed(log, change):
    """Cutting, emptying, swapping, doubling, and a head that is gone or damaged."""
    change(log)
    assert log.check().first_break is not None


@pytest.mark.parametrize("left", [1, 40, 200])
def test_a_torn_line_is_told_and_the_chain_goes_on(log, left):
    """A writer that died in its line leaves a torn one: it is noted by the next, and it stays noticed when removed."""
    whole = lines_of(log)
    with log.path.open("ab") as file:
        file.write(whole[-1][:left])
    torn = log.check()
    assert torn.first_break is None
    assert torn.notes == ("line 7, the last, is torn: its writer died",)
    entry = log.append("replay", run_id=b"n" * 16)
    assert (entry["sequence"], entry["torn"]["bytes"]) == (7, left)
    found = log.check()
    assert (found.entries, found.first_break) == (7, None)
    assert found.notes == ("line 7 is torn: its writer died; line 8 says so",)
    lines = lines_of(log)
    del lines[6]
    log.path.write_bytes(b"".join(lines))
    assert log.check().first_break == (7, "the torn line before this one was taken away")


def test_a_writer_that_died_before_the_head_is_no_break(log):
    """The head may be one entry behind; the next writer brings it up."""
    head = (log.folder / "head.json").read_bytes()
    log.append("replay")
    (log.folder / "head.json").write_bytes(head)
    found = log.check()
    assert found.first_break is None
    assert "one entry behind" in found.notes[0]
    log.append("replay")
    assert log.check().notes == ()


WRITER = """
import sys
from pathlib import Path
from otel_agent_replay.replay.audit import AuditLog
for number in range(int(sys.argv[2])):
    AuditLog(Path(sys.argv[1])).append("replay", run_id=bytes(16), command=["x" * number])
"""


def test_concurrent_writers_make_one_chain(tmp_path):
    """Four processes and two threads of this one, all at once: every entry is there and the chain holds."""
    log = AuditLog(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), "25"], env=environment) for _ in range(4)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: log.append("resume", run_id=bytes(16)), range(20)))
    assert [writer.wait(60) for writer in writers] == [0] * 4
    found = log.check()
    assert (found.entries, found.first_break, found.notes) == (120, None, ())


def test_what_cannot_be_entered_is_not_done(tmp_path):
    """A replay whose entry cannot be written does not start."""
    script = Script(tmp_path, AGENT)
    run = script.record()["clerk"]
    (script.lake / "audit").write_text("in the way")
    with pytest.raises(CannotJudge, match="could not be entered"):
        script.replay(run)
    enter(tmp_path / "no lake at all", "replay")
    assert not (tmp_path / "no lake at all").exists()


def test_the_command_lists_and_verifies(log, tmp_path):
    """`audit` lists, by run too; `audit verify` ends with 0 or 1 and names the line."""

    def asked(*arguments):
        return CliRunner().invoke(main, ["audit", "--lake", str(tmp_path), *arguments])

    assert len(json.loads(asked("--json").output)["audit"]) == 6
    assert "agent.py 3" in asked("--run", "0303").output
    assert "agent.py 4" not in asked("--run", "0303").output
    assert asked("verify").exit_code == 0
    assert json.loads(asked("verify", "--json").output)["holds"] is True
    lines = lines_of(log)
    log.path.write_bytes(b"".join([*lines[:2], lines[2].replace(b"exact", b"exacT"), *lines[3:]]))
    broken = asked("verify")
    assert broken.exit_code == 1
    assert "broken at line 3" in broken.output
    assert json.loads(asked("verify", "--json").output)["line"] == 3
    elsewhere = CliRunner().invoke(main, ["audit", "verify", "--lake", str(tmp_path)])
    assert (elsewhere.exit_code, elsewhere.output) == (1, broken.output)

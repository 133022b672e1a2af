"""How the reading commands tell of attempts and forks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.compare import Verdict, compare
from otel_agent_replay.export.journal import Journal
from otel_agent_replay.export.sealer import seal
from otel_agent_replay.lake.catalog import Lake
from tests.support.attempts import bring_and_seal, record
from tests.support.journal_runs import JournalRun, value

DEEDS = [("tool", name) for name in "abcde"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with a run of two attempts, of which the first died in its third step."""
    attempts = record(tmp_path / "made", DEEDS, [(3, True)])
    bring_and_seal([path for path, _ in attempts], tmp_path / "lake")
    return tmp_path / "lake"


@pytest.fixture
def origin(lake: Path) -> bytes:
    (summary,) = Lake(lake).runs()
    return summary.run.run_id


def fork(lake: Path, origin: bytes, step: int, *, last: bool = True) -> bytes:
    """Record a fork that does from `step` on what its origin did, but for the last call."""
    journal = Journal(lake)
    run = JournalRun(
        journal,
        origin_run_id=origin,
        fork_step=step,
        first_sequence=900,
        first_step=step,
        mode="fork",
        given=value("in"),
    )
    for place, (_, name) in enumerate(DEEDS[step - 1 :], step - 1):
        answer = {"at": place} if last or place < len(DEEDS) - 1 else "otherwise"
        run.tool(name, answer, value([name, place]))
    run.finish(output=value("out"))
    journal.close()
    seal(lake)
    return run.run_id


def call(lake: Path, name: str, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, [name, "--lake", str(lake), *arguments])
    assert result.exit_code == status, result.output
    return result.stdout


def test_the_list_shows_attempts_and_forks(lake: Path, origin: bytes) -> None:
    """Two small columns say how often a run was gone on with and what a fork is a fork of."""
    forked = fork(lake, origin, 4)
    head, *lines = call(lake, "runs").splitlines()
    assert ("attempts" in head, "fork of" in head) == (True, True)
    rows = {line.split()[0]: line for line in lines}
    assert f"{origin.hex()} at 4" in rows[forked.hex()]
    assert rows[origin.hex()].split()[6] == "2"
    document = json.loads(call(lake, "runs", "--json"))
    told = {one["run"]: (one["attempt"], one["fork_step"]) for one in document["runs"]}
    assert told == {forked.hex(): (1, 4), origin.hex(): (2, None)}


def test_show_says_the_attempt_and_what_was_made_again(lake: Path, origin: bytes) -> None:
    """The head counts attempts; the call that was in flight is told below the tree, not in it."""
    text = call(lake, "show", origin.hex())
    assert "attempt 2 of 2" in text.splitlines()[0]
    assert sum("tool c" in line for line in text.splitlines()) == 2
    assert "step 3 tool c  pending, attempt 1" in text
    document = json.loads(call(lake, "show", "--json", origin.hex()))
    assert [(one["number"], one["status"]) for one in document["attempts"]] == [(1, "pending"), (2, "ok")]
    assert [one["node"]["step"] for one in document["superseded"]] == [3]
    assert [one["node"]["step"] for one in document["spans"]] == [None, 1, 2, 3, 4, 5]


def test_show_says_what_a_fork_shares(lake: Path, origin: bytes) -> None:
    """Each step that is the origin's is marked."""
    lines = call(lake, "show", fork(lake, origin, 4).hex()).splitlines()
    assert f"fork of {origin.hex()} at step 4" in " ".join(lines[:2])
    assert sum("shared with its origin" in line for line in lines) == 3


def test_verify_says_whose_the_shared_steps_are(lake: Path, origin: bytes) -> None:
    """A fork's own digests are proved; for the rest it names the run to verify."""
    text = call(lake, "verify", fork(lake, origin, 4).hex())
    assert "every digest of 2 steps" in text
    assert f"before step 4 belong to run {origin.hex()}" in text


@pytest.mark.parametrize("step", range(1, 6))
def test_a_fork_is_compared_from_its_fork_on(lake: Path, origin: bytes, step: int) -> None:
    """What is shared is the same by construction, and the first line says how the two hang together."""
    same, other = fork(lake, origin, step), fork(lake, origin, step, last=False)
    stored = Lake(lake)
    assert compare(stored.load(origin), stored.load(same)).verdict is Verdict.IDENTICAL
    comparison = compare(stored.load(origin), stored.load(other))
    assert comparison.departure.at.step == 5
    assert [change.a.step for change in comparison.changes] == [5]
    sentence = f"B is a fork of A at step {step}"
    assert call(lake, "diff", origin.hex(), other.hex(), status=1).startswith(sentence)
    assert call(lake, "diff", "--format", "markdown", origin.hex(), other.hex(), status=1).startswith(sentence)
    document = json.loads(call(lake, "diff", "--json", other.hex(), origin.hex(), status=1))
    assert document["relation"].startswith(f"A is a fork of B at step {step}")
    assert "Both are forks of" in call(lake, "diff", same.hex(), other.hex(), status=1)

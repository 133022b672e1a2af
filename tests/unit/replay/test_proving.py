"""What several replays of one run prove, and how a recording is brought to replay; the replays are made up."""

from __future__ import annotations

from dataclasses import replace

from otel_agent_replay.compare.nondeterminism import rules_for
from otel_agent_replay.model import Loss, LossReason, RunStatus
from otel_agent_replay.replay.matching import Volatile
from otel_agent_replay.replay.proving import Chance, Replayability, chances, prove
from otel_agent_replay.replay.settling import Origin, settle
from otel_agent_replay.replay.verdict import Departure, ReplayVerdict, VerdictStatus
from otel_agent_replay.testing.builders import run

SAME = ReplayVerdict(VerdictStatus.SAME, "", steps_recorded=2, output_same=True)


def departed(*differences: str) -> ReplayVerdict:
    where = Departure(1, (), "this", "that", differences=differences, location="agent.py:7")
    return ReplayVerdict(VerdictStatus.DEPARTED, "", departure=where)


def recorded(hash_seed="7", **facts):
    built = run("desk", seed=1).tool("look", {"id": 1}, {"id": 1}).build("done")
    return replace(built, run=replace(built.run, hash_seed=hash_seed, **facts))


def proof_of(replay, *, one=None, times=3):
    asked = []

    def counted(chance):
        asked.append(chance)
        return replay(chance)

    return prove(one or recorded(), counted, times=times), asked


def test_the_same_in_every_replay_is_proven():
    """Each replay has a hash seed of its own, never the recorded one, and threads disturbed by a seed of its own."""
    proof, asked = proof_of(lambda _chance: SAME)
    assert proof.verdict is Replayability.PROVEN
    assert len({one.hash_seed for one in asked} - {"7"}) == 3
    assert all(one.shuffle for one in asked)
    assert asked == list(chances(recorded().run, 3))


def test_a_departure_is_laid_to_the_hash_seed_only_when_the_recorded_one_holds():
    """With the recorded seed all replays must be the same, threads disturbed; one that departs says otherwise."""
    proof, asked = proof_of(lambda chance: SAME if chance.hash_seed == "7" else departed("tags[0]: 1 -> 2"))
    assert proof.verdict is Replayability.RECORDED_SEED
    assert len(asked) == 5
    assert asked[-1] == Chance(asked[0].hash_seed)  # the seed alone brings it out again
    shuffles = [chance.shuffle for chance in asked if chance.shuffle]
    proof, _ = proof_of(lambda chance: departed() if chance.shuffle == shuffles[-1] else SAME)
    assert proof.verdict is Replayability.DEPARTS


def test_a_race_is_told_from_changed_code():
    """What departs under disturbed threads alone is a race; what departs undisturbed too is not."""
    race, asked = proof_of(lambda chance: departed() if chance.shuffle else SAME)
    assert (race.verdict, asked[-1]) == (Replayability.DEPARTS, Chance("7"))
    assert "which thread goes first" in race.reason
    changed, _ = proof_of(lambda _chance: departed())
    assert "undisturbed too" in changed.reason
    assert changed.departure is not None


def test_a_race_that_was_lucky_is_not_laid_to_the_hash_seed():
    """One departure, then the same whatever is tried: no seed decides, a race does."""
    once = iter([departed()])
    proof, _ = proof_of(lambda _chance: next(once, SAME))
    assert proof.verdict is Replayability.DEPARTS
    assert "which thread goes first" in proof.reason
    turns = iter([SAME, departed(), departed()])
    proof, _ = proof_of(lambda _chance: next(turns, departed()))
    assert "other replays of the same code are the same" in proof.reason


def test_an_unknown_hash_seed_is_said():
    """Where PYTHONHASHSEED was not set there is none to go back to: it departs, and says why nobody can tell."""
    proof, asked = proof_of(lambda _chance: departed(), one=recorded("random"))
    assert proof.verdict is Replayability.DEPARTS
    assert "not recorded" in proof.reason
    assert len(asked) == 1


def test_a_recording_with_holes_is_not_replayed_at_all():
    """Losses, a missing end, results that were not kept whole and gaps in coverage: nothing could be proven."""
    lossy = replace(recorded(), losses=[Loss(LossReason.DROPPED, "records", 2)])
    gap = run("desk", seed=2).covered("aiohttp", "not_captured").build("done")
    limits = run("desk", seed=3).covered("sleep.others", "not_captured").build("done")
    for one, word in ((lossy, "losses"), (recorded(status=RunStatus.PENDING), "no end"), (gap, "aiohttp")):
        proof, asked = proof_of(lambda _chance: SAME, one=one)
        assert proof.verdict is Replayability.CANNOT_JUDGE
        assert word in proof.reason
        assert asked == []
    assert proof_of(lambda _chance: SAME, one=limits)[0].verdict is Replayability.PROVEN


def test_an_outcome_that_was_not_compared_proves_nothing():
    """A mode that did not check something never says that it was equal."""
    proof, _ = proof_of(lambda _chance: replace(SAME, output_same=None))
    assert proof.verdict is Replayability.CANNOT_JUDGE


def settled_by(world, **options):
    """Settle a run whose requests depart at the places that `world(chance)` names and no rule covers."""

    def replay(chance, rules):
        left = [path for path in world(chance) if not Volatile(rules).covers(path)]
        return departed(*(f"{path}: 1 -> 2" for path in left)) if left else SAME

    return settle(recorded().run, replay, rules_for=rules_for, **options)


def test_each_place_is_called_by_what_brings_it_out():
    """A first replay finds what is on no tape, another hash seed the sets, disturbed threads the races."""

    def world(chance):
        yield "metadata.file"
        if chance.hash_seed:
            yield from ("tags[0]", "tags[1]")
        if chance.shuffle:
            yield "messages[0].content"

    found = settled_by(world)
    assert found.reason == ""
    assert {one.path: one.origin for one in found.found} == {
        "metadata.file": Origin.NOT_ON_TAPE,
        "tags[0]": Origin.HASH_SEED,
        "tags[1]": Origin.HASH_SEED,
        "messages[0].content": Origin.THREADS,
    }
    assert found.rules == ("metadata.file", "tags[*]", "messages[0].content")
    assert found.replays == 6


def test_what_no_rule_can_say_is_not_settled():
    """A step more, or a place that no path names, ends the search with the reason."""
    assert "agent.py:7" in settled_by(lambda _chance: ["['odd, key']"]).reason
    assert "still departing" in settled_by(lambda _chance: [f"p{n}" for n in range(9)], most=1).reason


def test_a_rule_covers_what_lies_under_it():
    """A path covers its place and all below, `[*]` every position, `**` every depth."""
    rules = Volatile(["metadata", "tags[*].at", "**.nonce"])
    covered = [path for path in ("metadata.a", "tags[3].at", "a.b[0].nonce", "tags[3].on", "tag") if rules.covers(path)]
    assert covered == ["metadata.a", "tags[3].at", "a.b[0].nonce"]

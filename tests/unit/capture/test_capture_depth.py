"""How much is kept of what: per tool, and of the states of runs that nobody will go back to."""

from __future__ import annotations

import json

import pytest

import otel_agent_replay as replay
from otel_agent_replay.capture.kept_states import StatesKept
from otel_agent_replay.errors import ConfigurationError
from otel_agent_replay.model import CaptureLevel, RunStatus, new_run_id
from otel_agent_replay.payload.redaction import Redaction
from otel_agent_replay.settings import Settings
from tests.support.memory_journal import recording

RULES = [{"path": "**.phone", "action": "mask"}]


def told(level, run_level=CaptureLevel.REDACTED):
    """What is written of a tool declared at `level` in a run at `run_level`, arguments and result."""
    with recording(level=run_level, redaction=Redaction.from_rules(RULES)) as journal:

        @replay.tool(side_effect="read", capture=level)
        def look(customer: dict) -> dict:
            return {"phone": "555 0199", "city": "Bonn"}

        @replay.agent(name="desk")
        def agent() -> None:
            look({"phone": "555 0100", "name": "Kim"})

        agent()
        begun, ended = journal.node("look")
        bodies = {record.body.digest: record.body.data for record in journal.records if record.HasField("body")}
        given = begun.request_data or bodies.get(begun.request_digest)
        gave = ended.result_data or bodies.get(ended.result_digest)
        return given, gave, begun, ended


def test_a_tool_at_full_keeps_what_rules_would_mask():
    """Only credentials are masked in it; the rest of the run follows its own level."""
    given, gave, _, _ = told("full")
    assert json.loads(given)["customer"]["phone"] == "555 0100"
    assert json.loads(gave)["phone"] == "555 0199"


def test_a_tool_at_redacted_is_masked_by_the_rules():
    """That is the run's default, too."""
    assert told("redacted")[:2] == told(None)[:2]
    assert b"555" not in told("redacted")[0] + told("redacted")[1]


def test_a_tool_at_digest_leaves_digests_and_sizes_only():
    """Neither arguments nor result are written anywhere, and both can still be held against others."""
    given, gave, begun, ended = told("digest")
    assert (given, gave) == (None, None)
    _, _, kept, kept_end = told("redacted")
    assert (begun.request_digest, ended.result_digest) == (kept.request_digest, kept_end.result_digest)
    assert begun.exchange.request_size == len(kept.request_data)
    assert ended.exchange.result_size == len(kept_end.result_data)


def test_a_tool_that_says_more_than_its_run_is_kept():
    """What is declared of the tool itself counts, in a run of which only digests are kept."""
    given, gave, _, _ = told("redacted", CaptureLevel.DIGEST)
    assert json.loads(given)["customer"]["name"] == "Kim"
    assert json.loads(gave)["city"] == "Bonn"
    assert told(None, CaptureLevel.DIGEST)[:2] == (None, None)


def test_what_yields_and_what_runs_below_follow_the_tool():
    """A generator's items, and a tool inside one at digest, are not kept either."""
    with recording() as journal:

        @replay.tool(side_effect="read")
        def inner(secret: str) -> str:
            return secret * 2

        @replay.tool(side_effect="read", capture="digest")
        def outer(secret: str):
            yield inner(secret)

        @replay.agent(name="desk")
        def agent() -> None:
            with replay.step("look"):
                list(outer("tell-tale"))
            inner("harmless")

        agent()
        written = b"".join(record.SerializeToString() for record in journal.records)
        assert b"tell-tale" not in written
        assert b"harmlessharmless" in written


def test_a_wrong_level_is_refused_where_it_is_declared():
    """The mistake shows at import, not in a recording without contents."""
    with pytest.raises(ValueError, match="everything"):
        replay.tool(capture="everything")(print)


# --- whose states are kept ---


@pytest.mark.parametrize("status", [status for status in RunStatus if status is not RunStatus.OK])
def test_a_run_that_did_not_end_well_keeps_its_states(status):
    """Whatever the policy: those are the runs that one goes back to."""
    assert not StatesKept(only_failed=True).leaves_out(new_run_id(), status, flagged=False)


def test_a_run_that_ended_well_keeps_its_states_only_if_asked():
    """Always, by default; else when it was flagged."""
    run_id = new_run_id()
    assert not StatesKept().leaves_out(run_id, RunStatus.OK, flagged=False)
    assert StatesKept(only_failed=True).leaves_out(run_id, RunStatus.OK, flagged=False)
    assert not StatesKept(only_failed=True).leaves_out(run_id, RunStatus.OK, flagged=True)


def test_a_sample_is_the_same_runs_everywhere_and_about_as_many_as_asked():
    """The run id decides alone, and a larger sample holds the smaller one."""
    runs = [number.to_bytes(16, "big") for number in range(4_000)]

    def kept(sample):
        policy = StatesKept(only_failed=True, sample=sample)
        return {run for run in runs if not policy.leaves_out(run, RunStatus.OK, flagged=False)}

    assert kept(0.0) == set()
    assert kept(1.0) == set(runs)
    assert 300 < len(kept(0.1)) < 500
    assert kept(0.1) < kept(0.3)


def test_a_flag_lies_on_the_run_with_its_reason():
    """A run may be flagged more than once; outside a run nothing happens."""
    replay.flag("nobody hears this")
    with recording() as journal:

        @replay.agent(name="desk")
        def agent() -> None:
            replay.flag("the customer complained")
            replay.flag("paid twice?")

        agent()
        (ended,) = journal.of("run_ended")
        marks = {attribute.name: attribute for attribute in ended.attributes}
        assert marks["agent_replay.flagged"].boolean is True
        assert json.loads(marks["agent_replay.flag_reasons"].nested) == ["the customer complained", "paid twice?"]


def test_settings_name_a_policy_and_a_share():
    """Another word, and a share beyond one, are refused with the option's name."""
    settings = Settings.load({}, {"AGENT_REPLAY_KEEP_STATE": "failed", "AGENT_REPLAY_STATE_SAMPLE": "0.25"})
    assert (settings.keep_state, settings.state_sample) == ("failed", 0.25)
    with pytest.raises(ConfigurationError, match="state_sample"):
        Settings.load({"state_sample": 1.5}, {})
    with pytest.raises(ConfigurationError, match="keep_state"):
        Settings.load({"keep_state": "some"}, {})

"""Parts of a trace that began more than a day apart: two runs, and each says so once the lake is compacted."""

from __future__ import annotations

import json

from click.testing import CliRunner

from otel_agent_replay.cli.main import main
from otel_agent_replay.imports.landing import land
from otel_agent_replay.lake.catalog import Lake
from otel_agent_replay.lake.compaction import compact
from otel_agent_replay.lake.writer import write_runs
from otel_agent_replay.model import LossReason, Span
from tests.support.lake_runs import full_run

TRACE = b"\x07" * 16
BEGUN = 1_764_400_000_000_000_000
DAY = 24 * 3600 * 10**9


def span(number, parent, begun, trace=TRACE):
    above = parent.to_bytes(8, "big") if parent else b""
    return Span(trace, number.to_bytes(8, "big"), f"s{number}", begun, begun + 9, above)


def landed(lake, *spans):
    (trace,) = land(lake, spans, source="test").traces
    return trace.run_id


def split_losses(lake, run_id):
    return [loss for loss in Lake(lake).load(run_id).losses if loss.what == "split_trace"]


def test_both_runs_say_that_their_trace_has_another(tmp_path):
    """Each names the other; runs whose trace has no other say nothing, nor does an own run of the same trace."""
    early, late = landed(tmp_path, span(1, 0, BEGUN)), landed(tmp_path, span(2, 1, BEGUN + 2 * DAY))
    alone = landed(tmp_path, span(1, 0, BEGUN, b"\x08" * 16))
    ours = full_run()
    write_runs(tmp_path, [ours], segments=())
    of_our_trace = landed(tmp_path, span(1, 0, BEGUN, ours.run.trace_id))
    assert early != late
    report = compact(tmp_path, grace_s=0)
    assert report.split_traces == 2
    for run_id, other in ((early, late), (late, early)):
        (loss,) = split_losses(tmp_path, run_id)
        assert (loss.reason, other.hex() in loss.detail, TRACE.hex() in loss.detail) == (LossReason.DAMAGED, True, True)
    assert not any(split_losses(tmp_path, run_id) for run_id in (alone, of_our_trace, ours.run.run_id))


def test_it_is_told_once_and_stays_when_a_run_is_completed(tmp_path):
    """A second compaction adds nothing; what lands later completes its part, and the anomaly stays."""
    early, late = landed(tmp_path, span(1, 0, BEGUN)), landed(tmp_path, span(2, 1, BEGUN + 2 * DAY))
    assert compact(tmp_path, grace_s=0).split_traces == 2
    assert landed(tmp_path, span(3, 1, BEGUN + 5)) == early
    assert landed(tmp_path, span(3, 1, BEGUN + 5)) == early
    assert compact(tmp_path, grace_s=0).split_traces == 0
    assert [len(split_losses(tmp_path, run_id)) for run_id in (early, late)] == [1, 1]
    landed(tmp_path, span(4, 1, BEGUN + 9 * DAY))
    assert compact(tmp_path, grace_s=0).split_traces == 3


def test_the_command_tells_it(tmp_path):
    """In words, and in its JSON; a dry run looks for nothing."""
    landed(tmp_path, span(1, 0, BEGUN)), landed(tmp_path, span(2, 1, BEGUN + 2 * DAY))
    dry = CliRunner().invoke(main, ["compact", "--lake", str(tmp_path), "--dry-run", "--json"])
    assert json.loads(dry.stdout)["split_traces"] == 0
    done = CliRunner().invoke(main, ["compact", "--lake", str(tmp_path), "--grace", "0"])
    assert (done.exit_code, "2 runs are a part of their trace" in done.output) == (0, True), done.output
